"""Packets of one connection for the tracker of TCP: side A is the client. Times are in milliseconds."""

from typing import NamedTuple

import numpy as np

from kdissect.array_types import Int64s
from kdissect.capture.segment_index import (
    FLAG_ACK,
    FLAG_ACK_ONLY,
    FLAG_FIN,
    FLAG_RST,
    FLAG_SYN,
    FLAG_WINDOW_CLOSED,
)
from kdissect.streams.tcp.tcp_tracker import TcpTracker

CLIENT, SERVER = 0, 1
MS = 10**6
START_NS = 1_700_000_000 * 10**9


class Packet(NamedTuple):
    """One row of a descriptor; positions count from the first byte of each side's data."""

    ms: float
    side: int
    flags: int
    position: int = 0
    acked: int = 0
    length: int = 0


def data(ms: float, side: int, position: int, length: int, acked: int = 0) -> Packet:
    """Return a segment with data."""
    return Packet(ms, side, FLAG_ACK, position, acked, length)


def ack(ms: float, side: int, acked: int, closed: bool = False) -> Packet:
    """Return an acknowledgment without data."""
    return Packet(ms, side, FLAG_ACK | FLAG_ACK_ONLY | (FLAG_WINDOW_CLOSED if closed else 0), 0, acked)


def syn(ms: float, side: int = CLIENT) -> Packet:
    """Return a SYN of the client, or the server's SYN-ACK."""
    return Packet(ms, side, FLAG_SYN | (FLAG_ACK if side == SERVER else 0), -1)


def fin(ms: float, side: int, position: int, acked: int) -> Packet:
    """Return a FIN."""
    return Packet(ms, side, FLAG_ACK | FLAG_FIN, position, acked)


def rst(ms: float, side: int) -> Packet:
    """Return a RST."""
    return Packet(ms, side, FLAG_RST)


def rows(packets: list[Packet], sequences: tuple[int, int] = (0xFFFFFFF0, 1000)) -> Int64s:
    """Return descriptors of packets; the client's sequence numbers wrap early."""
    columns = np.zeros((8, len(packets)), np.int64)
    for number, one in enumerate(packets):
        seq = (sequences[one.side] + one.position) & 0xFFFFFFFF
        acked = (sequences[1 - one.side] + one.acked) & 0xFFFFFFFF if one.flags & FLAG_ACK else 0
        time_ns = START_NS + round(one.ms * MS)
        columns[:, number] = (time_ns, number + 1, 0, one.length, 0, seq, acked, one.flags | one.side)
    return columns


def followed(packets: list[Packet], cuts: tuple[int, ...] = (), **options: int) -> TcpTracker:
    """Return a tracker that has seen the packets, cut into parts before the numbers `cuts`."""
    tracker, columns = TcpTracker(**options), rows(packets)
    for part in np.split(np.arange(len(packets)), list(cuts)):
        tracker.feed(np.ascontiguousarray(columns[:, part]), np.zeros(len(part), np.int64), 1)
    tracker.close()
    return tracker


def exchanges(seconds: int) -> list:
    """Return a request every second, answered after 5 ms."""
    packets = []
    for second in range(seconds):
        packets.append(data(1000 * second + 1, CLIENT, 10 * second, 10))
        packets.append(ack(1000 * second + 6, SERVER, 10 * (second + 1)))
    return packets
