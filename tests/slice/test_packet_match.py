"""Which packets match: 4-tuples in both directions, ports that are used again, and fragments."""

import random
import struct
from pathlib import Path

import numpy as np
import pytest
from scapy.compat import raw
from scapy.layers.inet import IP, TCP, fragment
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import CaptureFile
from kdissect.capture.packets import headers
from kdissect.capture.storage import open_storage
from kdissect.slice.packet_match import PacketMatcher, canonical_tuples, tuple_bytes
from kdissect.slice.packet_selection import Occupant, Wanted
from kdissect.streams.endpoints import Endpoints
from kdissect.text import IPV4_PREFIX
from tests.helpers.crafted_packets import pcap

ENDS = Endpoints(IPV4_PREFIX + bytes([10, 0, 0, 1]), 40000, IPV4_PREFIX + bytes([10, 0, 0, 2]), 9092)
STEP_NS = 1000


def matching(path: Path, frames: list[bytes], occupants: list[Occupant], split_bytes: int) -> list[int]:
    """Return the numbers of matching packets, one microsecond apart from time 0 on."""
    path.write_bytes(pcap([(0, number, frame) for number, frame in enumerate(frames)]))
    found = index_captures([CaptureFile(str(path), path.name)], split_bytes)
    matcher = PacketMatcher({ENDS: occupants})
    with open_storage(str(path)) as source:
        return [one.number for split in found.splits for one in matcher.packets_of(split, source)]


def segment(flags: str, backwards: bool = False, port: int = 40000, body: bytes = b"") -> bytes:
    ends = [("10.0.0.1", port), ("10.0.0.2", 9092)]
    (source, sport), (target, dport) = reversed(ends) if backwards else ends
    ip = IP(src=source, dst=target)
    return raw(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / ip
               / TCP(sport=sport, dport=dport, flags=flags) / Raw(body))  # fmt: skip


@pytest.mark.parametrize("split_bytes", [1, 1 << 20])
def test_a_syn_hands_the_ports_over(split_bytes: int, tmp_path: Path) -> None:
    one = [segment("S"), segment("SA", True), segment("A"), segment("A", port=40001), segment("R", True)]
    frames = one + one
    everything = Wanted(everything=True)
    for wanted, expected in (
        ((everything, None), [1, 2, 3, 5]),
        ((None, everything), [6, 7, 8, 10]),
        ((everything, everything), [1, 2, 3, 5, 6, 7, 8, 10]),
    ):
        occupants = [Occupant(0, wanted[0]), Occupant(5 * STEP_NS, wanted[1])]
        assert matching(tmp_path / "made.pcap", frames, occupants, split_bytes) == expected


def test_fragments_follow_the_first_one(tmp_path: Path) -> None:
    whole = IP(src="10.0.0.1", dst="10.0.0.2", id=5) / TCP(sport=40000, dport=9092) / Raw(bytes(3000))
    other = IP(src="10.0.0.1", dst="10.0.0.3", id=5) / TCP(sport=40000, dport=9092) / Raw(bytes(3000))
    link = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    frames = [raw(link / part) for part in (*fragment(whole, 1000), *fragment(other, 1000))]
    occupants = [Occupant(0, Wanted(everything=True))]
    count = len(frames) // 2
    assert count > 2
    path = tmp_path / "made.pcap"
    assert matching(path, frames, occupants, 1 << 20) == list(range(1, count + 1))
    assert matching(path, frames[::-1], occupants, 1 << 20) == list(range(count + 1, 2 * count + 1))


def test_tuples_are_canonical() -> None:
    chance = random.Random(5)
    segments = np.zeros((400, headers.SEGMENT_FIELDS), np.int64)
    ends = [[(chance.choice([0, 1, 0x80FF0000, 0xFFFFFFFF]),) * 4 + (chance.choice([1, 256, 65535]),)
             for _ in range(2)] for _ in segments]  # fmt: skip
    for row, (source, target) in zip(segments, ends, strict=True):
        row[headers.SOURCE : headers.SOURCE + 4], row[headers.SOURCE_PORT] = source[:4], source[4]
        row[headers.TARGET : headers.TARGET + 4], row[headers.TARGET_PORT] = target[:4], target[4]
    tuples, from_b = canonical_tuples(segments)
    for found, backwards, (source, target) in zip(tuples, from_b, ends, strict=True):
        low, high = sorted((source, target))
        packed = [(struct.pack(">4I", *one[:4]), one[4]) for one in (low, high)]
        expected = tuple_bytes(Endpoints(*packed[0], *packed[1]))
        assert bytes(found).ljust(40, b"\0") == expected
        assert backwards == (source > target)
