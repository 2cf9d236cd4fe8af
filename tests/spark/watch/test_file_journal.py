"""Every file is taken once, and its number stays."""

import subprocess
import sys
from pathlib import Path

import pytest

from kdissect.spark.watch.closed_files import list_files
from kdissect.spark.watch.file_journal import FileJournal, grown_file, is_behind
from kdissect.streams.carry.value_bytes import CarriedStateError
from tests.helpers.command import environment


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    folder = tmp_path / "ring"
    folder.mkdir()
    return folder


@pytest.fixture
def journal(tmp_path: Path) -> FileJournal:
    return FileJournal(tmp_path / "files.jsonl")


def take(journal: FileJournal, ring: Path) -> list[str]:
    found = journal.new_files(sorted(list_files(str(ring))))
    journal.take(found)
    return [Path(file.path).name for file in found]


def test_files_are_taken_once(journal: FileJournal, ring: Path, tmp_path: Path) -> None:
    (ring / "1").write_bytes(b"one")
    assert take(journal, ring) == ["1"]
    (ring / "2").write_bytes(b"two")
    assert take(journal, ring) == ["2"]
    assert take(journal, ring) == []
    journal.close()
    again = FileJournal(tmp_path / "files.jsonl")
    assert take(again, ring) == []
    assert [Path(file.path).name for file in again.files(0, 2)] == ["1", "2"]
    assert again.next_number == 2


def test_a_ring_that_writes_under_an_old_name_is_read_anew(journal: FileJournal, ring: Path) -> None:
    (ring / "1").write_bytes(b"one")
    take(journal, ring)
    (first,) = journal.files(0, 1)
    (ring / "1").write_bytes(b"another one")
    assert not first.is_there
    assert take(journal, ring) == ["1"]
    assert [file.number for file in journal.files(0, 2)] == [0, 1]


def test_what_a_file_grew_by_is_reported_and_not_taken(
    journal: FileJournal, ring: Path, tmp_path: Path
) -> None:
    (ring / "1").write_bytes(b"one")
    take(journal, ring)
    (ring / "1").write_bytes(b"one and more")
    for _ in range(2):
        assert take(journal, ring) == []
    assert grown_file(tmp_path / "files.jsonl").read_text().count("\n") == 1
    assert journal.files(0, 1)[0].is_there


def test_an_unfinished_line_was_never_offered(journal: FileJournal, ring: Path, tmp_path: Path) -> None:
    (ring / "1").write_bytes(b"one")
    take(journal, ring)
    journal.close()
    path = tmp_path / "files.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:-9].replace(b'"number":0', b'"number":1'))
    again = FileJournal(path)
    assert again.next_number == 1
    assert path.read_bytes() == whole


def test_a_damaged_journal_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "files.jsonl").write_bytes(b"nonsense\n")
    with pytest.raises(CarriedStateError, match="is damaged"):
        FileJournal(tmp_path / "files.jsonl")


def test_files_that_are_gone_are_forgotten(journal: FileJournal, ring: Path, tmp_path: Path) -> None:
    for number in range(6):
        (ring / str(number)).write_bytes(b"%d" % number)
    take(journal, ring)
    for number in (0, 1, 2, 5):
        (ring / str(number)).unlink()
    journal.forget(before=2)
    assert [file.number for file in journal.files(2, 6)] == [2, 3, 4, 5]
    with pytest.raises(CarriedStateError, match="any more"):
        journal.files(0, 2)
    journal.close()
    again = FileJournal(tmp_path / "files.jsonl")
    again.forget(before=99)
    assert (len(again), again.next_number) == (3, 6)  # 3 and 4 are there still, and 5 has the last number
    assert take(again, ring) == []


def test_another_process_is_kept_away(journal: FileJournal, tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from kdissect.spark.watch.file_journal import FileJournal
FileJournal(Path({str(tmp_path / "files.jsonl")!r}), patience_s=0.1)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False
    )
    assert "another process uses" in done.stderr
    journal.close()
    subprocess.run([sys.executable, "-c", code], env=environment(), check=True)


def test_what_waits_is_known_without_the_journal_being_open(
    journal: FileJournal, ring: Path, tmp_path: Path
) -> None:
    path = tmp_path / "files.jsonl"
    assert not is_behind(path, 0, str(ring))
    (ring / "1").write_bytes(b"one")
    assert is_behind(path, 0, str(ring))
    take(journal, ring)
    assert is_behind(path, 0, str(ring))
    assert not is_behind(path, 1, str(ring))
    (ring / "1").write_bytes(b"one and more")  # never to be read
    assert not is_behind(path, 1, str(ring))
