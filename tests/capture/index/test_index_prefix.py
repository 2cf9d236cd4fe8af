"""The index of the splits that were read is that of files that end there."""

from itertools import islice
from pathlib import Path

import dpkt
import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.index.index_prefix import index_prefix, split_bytes
from kdissect.capture.inputs import CaptureFile

CAPTURES = Path(__file__).parents[3] / "captures"
NAMES = ("expired.pcapng", "old-broker.pcap", "steady.pcapng")


@pytest.fixture(name="files")
def files_of_captures() -> list[CaptureFile]:
    return [CaptureFile(str(CAPTURES / name), name) for name in NAMES]


def test_everything_is_everything(files: list[CaptureFile]) -> None:
    index = index_captures(files, split_bytes=50_000)
    assert index_prefix(index, len(index.splits)) == index


@pytest.mark.parametrize("stop", [1, 2, 5])
def test_a_part_is_a_file_cut_off_there(files: list[CaptureFile], stop: int, tmp_path: Path) -> None:
    for file in files:
        whole = index_captures([file], split_bytes=100_000)
        stop = min(stop, len(whole.splits) - 1)
        part = index_prefix(whole, stop)
        cut = tmp_path / file.name
        cut.write_bytes(Path(file.path).read_bytes()[: part.splits[-1].stop])
        same = index_captures([CaptureFile(str(cut), file.name)], split_bytes=100_000)
        assert part.packets == same.packets
        assert part.earliest_time_ns == same.earliest_time_ns
        (first,) = index_captures([CaptureFile(str(cut), file.name)], split_bytes=1 << 30).splits
        following = time_of_packet(file, first.packets)
        assert (part.latest_time_ns or 0) // 1000 == following
        assert part.captured_bytes == pytest.approx(same.captured_bytes, rel=0.05)
        assert split_bytes(part.splits) == sum(split.stop - split.start for split in same.splits)


def test_files_that_were_not_read_are_left_out(files: list[CaptureFile]) -> None:
    index = index_captures(files, split_bytes=1 << 30)
    assert len(index.splits) == len(NAMES)
    assert index_prefix(index, 2).files == index.files[:2]


def time_of_packet(file: CaptureFile, number: int) -> int:
    """Return the time (µs) of a packet of a file, counted from 0."""
    with Path(file.path).open("rb") as opened:
        reader = dpkt.pcap.UniversalReader(opened)
        seconds = next(islice(reader, number, None))[0]
    return int(seconds * 10**6)
