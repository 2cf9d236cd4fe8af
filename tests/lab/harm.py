"""Captures as they come from busy machines: the packets of a good one, some of them cut, missing or late.

    short     each packet is cut after 128 bytes (tcpdump -s 128)
    loss      one packet of fifty is missing, by chance
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
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import dpkt
import zstandard

SHORT, LOST, AGAIN_NS = 128, 0.02, 7_000
LATE, LATE_NS = 0.05, 3_000_000
GAP_NS, GAP_EVERY = 100_000_000, 37
NS = 10**9
MAGIC_NS, LONGEST = 0xA1B23C4D, 262_144

Packet = tuple[int, bytes]
"""A time in ns since the epoch, and the bytes."""

Harm = Callable[[Packet, random.Random], Iterator[tuple[Packet, int]]]
"""Return the packets in place of one, with the length that each had on the wire."""


def _short(packet: Packet, _chance: random.Random) -> Iterator[tuple[Packet, int]]:
    time_ns, data = packet
    yield (time_ns, data[:SHORT]), len(data)


def _loss(packet: Packet, chance: random.Random) -> Iterator[tuple[Packet, int]]:
    if chance.random() >= LOST:
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
    "gaps": _gaps,
    "twice": _twice,
    "overtaken": _overtaken,
}
LATER = ("overtaken",)  # its packets come in another order
LOSSY = ("short", "loss", "gaps")


def harmed(capture: Path, harm: str, folder: Path) -> Path:
    """Write a capture (pcapng, with one link type, perhaps compressed) with that harm as pcap; return it."""
    name = capture.name.partition(".")[0]
    chance = random.Random(f"{name} {harm}")
    packets = dpkt.pcapng.Reader(io.BytesIO(_content(capture)))
    path = folder / f"{name}.{harm}.pcap"
    with path.open("wb") as file:
        file.write(struct.pack("=IHHiIII", MAGIC_NS, 2, 4, 0, 0, LONGEST, packets.datalink()))
        changed = (HARMS[harm]((round(time * NS), bytes(data)), chance) for time, data in packets)
        written: Iterable[tuple[Packet, int]] = itertools.chain.from_iterable(changed)
        if harm in LATER:
            written = sorted(written, key=lambda one: one[0][0])
        for (moment, kept), length in written:
            file.write(struct.pack("=IIII", moment // NS, moment % NS, len(kept), length) + kept)
    return path


def _content(capture: Path) -> bytes:
    data = capture.read_bytes()
    if capture.suffix != ".zst":
        return data
    return bytes(zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)).read())
