"""Pass one of a split is the same whether it is made by the index or for the split alone."""

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from kdissect.capture.dedup import RECALLED_BYTES, RECALLED_PACKETS
from kdissect.capture.index.index import CaptureIndex, in_threads, index_captures
from kdissect.capture.index.range_pieces import SplitScans
from kdissect.capture.index.range_scan import RangeScan, RangeTask, scan_range
from kdissect.capture.inputs import CaptureFile
from kdissect.capture.scan import scan_split
from kdissect.capture.segment_index import PIECES
from tests.capture.index.nested_captures import FRAMES, US, nested
from tests.capture.index.test_range_merge import MADE
from tests.helpers.crafted_packets import block, enhanced, interface, option, pcap, section
from tests.helpers.random_traffic import pcap_traffic
from tests.helpers.recorded import CAPTURES


def scanned(
    path: Path, ports: tuple[int, ...] = (), stops: Callable[[], bool] = lambda: False, **sizes: int
) -> tuple[CaptureIndex, dict[int, pa.RecordBatch]]:
    """Return the index of a capture, and the pieces that were made with it."""
    scans: SplitScans[pa.RecordBatch] = SplitScans(ports, lambda pieces: pieces)
    run = partial(in_threads, is_stopped=stops, scans=scans)
    found = index_captures([CaptureFile(str(path), path.name)], run=run, **sizes)
    return found, scans.end(found.splits)


def check(found: CaptureIndex, made: dict[int, pa.RecordBatch], ports: tuple[int, ...] = ()) -> None:
    """Compare pieces with those of a scan of each split."""
    column = PIECES.get_field_index("split")
    for ordinal, pieces in made.items():
        alone = scan_split(found.splits[ordinal], ports)
        assert pieces.set_column(column, PIECES.field("split"), alone["split"]) == alone


