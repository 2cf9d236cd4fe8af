"""Only captures that are accounted for, old and unchanged are removed."""

import os
from pathlib import Path

from kdissect.live.retention import Retention
from kdissect.spark.watch.batch_job import BatchReport
from kdissect.spark.watch.batch_step import BatchFigures
from kdissect.spark.watch.batch_store import Commit
from kdissect.spark.watch.file_journal import TakenFile, head_of

MAGIC = bytes.fromhex("d4c3b2a1")
HOUR_NS = 3_600_000_000_000


def taken(path: Path, number: int = 0, data: bytes = MAGIC) -> TakenFile:
    path.write_bytes(data)
    return of(path, number)


def of(path: Path, number: int = 0) -> TakenFile:
    status = path.stat()
    size = status.st_size
    return TakenFile(number, str(path), size, status.st_mtime_ns, head_of(str(path), size), size)


def report(*files: TakenFile) -> BatchReport:
    return BatchReport(Commit(), BatchFigures(), len(files), 0, 0, read=list(files))


def test_old_captures_are_removed_and_young_ones_stay(tmp_path: Path) -> None:
    old, young, other = (taken(tmp_path / name) for name in ("1.pcap", "2.pcap", "3.pcap"))
    os.utime(old.path, ns=(0, 0))
    retention = Retention(HOUR_NS, [], [].append)
    retention.account(report(of(Path(old.path)), young))
    assert sorted(os.listdir(tmp_path)) == ["2.pcap", "3.pcap"]
    retention.remove_old(young.modified_ns + HOUR_NS)
    assert os.listdir(tmp_path) == [Path(other.path).name]  # nobody has read it


def test_a_file_that_changed_stays(tmp_path: Path) -> None:
    grown, replaced, linked = (taken(tmp_path / name) for name in ("1.pcap", "2.pcap", "3.pcap"))
    retention = Retention(0, [], [].append)
    with Path(grown.path).open("ab") as file:
        file.write(b"more")
    Path(replaced.path).write_bytes(MAGIC[::-1])
    os.utime(replaced.path, ns=(replaced.modified_ns, replaced.modified_ns))
    Path(linked.path).rename(tmp_path / "target")
    Path(linked.path).symlink_to(tmp_path / "target")
    retention.account(report(grown, replaced, linked))
    assert sorted(os.listdir(tmp_path)) == ["1.pcap", "2.pcap", "3.pcap", "target"]


def test_a_run_that_goes_on_knows_captures_and_nothing_else(tmp_path: Path) -> None:
    files = [taken(tmp_path / "1.pcap"), taken(tmp_path / "notes.txt", data=b"read me")]
    retention = Retention(0, files, [].append)
    retention.account(report())
    assert os.listdir(tmp_path) == ["notes.txt"]
