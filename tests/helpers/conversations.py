"""Conversations as they really were: the bytes of both directions, who sent what when, and which frames pair.

Frames are found here in the plainest way, from the first byte of a whole stream on, so that nothing of this
depends on the code under test. The packets of recorded captures are read with dpkt.
"""

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import dpkt

CLIENT, SERVER = 0, 1
CAPTURES = Path(__file__).parents[2] / "captures"


class Sent(NamedTuple):
    """Stream bytes start..stop of one side, sent at a time."""

    time_ns: int
    side: int
    start: int
    stop: int


class Exchange(NamedTuple):
    """Stream ranges of a request and of its response, length prefixes included; None: it has none."""

    request: tuple[int, int]
    response: tuple[int, int] | None


@dataclass(frozen=True)
class Talk:
    """A whole conversation of a client and a broker."""

    name: str
    streams: tuple[bytes, bytes]
    sent: list[Sent]
    exchanges: list[Exchange]


def frames(stream: bytes) -> list[tuple[int, int]]:
    """Follow the lengths from the first byte on; the last frame may go on behind the end of the stream."""
    found, at = [], 0
    while at + 8 <= len(stream):
        stop = at + 4 + struct.unpack_from(">i", stream, at)[0]
        found.append((at, stop))
        at = stop
    return found


def pair(streams: tuple[bytes, bytes]) -> list[Exchange]:
    """Pair in order: a broker answers in the order of the requests, and some requests get no answer."""
    answers = frames(streams[SERVER])
    found, next_answer = [], 0
    for ask in frames(streams[CLIENT]):
        if ask[0] + 12 > len(streams[CLIENT]):
            break
        correlation = streams[CLIENT][ask[0] + 8 : ask[0] + 12]
        told = None
        if next_answer < len(answers):
            at = answers[next_answer][0]
            if streams[SERVER][at + 4 : at + 8] == correlation:
                told = answers[next_answer]
                next_answer += 1
        found.append(Exchange(ask, told))
    assert next_answer == len(answers), "a response without a request"
    return found


def recorded(name: str, most_bytes: int = 60_000, most_sent: int = 150) -> list[Talk]:
    """Return the beginnings of all usable conversations of a recorded capture."""
    talks = []
    for number, sent in enumerate(_conversations(CAPTURES / name)):
        streams, kept = _cut(sent, most_bytes, most_sent)
        if not kept or _speaks_raw_sasl(streams[CLIENT]):
            continue
        try:
            exchanges = pair(streams)
        except AssertionError:
            continue
        if len(exchanges) >= 3:
            talks.append(Talk(f"{name} {number}", streams, kept, exchanges))
    return talks


def _speaks_raw_sasl(stream: bytes) -> bool:
    return any(stream[at + 4 : at + 8] == b"\0\x11\0\0" for at, _ in frames(stream))


def _packets(path: Path) -> Iterator[tuple[int, dpkt.tcp.TCP, tuple[bytes, int, bytes, int]]]:
    with path.open("rb") as file:
        reader = dpkt.pcapng.Reader(file) if path.suffix == ".pcapng" else dpkt.pcap.Reader(file)
        link = {1: dpkt.ethernet.Ethernet, 113: dpkt.sll.SLL, 276: dpkt.sll2.SLL2}.get(reader.datalink())
        for seconds, data in reader:
            ip = link(data).data if link else dpkt.ip.IP(data)
            if isinstance(ip, (dpkt.ip.IP, dpkt.ip6.IP6)) and isinstance(ip.data, dpkt.tcp.TCP):
                tcp = ip.data
                yield round(float(seconds) * 1e9), tcp, (ip.src, tcp.sport, ip.dst, tcp.dport)


def _conversations(path: Path) -> Iterator[list[tuple[int, int, bytes]]]:
    """Yield (time, side, payload) of each connection that the capture has from its SYN on, without holes."""
    opened: dict[tuple[bytes, int, bytes, int], list[tuple[int, int, bytes]]] = {}
    following: dict[tuple[bytes, int, bytes, int], int] = {}
    for time, tcp, ends in _packets(path):
        back = (ends[2], ends[3], ends[0], ends[1])
        if tcp.flags & dpkt.tcp.TH_SYN:
            following[ends] = (tcp.seq + 1) & 0xFFFFFFFF
            if not tcp.flags & dpkt.tcp.TH_ACK:
                opened[ends] = []
        elif tcp.data and (ends in opened or back in opened) and following.get(ends) == tcp.seq:
            side = CLIENT if ends in opened else SERVER
            opened[ends if side == CLIENT else back].append((time, side, bytes(tcp.data)))
            following[ends] = (tcp.seq + len(tcp.data)) & 0xFFFFFFFF
    yield from opened.values()


def _cut(
    packets: list[tuple[int, int, bytes]], most_bytes: int, most_sent: int
) -> tuple[tuple[bytes, bytes], list[Sent]]:
    streams = (bytearray(), bytearray())
    sent = []
    for time, side, payload in packets[:most_sent]:
        if len(streams[0]) + len(streams[1]) + len(payload) > most_bytes:
            break
        sent.append(Sent(time, side, len(streams[side]), len(streams[side]) + len(payload)))
        streams[side].extend(payload)
    return (bytes(streams[0]), bytes(streams[1])), sent


def made_up(seed: int) -> Talk:
    """A conversation of random requests and responses, pipelined, with client ids and without."""
    chance = random.Random(seed)
    streams = (bytearray(), bytearray())
    sent: list[Sent] = []
    waiting: list[int] = []
    now = 1_700_000_000_000_000_000 + chance.randrange(10**15)
    client = chance.choice([b"", b"tester", b"consumer-orders-1"])

    def say(side: int, body: bytes) -> None:
        nonlocal now
        now += chance.randrange(50_000, 20_000_000)
        data = struct.pack(">i", len(body)) + body
        for start in range(0, len(data), 1448):
            at = len(streams[side])
            streams[side].extend(data[start : start + 1448])
            sent.append(Sent(now, side, at, len(streams[side])))
            now += 2_000

    for number in range(chance.randrange(3, 40)):
        body = chance.randbytes(int(2 ** chance.uniform(3, 12)))
        key, version = chance.choice([(3, 1), (1, 4), (12, 0), (9, 2)])
        say(CLIENT, struct.pack(">hhih", key, version, number, len(client)) + client + body)
        waiting.append(number)
        while waiting and chance.random() < 0.7:
            body = chance.randbytes(int(2 ** chance.uniform(2, 12)))
            say(SERVER, struct.pack(">i", waiting.pop(0)) + body)
    whole = (bytes(streams[0]), bytes(streams[1]))
    return Talk(f"made up {seed}", whole, sent, pair(whole))