def large_pcapng() -> bytes:
    """Return a capture of which later ranges recall packets, and no description of an interface."""
    frames = (FRAMES * 40)[: 3 * RECALLED_BYTES // 400]
    blocks = (enhanced(US + number // 3, frame) for number, frame in enumerate(frames))
    return section() + interface() + b"".join(blocks)


CASES = {
    **MADE,
    "large-pcapng": large_pcapng,
    "copies": lambda: pcap(
        [(7, n // 2, frame) for n, frame in enumerate(f for f in FRAMES * 3 for _ in "12")]
    ),
    "nested": lambda: nested("pcap"),
    "nested-pcapng": lambda: nested("pcapng"),
}


@pytest.mark.parametrize("split_bytes", [1_500, 20_000, 1 << 20])
@pytest.mark.parametrize("ranges", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_pieces_are_those_of_a_scan_of_the_split(
    tmp_path: Path, case: str, split_bytes: int, ranges: int
) -> None:
    path = tmp_path / case
    path.write_bytes(CASES[case]())
    split_bytes = max(split_bytes, path.stat().st_size // 60)
    found, made = scanned(path, split_bytes=split_bytes, range_bytes=split_bytes * ranges)
    assert found == index_captures(
        [CaptureFile(str(path), case)], split_bytes, range_bytes=split_bytes * ranges
    )
    check(found, made)
    if "pcapng" not in case and case != "sections":
        assert len(made) >= 0.9 * len(found.splits)
    if case == "large-pcapng":
        assert len(made) >= 0.3 * len(found.splits)


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*.pcap*"))[::3], ids=lambda path: path.name)
def test_recorded_captures(path: Path) -> None:
    found, made = scanned(path, split_bytes=100_000)
    check(found, made)
    assert len(made) == len(found.splits)


def test_ports_are_those_of_the_scans(tmp_path: Path) -> None:
    path = tmp_path / "traffic.pcap"
    path.write_bytes(pcap_traffic(5, 500))
    found, made = scanned(path, (9092,), split_bytes=10_000)
    check(found, made, (9092,))
    assert len(made) == len(found.splits)


def test_packets_before_a_range_are_recalled(tmp_path: Path) -> None:
    """Copies lie on both sides of each end of a range, so a table that recalls nothing would count them."""
    path = tmp_path / "copies.pcap"
    path.write_bytes(CASES["copies"]())
    found, made = scanned(path, split_bytes=2_000, range_bytes=2_000)
    assert len(made) == len(found.splits) > 50
    assert any(
        scan_split(split) != scan_split(replace(split, recalled_packets=0, recalled_bytes=0))
        for split in found.splits
    )
    check(found, made)


def test_a_range_that_recalls_what_is_no_packet_is_left_out(tmp_path: Path) -> None:
    """A record so large that the reading before the range begins within it, where a whole capture lies."""
    inner = pcap([(7, number, frame[:60]) for number, frame in enumerate(FRAMES)])[24:]
    large = FRAMES[0] + inner * (1 + RECALLED_BYTES // len(inner))
    records = [(7, n, frame) for n, frame in enumerate([*FRAMES, large, *FRAMES[: RECALLED_PACKETS // 4]])]
    path = tmp_path / "large.pcap"
    path.write_bytes(pcap(records, snap=1 << 23))
    sizes = {"split_bytes": 10_000, "range_bytes": 10_000}
    found, made = scanned(path, **sizes)
    check(found, made)
    behind = [split.index for split in found.splits if split.start > len(large)]
    assert behind
    assert not set(behind) & set(made)


@pytest.mark.parametrize("again", [True, False])
def test_a_range_that_is_scanned_again_counts_as_it_was_scanned_last(tmp_path: Path, again: bool) -> None:
    """The second section counts nanoseconds, which ranges behind it cannot foresee."""
    head = section() + interface() + b"".join(enhanced(US, frame) for frame in FRAMES * 4)
    body = large_pcapng()
    path = tmp_path / "sections.pcapng"
    path.write_bytes(head + body.replace(interface(), interface(options=option(9, b"\x09"))))
    passes = 0

    def run(tasks: Sequence[RangeTask]) -> Iterable[RangeScan]:
        nonlocal passes
        passes += 1
        return list(in_threads(tasks, scans=scans))

    scans: SplitScans[pa.RecordBatch] = SplitScans((), lambda pieces: pieces, lambda: again or passes < 2)
    found = index_captures([CaptureFile(str(path), path.name)], 300_000, range_bytes=300_000, run=run)
    made = scans.end(found.splits)
    assert passes > 1
    assert (max(made) > 5) is again
    check(found, made)


def test_a_section_recalls_nothing_of_the_one_before(tmp_path: Path) -> None:
    part = section() + interface() + b"".join(enhanced(US, frame) for frame in FRAMES[:50])
    path = tmp_path / "twice.pcapng"
    path.write_bytes(part + part)
    found, made = scanned(path)
    assert len(made) == len(found.splits) == 2
    check(found, made)


def test_recalled_packets_need_a_time(tmp_path: Path) -> None:
    """A simple packet has the time of the one before it, which a range does not know."""
    frames = [frame for frame in FRAMES[:40] for _ in "12"]
    simple = b"".join(block(3, struct.pack("<I", len(frame)) + frame) for frame in frames)
    path = tmp_path / "simple.pcapng"
    many = simple * (1 + 2 * RECALLED_BYTES // len(simple))
    path.write_bytes(section() + interface() + enhanced(US, FRAMES[50]) + many)
    found, made = scanned(path, split_bytes=300_000, range_bytes=300_000)
    assert made
    check(found, made)


def test_a_range_is_only_indexed_if_the_scans_do_not_go_on(tmp_path: Path) -> None:
    path = tmp_path / "traffic.pcap"
    path.write_bytes(pcap_traffic(5, 500))
    answers = iter([True, False, True])
    scans: SplitScans[int] = SplitScans((), len, lambda: next(answers, False))
    file = CaptureFile(str(path), path.name)
    found = index_captures(
        [file], 10_000, range_bytes=10_000, run=lambda tasks: map(partial(scan_range, scans=scans), tasks)
    )
    assert sorted(scans.end(found.splits)) == [0, 2]


def test_what_was_read_until_a_stop_is_scanned(tmp_path: Path) -> None:
    path = tmp_path / "traffic.pcap"
    path.write_bytes(pcap_traffic(5, 500))
    asked = iter([False] * 4)
    found, made = scanned(path, (), lambda: next(asked, True), split_bytes=2_000, chunk_bytes=4_000)
    assert found.unread_bytes
    assert len(made) == len(found.splits)
    check(found, made)
