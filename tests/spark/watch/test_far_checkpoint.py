"""A checkpoint in an object store: a batch counts when its commit is there, and another machine goes on."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kdissect.capture.storage_folder import StorageFolder, open_folder
from kdissect.errors import OutputError
from kdissect.spark.watch import far_checkpoint
from kdissect.spark.watch.batch_store import BatchStore, CheckpointError, Commit
from kdissect.spark.watch.checkpoint_lease import owner_file
from kdissect.spark.watch.far_checkpoint import FarCheckpoint
from kdissect.spark.watch.file_journal import FileJournal, TakenFile
from kdissect.streams.carry.value_bytes import CarriedStateError

ABOUT = {"directory": "/ring", "ports": [9092]}


class Machine:
    """A run on a machine of its own."""

    def __init__(self, place: str, folder: Path, ring: Path, about: dict[str, object] | None = None) -> None:
        self.copy = FarCheckpoint(place, folder / "work", str(ring), lease_s=0.2)
        try:
            self.store = BatchStore(folder / "work", folder / "out", about or ABOUT, self.copy)
        except BaseException:
            self.copy.close()
            raise
        self.ring = ring

    def batch(self) -> None:
        number = self.store.last.batch + 1
        attempt = self.store.attempt()
        (attempt.state / "part-000").write_bytes(b"state %d" % number)
        self.store.partials.mkdir(exist_ok=True)
        (self.store.partials / f"{number:08}.arrow").write_bytes(b"partial %d" % number)
        path = self.ring / f"{number:03}.pcap"
        path.write_bytes(b"x")
        file = TakenFile(number, str(path), 1, path.stat().st_mtime_ns, "head", 1)
        spans = [[batch, 0, 0, 1] for batch in range(max(0, number - 1), number + 1)]
        commit = Commit(number, taken=number + 1, incidents={"spans": spans})
        self.store.commit(attempt, commit, {}, [file])
        for old in self.store.partials.glob("*.arrow"):
            if int(old.stem) < number - 1:
                old.unlink()

    def end(self) -> None:
        self.store.close()
        self.copy.close()


@pytest.fixture
def place(s3: str, tmp_path: Path) -> str:
    (tmp_path / "ring").mkdir()
    return f"s3://captures/{tmp_path.name}/checkpoint{s3}"


def machine(place: str, tmp_path: Path, name: str) -> Machine:
    (tmp_path / name).mkdir()
    return Machine(place, tmp_path / name, tmp_path / "ring")


def names(folder: StorageFolder) -> list[str]:
    return sorted(
        f"{below}/{file.name}"
        for below in ("commits", "state", "partials", "files")
        for file in folder.below(below).files()
    )


def test_another_machine_goes_on(place: str, tmp_path: Path) -> None:
    one = machine(place, tmp_path, "one")
    assert one.store.first_batch == 0
    for _ in range(3):
        one.batch()
    one.end()
    assert names(open_folder(place)) == [
        "commits/00000002.json",
        "files/00000000.jsonl",
        "partials/00000000.arrow",  # it left the window with this batch, and goes with the next one
        "partials/00000001.arrow",
        "partials/00000002.arrow",
        "state/00000002-part-000",
    ]
    other = machine(place, tmp_path, "other")
    store = other.store
    assert (store.last.batch, store.last.taken, store.first_batch) == (2, 3, 3)
    state = store.state()
    assert state is not None
    assert (state / "part-000").read_bytes() == b"state 2"
    assert sorted(path.name for path in store.partials.iterdir()) == ["00000001.arrow", "00000002.arrow"]
    journal = FileJournal(store.journal)
    assert [Path(file.path).name for file in journal.files(0, 3)] == ["000.pcap", "001.pcap", "002.pcap"]
    journal.close()
    other.batch()
    other.end()
    assert "commits/00000003.json" in names(open_folder(place))


def test_a_batch_without_its_commit_has_never_been(place: str, tmp_path: Path) -> None:
    one = machine(place, tmp_path, "one")
    one.batch()
    one.end()
    folder = open_folder(place)
    before = names(folder)
    folder.write("state/00000001-part-000", b"state 1")
    folder.write("partials/00000001.arrow", b"partial 1")
    line = json.loads(folder.read("files/00000000.jsonl"))
    more = json.dumps({**line, "number": 1, "path": "001.pcap"})
    folder.write("files/00000000.jsonl", folder.read("files/00000000.jsonl") + more.encode() + b"\n")
    other = machine(place, tmp_path, "other")
    assert other.store.last.batch == 0
    assert len(other.store.journal.read_text().splitlines()) == 1
    assert names(folder) == before
    other.end()


def test_a_run_that_is_killed_behind_its_commit_goes_on_behind_it(place: str, tmp_path: Path) -> None:
    one = machine(place, tmp_path, "one")
    one.batch()
    one.batch()
    folder = open_folder(place)
    folder.write("commits/00000000.json", b"{}")  # what the batch before has left
    folder.write("state/00000000-part-000", b"state 0")
    one.end()
    other = machine(place, tmp_path, "other")
    assert other.store.last.batch == 1
    assert not [name for name in names(folder) if "state/00000000" in name or "commits/00000000" in name]
    other.end()


def test_the_journal_is_bounded_by_the_files_that_are_there(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunk = 6  # batches
    monkeypatch.setattr(far_checkpoint, "CHUNK", chunk)
    one = machine(place, tmp_path, "one")
    for _ in range(chunk + 2):
        one.batch()
    one.end()
    assert len([name for name in names(open_folder(place)) if name.startswith("files/")]) == 2
    for path in sorted((tmp_path / "ring").iterdir())[:-3]:
        path.unlink()
    other = machine(place, tmp_path, "other")
    assert len(other.store.journal.read_text().splitlines()) == 3
    other.batch()
    other.end()
    assert len([name for name in names(open_folder(place)) if name.startswith("files/")]) == 1
    third = machine(place, tmp_path, "third")
    assert len(third.store.journal.read_text().splitlines()) == 4
    third.end()


def test_a_run_that_was_taken_for_dead_writes_no_batch_any_more(place: str, tmp_path: Path) -> None:
    one = machine(place, tmp_path, "one")
    one.batch()
    open_folder(place).write(owner_file(2, "aa"), b'{"machine": "elsewhere"}')
    with pytest.raises(CheckpointError, match=r"another watch uses the checkpoint s3://captures/"):
        one.batch()
    one.end()
    assert "commits/00000001.json" not in names(open_folder(place))


def test_mistakes_are_one_sentence(place: str, tmp_path: Path, s3: str) -> None:
    one = machine(place, tmp_path, "one")
    one.batch()
    one.end()
    (tmp_path / "other").mkdir()
    with pytest.raises(CheckpointError, match="another directory"):
        Machine(place, tmp_path / "other", tmp_path / "ring", {**ABOUT, "directory": "/else"})
    open_folder(place).write("commits/00000009.json", b"{")
    with pytest.raises(CarriedStateError, match=r"^commits/00000009.json of s3://captures/.* is damaged$"):
        machine(place, tmp_path, "third")
    for wrong in ("none://a/b", f"s3://no-such-bucket/a{s3.replace('&allow_bucket_creation=true', '')}"):
        with pytest.raises(OutputError, match=r"^cannot write to ") as raised:
            FarCheckpoint(wrong, tmp_path / "fourth", str(tmp_path))
        assert "\n" not in str(raised.value)


def test_no_settings_of_a_uri_are_in_the_journal(place: str, tmp_path: Path, s3: str) -> None:
    one = machine(place, tmp_path, "one")
    one.batch()
    attempt = one.store.attempt()
    uri = f"s3://key:password@captures/ring/7.pcap{s3}"
    file = replace(TakenFile(1, uri, 1, 1, "head", 1))
    one.store.commit(attempt, Commit(1, taken=2, incidents={"spans": []}), {}, [file])
    one.end()
    assert json.loads(open_folder(place).read("files/00000000.jsonl").splitlines()[-1])["path"] == "7.pcap"
