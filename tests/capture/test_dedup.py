"""Packets that a capture has twice are counted once; retransmissions are not taken for them."""

from pathlib import Path

import pytest
from scapy.compat import raw
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from kdissect.capture.scan import scan_split
from tests.capture.outcome import descriptors
from tests.helpers.crafted_packets import ACK, SYN, ethernet, pcap, survey_bytes, tcp

MS = 1_000_000
STAMPS = b"\1\1\x08\x0a" + bytes(3) + b"\1" + bytes(4)


def packet(**fields: object) -> bytes:
    return tcp(**({"payload": b"request", "identification": 77} | fields))  # type: ignore[arg-type]


def routed(data: bytes) -> bytes:
    """Return an IPv4 packet as behind a router: TTL and header checksum differ."""
    return data[:8] + bytes([data[8] - 1, 6, 0xAB, 0xCD]) + data[12:]


def counted(folder: Path, *frames: tuple[int, bytes], split_bytes: int = 1 << 20) -> tuple[int, int, int]:
    """Return packets, duplicates and descriptors of a capture of frames at times in ns."""
    data = pcap([(1 + at // 10**9, at % 10**9, frame) for at, frame in frames], magic=0xA1B23C4D)
    packets = duplicates = described = 0
    for split in survey_bytes(folder, data, split_bytes=split_bytes).splits:
        batch = scan_split(split)
        for row in batch.slice(0, len(batch) - 1).to_pylist():
            packets += row["packets_ab"] + row["packets_ba"]
            duplicates += row["duplicates"]
        described += sum(map(len, descriptors(batch.slice(0, len(batch) - 1))))
    return packets, duplicates, described


COPIES = {
    "the same again": (ethernet(packet()), ethernet(packet())),
    "with a VLAN tag and without": (ethernet(packet(), (0x8100,)), ethernet(packet())),
    "one router on": (ethernet(packet()), ethernet(routed(packet()))),
    "an unfinished checksum": (ethernet(packet()), ethernet(packet()[:36] + b"\x12\x34" + packet()[38:])),
    "timestamps instead of a number": (
        ethernet(packet(identification=0, options=STAMPS)),
        ethernet(packet(identification=0, options=STAMPS)),
    ),
    "IPv6": tuple(
        ethernet(tcp("2001:db8::1", "2001:db8::2", payload=b"x", options=STAMPS)) for _ in range(2)
    ),
    "inside a tunnel and outside": (
        ethernet(packet()),
        raw(
            Ether()
            / IP(src="1.1.1.1", dst="1.1.1.2")
            / UDP(dport=4789)
            / VXLAN(vni=1, flags="Instance")
            / Raw(ethernet(packet()))
        ),
    ),
    "an acknowledgement": (ethernet(packet(payload=b"")), ethernet(packet(payload=b""))),
    "a SYN": (ethernet(packet(payload=b"", flags=SYN)), ethernet(packet(payload=b"", flags=SYN))),
}


@pytest.mark.parametrize("name", COPIES)
def test_copies(tmp_path: Path, name: str) -> None:
    first, second = COPIES[name]
    for apart in (0, 3_000, 40 * MS):
        for split_bytes in (1, 1 << 20):
            assert counted(tmp_path, (0, first), (apart, second), split_bytes=split_bytes) == (1, 1, 1)
    assert counted(tmp_path, (0, first), (0, second), (0, second)) == (1, 2, 1)
    assert counted(tmp_path, (0, first), (200 * MS, second))[:2] == (2, 0)


NO_COPIES = {
    "another number": {"identification": 78},
    "another timestamp": {"options": STAMPS[:7] + b"\2" + bytes(4)},
    "another window": {"window": 9},
    "another acknowledgement": {"ack": 5},
    "another sequence number": {"seq": 1001},
    "another length": {"payload": b"request!"},
    "another flag": {"flags": ACK | 8},
    "the other direction": {"source": "10.0.0.2", "target": "10.0.0.1", "ports": (9092, 40000)},
    "another port": {"ports": (40001, 9092)},
    "a translated address": {"source": "10.0.0.3"},
}


@pytest.mark.parametrize("name", NO_COPIES)
def test_what_is_no_copy(tmp_path: Path, name: str) -> None:
    first = packet(options=STAMPS)
    second = packet(**({"options": STAMPS} | NO_COPIES[name]))
    assert counted(tmp_path, (0, ethernet(first)), (1000, ethernet(second))) == (2, 0, 2)


def test_without_any_mark_only_the_very_next_moment_counts(tmp_path: Path) -> None:
    plain = ethernet(packet(identification=0))
    assert counted(tmp_path, (0, plain), (900_000, plain)) == (1, 1, 1)
    assert counted(tmp_path, (0, plain), (1_100_000, plain)) == (2, 0, 2)


def test_the_distance_is_bounded_and_the_splits_change_nothing(tmp_path: Path) -> None:
    first = ethernet(packet())
    for between, wanted in ((200, 1), (512, 0)):
        others = [(10, ethernet(packet(identification=0, seq=5000 + 9 * n))) for n in range(between)]
        for split_bytes in (1 << 20, 20_000, 3_000):
            found = counted(tmp_path, (0, first), *others, (20, first), split_bytes=split_bytes)
            assert found[:2] == (between + 2 - wanted, wanted)


def test_a_whole_capture_twice(tmp_path: Path) -> None:
    """Two captures of the same traffic, merged by time: each packet counts once."""
    frames = [(n * 50_000, ethernet(packet(seq=1000 + 7 * n, identification=n + 1))) for n in range(3000)]
    later = [(at + 320_000, ethernet(routed(frame[14:]))) for at, frame in frames]
    merged = sorted(frames + later)
    assert counted(tmp_path, *merged) == (3000, 3000, 3000)
    assert counted(tmp_path, *merged, split_bytes=40_000) == (3000, 3000, 3000)
