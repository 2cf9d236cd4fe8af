"""Capture files, damaged: `reader` is the survey and pass one, `capture` all that makes rows of them. Splits
change nothing."""

import gzip
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random

from scapy.compat import raw
from scapy.layers.inet import GRE, IP, UDP, fragment
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from kdissect.capture.formats.file_types import InputError
from kdissect.capture.index.index import index_captures, one_by_one
from kdissect.capture.inputs import (
    CaptureFile,
    open_inputs,
)
from kdissect.capture.scan import scan_split
from kdissect.capture.segment_index import (
    FLAG_ACK_ONLY,
    FLAG_BARE_ACK,
    FLAGS,
    PACKET,
    unpack,
    unpack_counts,
)
from kdissect.tables.build import dissect_batches
from tests.fuzz.case import Case
from tests.helpers.crafted_packets import ethernet, pcap, tcp
from tests.helpers.random_traffic import pcap_traffic, pcapng_traffic

RECORDED = Path(__file__).parents[2] / "captures"
PARTS = (1, 3, 15)  # splits that a file is read in
ENDS = ("a_host", "a_port", "b_host", "b_port")


def seeds() -> list[Case]:
    """Return the beginnings of recorded captures, and packets of every kind made by hand."""
    data = [
        pcap_traffic(1, 30),
        pcap_traffic(2, 40, ">", snap=90),
        pcapng_traffic(3, 30),
        _conversation(Random(4)),
        *(_ports_used_again(Random(number)) for number in range(3)),
    ]
    data += [path.read_bytes()[:8_000] for path in sorted(RECORDED.glob("*.pcap*"))]
    data += [pcap([(n, 0, frame) for n, frame in enumerate(_wrapped())])]
    data += [gzip.compress(data[0]), gzip.compress(data[2])]
    return [Case(0, 0, False, one) for one in data]


def _conversation(chance: Random) -> bytes:
    """A pipelined conversation in segments of odd sizes, some of them twice."""
    ask = b"".join(
        struct.pack(">ihhih", 30, chance.choice([1, 3, 18]), 0, number, 6) + b"tester" + chance.randbytes(14)
        for number in range(12)
    )
    tell = b"".join(struct.pack(">ii", 24, number) + chance.randbytes(20) for number in range(12))
    frames = []
    for start in range(0, len(ask), 37):
        frames.append(ethernet(tcp(payload=ask[start : start + 37], seq=start, identification=start + 1)))
        back = tell[start : start + 37]
        frames.append(ethernet(tcp("10.0.0.2", "10.0.0.1", (9092, 40000), back, start, flags=24)))
        frames += frames[-1:] * (start % 3 == 0)
    return pcap([(n, 500, frame) for n, frame in enumerate(frames)])


def _ports_used_again(chance: Random) -> bytes:
    """Connections one after another on the same ports, of which the capture has the opening in any order,
    late, in part or not."""
    frames: list[bytes] = []
    for correlation_id in range(12):
        ask = struct.pack(">ihhih", 30, 3, 1, correlation_id, 6) + b"tester" + chance.randbytes(14)
        tell = struct.pack(">ii", 24, correlation_id) + chance.randbytes(20)
        a, b = (chance.choice((5_000, 1 << 20, 3 << 28, (1 << 32) - 20)) for _ in range(2))
        # Who says it, flags, payload, and the numbers of the next byte and of the one that is expected
        told = [
            (0, 2, b"", a - 1, 0),
            (1, 18, b"", b - 1, a),
            (0, 16, b"", a, b),
            (0, 24, ask[:20], a, b),
            (0, 24, ask[20:], a + 20, b),
            (1, 24, tell, b, a + len(ask)),
            (0, 17, b"", a + len(ask), b + len(tell)),
        ]
        told = [one for one in told if chance.random() < 0.8]
        if chance.random() < 0.5:
            chance.shuffle(told)
        for side, flags, payload, sequence, expected in told + told[:1] * (correlation_id % 3 == 0):
            ends = (
                ("10.0.0.2", "10.0.0.1", (9092, 40000)) if side else ("10.0.0.1", "10.0.0.2", (40000, 9092))
            )
            numbers = (sequence & 0xFFFFFFFF, expected & 0xFFFFFFFF)
            frames.append(ethernet(tcp(*ends, payload, *numbers, flags, identification=len(frames) + 1)))
    return pcap([(0, 900 * n, frame) for n, frame in enumerate(frames)])


