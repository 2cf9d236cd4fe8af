"""Captures as they come from busy machines: the packets of a good one, some of them cut, missing or late.

    short     each packet is cut after 128 bytes (tcpdump -s 128)
    loss      one packet of fifty is missing, by chance
    sparse    one packet of a hundred is missing, by chance
    asked     only packets to servers are there (one direction of a tap, or an asymmetric route)
    answered  only packets from servers are there
    gaps      the packets of a tenth of a second are missing, every few seconds
    twice     each packet is there twice, a few microseconds apart (two interfaces)
    overtaken one packet of twenty comes 3 ms late, so that others overtake it (two queues)

The same happened to the cluster, so a report has to say the same: only that the capture is incomplete
comes on top of it.
"""

from __future__ import annotations

import io
import itertools
import random
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import dpkt
import zstandard

SHORT, LOST, SPARSE, AGAIN_NS = 128, 0.02, 0.01, 7_000
LATE, LATE_NS = 0.05, 3_000_000
GAP_NS, GAP_EVERY = 100_000_000, 37
NS = 10**9
MAGIC_NS, LONGEST = 0xA1B23C4D, 262_144

Packet = tuple[int, bytes]
"""A time in ns since the epoch, and the bytes."""

Harm = Callable[[Packet, random.Random], Iterator[tuple[Packet, int]]]
"""Return the packets in place of one, with the length that each had on the wire."""

End = tuple[bytes, int]
"""A host and a port."""


def _short(packet: Packet, _chance: random.Random) -> Iterator[tuple[Packet, int]]:
    time_ns, data = packet
    yield (time_ns, data[:SHORT]), len(data)


def _loss(packet: Packet, chance: random.Random) -> Iterator[tuple[Packet, int]]:
    if chance.random() >= LOST:
        yield packet, len(packet[1])


def _sparse(packet: Packet, chance: random.Random) -> Iterator[tuple[Packet, int]]:
    if chance.random() >= SPARSE:
        yield packet, len(packet[1])


def _gaps(packet: Packet, _chance: random.Random) -> Iterator[tuple[Packet, int]]:
    if packet[0] // GAP_NS % GAP_EVERY:
        yield packet, len(packet[1])


def _twice(packet: Packet, _chance: random.Random) -> Iterator[tuple[Packet, int]]:
    time_ns, data = packet
    yield packet, len(data)
    yield (time_ns + AGAIN_NS, data), len(data)


def _overtaken(packet: Packet, chance: random.Random) -> Iterator[tuple[Packet, int]]:
    time_ns, data = packet
    late_ns = LATE_NS if chance.random() < LATE else 0
    yield (time_ns + late_ns, data), len(data)


HARMS: dict[str, Harm] = {
    "short": _short,
    "loss": _loss,
    "sparse": _sparse,
    "gaps": _gaps,
    "twice": _twice,
    "overtaken": _overtaken,
}
DIRECTIONS = {"asked": True, "answered": False}
"""Harms that leave one direction of each connection, and whether that is the one to the server."""

NAMES = (*HARMS, *DIRECTIONS)
LATER = ("overtaken",)  # its packets come in another order
LOSSY = ("short", "loss", "sparse", "gaps", *DIRECTIONS)


def harmed(capture: Path, harm: str, folder: Path) -> Path:
    """Write a capture (pcapng, with one link type, perhaps compressed) with that harm as pcap; return it."""
    name = capture.name.partition(".")[0]
    chance = random.Random(f"{name} {harm}")
    reader = dpkt.pcapng.Reader(io.BytesIO(_content(capture)))
    packets = [(round(time * NS), bytes(data)) for time, data in reader]
    path = folder / f"{name}.{harm}.pcap"
    with path.open("wb") as file:
        file.write(struct.pack("=IHHiIII", MAGIC_NS, 2, 4, 0, 0, LONGEST, reader.datalink()))
        written: Iterable[tuple[Packet, int]]
        if harm in DIRECTIONS:
            written = _of_direction(packets, DIRECTIONS[harm])
        else:
            written = itertools.chain.from_iterable(HARMS[harm](packet, chance) for packet in packets)
        if harm in LATER:
            written = sorted(written, key=lambda one: one[0][0])
        for (moment, kept), length in written:
            file.write(struct.pack("=IIII", moment // NS, moment % NS, len(kept), length) + kept)
    return path


def _of_direction(packets: Sequence[Packet], to_server: bool) -> Iterator[tuple[Packet, int]]:
    """Yield the packets of one direction. The server is the end that more others talk to."""
    ends = [_ends(data) for _, data in packets]
    peers: dict[End, set[End]] = defaultdict(set)
    for sender, receiver in filter(None, ends):
        peers[sender].add(receiver)
        peers[receiver].add(sender)
    for packet, pair in zip(packets, ends, strict=True):
        if pair is None or to_server == (_popularity(peers, pair[1]) > _popularity(peers, pair[0])):
            yield packet, len(packet[1])


def _popularity(peers: dict[End, set[End]], end: End) -> tuple[int, int]:
    """Return how many others talk to an end; of two that are equal the lower port is the server's."""
    return len(peers[end]), -end[1]


def _ends(data: bytes) -> tuple[End, End] | None:
    """Return sender and receiver of a packet of TCP in Ethernet, None for other packets."""
    network = dpkt.ethernet.Ethernet(data).data
    segment = getattr(network, "data", None)
    if not isinstance(segment, dpkt.tcp.TCP):
        return None
    return (network.src, segment.sport), (network.dst, segment.dport)


def _content(capture: Path) -> bytes:
    data = capture.read_bytes()
    if capture.suffix != ".zst":
        return data
    return bytes(zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)).read())
