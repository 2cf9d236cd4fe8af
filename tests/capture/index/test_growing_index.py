"""A capture that is read as it grows has the packets of the whole file, wherever it is cut."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from kdissect.capture.index.growing_index import CaptureRange, GrowingIndex
from kdissect.capture.index.index import SPLIT_BYTES, CaptureIndex, index_captures
from kdissect.capture.inputs import CaptureFile
from kdissect.streams.carry.value_bytes import from_bytes, to_bytes
from kdissect.streams.tls.keylog import keys_for
from kdissect.tables.dissection import Dissection
from kdissect.tables.filters import TableBatches
from tests.helpers.in_batches import WANTED, pieces_of, rows_in_order
from tests.helpers.rings import CAPTURES, assert_same

SUMS = ("packets", "captured_bytes", "wire_bytes", "truncated_packets", "backward_steps", "size")


def captured(path: Path) -> CaptureFile:
    return CaptureFile(str(path), path.name)


def ranges(path: Path, cuts: Sequence[int], *, forgetful: bool) -> Iterator[CaptureIndex]:
    """Yield the indexes of a file that grows from cut to cut; a forgetful reader is restarted each time."""
    reader = GrowingIndex()
    edges = [0, *cuts, path.stat().st_size]
    for start, stop in pairwise(edges):
        reader = GrowingIndex() if forgetful else reader
        part = CaptureRange(captured(path), start, stop, is_closed=stop == edges[-1])
        yield reader.index([part], SPLIT_BYTES)


def tables(indexes: Sequence[CaptureIndex]) -> Iterator[TableBatches]:
    """Yield the tables of a batch for each index, carried on as bytes in between."""
    carried = None
    for number, index in enumerate(indexes):
        dissection = Dissection(index.splits, keys_for(None, index.files), WANTED, carried=carried)
        yield from dissection.feed(pieces_of(index.splits))
        over = dissection.every_row()[: None if number == len(indexes) - 1 else 0]
        yield from dissection.end(over)
        carried = from_bytes(to_bytes(dissection.carried(over)))


@pytest.mark.parametrize("forgetful", [False, True])
@pytest.mark.parametrize("name", ["old-broker.pcap", "clock-step.pcapng", "tls.pcapng"])
def test_random_cuts_change_no_row(name: str, forgetful: bool) -> None:
    path = CAPTURES / name
    whole = index_captures([captured(path)])
    chance = random.Random(name)
    cuts = sorted(chance.sample(range(64, path.stat().st_size), 6))
    found = list(ranges(path, cuts, forgetful=forgetful))
    assert_same(rows_in_order(tables(found)), rows_in_order(tables([whole])))
    for field in SUMS:
        assert sum(getattr(one.files[0], field) for one in found) == getattr(whole.files[0], field), field
    assert max(one.files[0].step_back for one in found) == whole.files[0].step_back
    assert found[-1].files[0].secrets == whole.files[0].secrets
    assert not any(one.warnings for one in found)


@pytest.mark.parametrize("name", ["old-broker.pcap", "clock-step.pcapng"])
def test_every_cut_leaves_the_numbers_of_packets(name: str, tmp_path: Path) -> None:
    data = (CAPTURES / name).read_bytes()[:1500]
    path = tmp_path / name
    path.write_bytes(data)
    if name.endswith("ng"):  # a second section, and half a packet
        (first,) = index_captures([captured(path)]).splits
        path.write_bytes(data[: first.stop] + data)
    (whole,) = index_captures([captured(path)]).files
    for cut in range(64, path.stat().st_size):
        parts = [index.files[0] for index in ranges(path, [cut], forgetful=False)]
        numbers = [
            packet
            for part in parts
            for split in part.splits
            for packet in range(split.first_packet, split.first_packet + split.packets)
        ]
        assert numbers == list(range(1, whole.packets + 1)), cut
        assert [part.warnings for part in parts] == [(), whole.warnings], cut


def test_half_a_packet_is_a_fault_once_the_file_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes((CAPTURES / "old-broker.pcap").read_bytes()[:-5])
    size = path.stat().st_size
    reader = GrowingIndex()
    growing = CaptureRange(captured(path), 0, size, is_closed=False)
    assert reader.index([growing], SPLIT_BYTES).warnings == ()
    closed = reader.index([replace(growing, start=size, is_closed=True)], SPLIT_BYTES)
    assert closed.warnings == index_captures([captured(path)]).warnings
    assert closed.packets == 0


def test_a_damaged_file_is_reported_once(tmp_path: Path) -> None:
    data = (CAPTURES / "old-broker.pcap").read_bytes()
    path = tmp_path / "damaged.pcap"
    path.write_bytes(data[:5000] + b"\xff" * 5000 + data[5000:])
    found = list(ranges(path, [8000, 12000], forgetful=True))
    assert [len(index.warnings) for index in found] == [1, 0, 0]
    assert found[0].packets > 0 == found[1].packets


def test_ranges_of_several_files_are_in_order_of_time(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("b.pcap", "a.pcap")]
    for path in paths:
        path.write_bytes((CAPTURES / "old-broker.pcap").read_bytes())
    parts = [
        CaptureRange(captured(path), start, stop)
        for path in paths
        for start, stop in [(0, 4000), (4000, 9000)]
    ]
    index = GrowingIndex().index(parts, SPLIT_BYTES)
    assert [(file.file.name, file.splits[0].first_packet > 1) for file in index.files] == [
        ("a.pcap", False),
        ("b.pcap", False),
        ("a.pcap", True),
        ("b.pcap", True),
    ]
    assert [split.index for split in index.splits] == [0, 1, 2, 3]