def _wrapped() -> list[bytes]:
    """One segment in tunnels and in fragments."""
    inner = Raw(tcp(payload=bytes(range(256)) * 8))
    outer = IP(src="1.1.1.1", dst="1.1.1.2", id=9)
    tunnelled = [
        Ether() / Dot1Q(vlan=3) / IPv6(nh=4) / inner,
        Ether() / outer / GRE(proto=0x800, key_present=1) / inner,
        Ether() / outer / UDP(dport=4789) / VXLAN(flags="Instance") / Ether(type=0x800) / inner,
    ]
    parts = [Ether() / part for part in fragment(IP(bytes(inner)), 800)]
    parts += [Ether() / part for part in fragment(tunnelled[2][IP], 800)]
    return [raw(packet) for packet in tunnelled + parts + parts[::-1]]


@cache
def _folder() -> Path:
    return Path(
        tempfile.mkdtemp(prefix="kdissect-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    )


@contextmanager
def _opened(data: bytes) -> Iterator[tuple[CaptureFile, ...]]:
    """Return the capture that the bytes are; none if they are none."""
    path = _folder() / f"{os.getpid()}.capture"
    path.write_bytes(data)
    try:
        yield open_inputs([str(path)], str(_folder())).files
    except InputError:
        yield ()
    finally:
        for left in _folder().iterdir():
            left.unlink()


def check_reader(case: Case) -> None:
    """Every packet is counted once, and descriptors are the same for any splits."""
    with _opened(case.data) as files:
        found = [_described(files, 1 + len(case.data) // parts) for parts in PARTS]
    assert found[1:] == found[:-1]


def _described(files: tuple[CaptureFile, ...], split_bytes: int) -> dict[tuple, bytes]:
    seen = index_captures(files, split_bytes, range_bytes=split_bytes, run=one_by_one)
    described: dict[tuple, list[bytes]] = {}
    packets = 0
    for split in seen.splits:
        batch = scan_split(split)
        rows = batch.slice(0, len(batch) - 1)
        packets += sum(unpack_counts(batch["segments"][-1].as_py())[1:7])
        counts = rows["count"].to_numpy()
        segments = unpack(rows["segments"], counts)
        segments[PACKET] += split.first_packet
        stops = counts.cumsum()
        ends = zip(*(rows[name].to_pylist() for name in ENDS), strict=True)
        for who, start, stop in zip(ends, (stops - counts).tolist(), stops.tolist(), strict=True):
            part = segments[:, start:stop]
            # Every split begins its acknowledgments anew.
            kept = part[:, part[FLAGS] & (FLAG_BARE_ACK | FLAG_ACK_ONLY) == 0]
            described.setdefault(who, []).append(kept.T.tobytes())
    assert packets == seen.packets
    return {who: b"".join(parts) for who, parts in described.items()}


def check_capture(case: Case) -> None:
    """Every packet is counted once, and rows are the same for any splits."""
    with _opened(case.data) as files:
        found = [_rows(files, 1 + len(case.data) // parts) for parts in PARTS]
    assert found[1:] == found[:-1]


def _rows(files: tuple[CaptureFile, ...], split_bytes: int) -> list[tuple]:
    seen = index_captures(files, split_bytes, range_bytes=split_bytes, run=one_by_one)
    pieces = [scan_split(split) for split in seen.splits]
    counts = [unpack_counts(batch["segments"][-1].as_py()) for batch in pieces]
    assert sum(sum(one[1:7]) for one in counts) == seen.packets
    rows = []
    for tables in dissect_batches(pieces, seen.splits):
        for name in ("exchanges", "connections"):
            if name in tables:
                rows += [tuple(map(str, row.values())) for row in tables[name].to_pylist()]
    return sorted(rows)
