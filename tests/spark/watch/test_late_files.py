"""Which files a watch that is behind skips, and how they are counted."""

import gzip
import os
from pathlib import Path

from kdissect.capture.index.growing_index import GrowingIndex
from kdissect.spark.watch.closed_files import files_to_read
from kdissect.spark.watch.file_journal import FileJournal, TakenFile
from kdissect.spark.watch.late_files import Skipped, count_skipped, late_files
from tests.helpers.rings import CAPTURES, packets_of, ring_files, write_ring

SECOND = 10**9
NEWEST_S = 1_792_000_000
PCAP = CAPTURES / "old-broker.pcap"


def taken(tmp_path: Path, ages_s: list[float]) -> list[TakenFile]:
    """Write a ring of files of these ages, and take all of them."""
    for path, age_s in zip(write_ring(tmp_path / "ring", ring_files(PCAP, len(ages_s))), ages_s, strict=True):
        os.utime(path, (NEWEST_S - age_s, NEWEST_S - age_s))
    journal = FileJournal(tmp_path / "files.jsonl")
    try:
        return journal.new_files(files_to_read(str(tmp_path / "ring"), NEWEST_S * SECOND, 0))
    finally:
        journal.close()


def test_files_are_late_by_the_newest_one(tmp_path: Path) -> None:
    files = taken(tmp_path, [60.5, 60, 3, 0])
    assert late_files(files, str(tmp_path / "ring"), 60 * SECOND) == files[:1]
    # The newest file has not been taken yet, and counts all the same.
    assert late_files(files[:3], str(tmp_path / "ring"), 2 * SECOND) == files[:3]


def test_what_a_ring_has_removed_is_no_late_file(tmp_path: Path) -> None:
    files = taken(tmp_path, [60, 60, 0])
    Path(files[0].path).unlink()
    assert late_files(files, str(tmp_path / "ring"), SECOND) == files[1:2]


def test_packets_and_bytes_are_counted(tmp_path: Path) -> None:
    files = taken(tmp_path, [9, 8, 0])
    late = count_skipped(files, GrowingIndex())
    skipped, (gap,) = late.skipped, late.gaps  # files that follow each other are one gap
    assert (gap.packets, late.files) == (skipped.packets, files)
    assert 10**9 < gap.end_ns - gap.begin_ns < 60 * 10**9
    assert skipped == Skipped(3, sum(file.size for file in files), len(packets_of(PCAP)[1]))
    assert skipped.sentence() == "skipped 3 files, 1.40 MiB, 9,305 packets: the watch was too far behind"
    assert skipped.plus(Skipped(1, 2, 3)) == Skipped(4, skipped.bytes + 2, skipped.packets + 3)


def test_of_a_compressed_file_bytes_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "one.pcap.gz"
    path.write_bytes(gzip.compress(PCAP.read_bytes()))
    file = TakenFile(0, str(path), path.stat().st_size, 0, "", 0)
    assert count_skipped([file], GrowingIndex()).skipped == Skipped(1, file.size, 0)
