"""Output of a batch counts when it is committed, and not before."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdissect.spark.watch.batch_store import Attempt, BatchStore, CheckpointError, Commit
from kdissect.streams.carry.value_bytes import CarriedStateError
from tests.helpers.command import environment
from tests.helpers.other_user import as_other, directory_for_all, needs_other_user

ABOUT = {"directory": "/ring", "ports": [9092]}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[BatchStore]:
    store = opened(tmp_path)
    yield store
    store.close()


def opened(tmp_path: Path, **about: object) -> BatchStore:
    return BatchStore(tmp_path / "checkpoint", tmp_path / "out", {**ABOUT, **about})


def fill(attempt: Attempt, batch: int) -> dict[str, str]:
    """Do what the tasks of a batch do."""
    (attempt.state / "part-000").write_bytes(b"state %d" % batch)
    path = f"exchanges/hour=2026-01-01-00/batch-{batch:08}-000.parquet"
    assert attempt.out is not None
    (attempt.out / path).parent.mkdir(parents=True)
    (attempt.out / path).write_bytes(b"rows %d" % batch)
    return {path: path}


def add(store: BatchStore, batch: int) -> None:
    attempt = store.attempt()
    store.commit(attempt, Commit(batch=batch, names={"id": "orders"}), fill(attempt, batch))


def files(tmp_path: Path) -> list[str]:
    return sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())


def test_committed_batches_stay_and_go_on(store: BatchStore, tmp_path: Path) -> None:
    assert store.state() is None
    add(store, 0)
    add(store, 1)
    store.close()
    again = opened(tmp_path)
    assert again.last.batch == 1
    state = again.state()
    assert state is not None
    assert (state / "part-000").read_bytes() == b"state 1"
    assert files(tmp_path / "out") == [
        "exchanges/hour=2026-01-01-00/batch-00000000-000.parquet",
        "exchanges/hour=2026-01-01-00/batch-00000001-000.parquet",
        "topic_names/batch-00000000-000.parquet",  # a name is written once
    ]
    assert [path.name for path in (tmp_path / "checkpoint" / "state").iterdir()] == ["00000001"]
    again.close()
    store._lock = again._lock = opened(tmp_path)._lock


def test_an_attempt_without_commit_leaves_nothing(store: BatchStore, tmp_path: Path) -> None:
    add(store, 0)
    before = files(tmp_path)
    fill(store.attempt(), 1)
    store.close()
    store._lock = opened(tmp_path)._lock
    assert files(tmp_path) == before


@pytest.mark.parametrize("moment", ["state", "files"])
def test_a_run_that_ends_within_a_commit_has_done_nothing(
    store: BatchStore, tmp_path: Path, moment: str
) -> None:
    add(store, 0)
    before = files(tmp_path)
    attempt = store.attempt()
    (path,) = fill(attempt, 1)
    attempt.state.rename(tmp_path / "checkpoint" / "state" / "00000001")
    if moment == "files":
        assert attempt.out is not None
        (attempt.out / path).rename(tmp_path / "out" / path)
    store.close()
    again = opened(tmp_path)
    assert again.last.batch == 0
    assert files(tmp_path) == before
    store._lock = again._lock


def test_a_second_run_is_kept_away(store: BatchStore, tmp_path: Path) -> None:
    assert store.last.batch == -1
    code = f"""
from pathlib import Path
from kdissect.spark.watch.batch_store import BatchStore
BatchStore(Path({str(tmp_path / "checkpoint")!r}), None, {ABOUT!r})
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False
    )
    assert "CheckpointError: another watch uses" in done.stderr.splitlines()[-1].rpartition("batch_store.")[2]


def test_another_watch_is_refused(store: BatchStore, tmp_path: Path) -> None:
    store.close()
    with pytest.raises(CheckpointError, match="another directory: /ring"):
        opened(tmp_path, directory="/other")
    store._lock = opened(tmp_path)._lock


def test_damage_is_one_sentence(store: BatchStore, tmp_path: Path) -> None:
    add(store, 0)
    store.close()
    (tmp_path / "checkpoint" / "commit.json").write_text("{")
    with pytest.raises(CarriedStateError, match="is damaged"):
        opened(tmp_path)
    (tmp_path / "checkpoint" / "commit.json").write_text('{"later": 1}')
    with pytest.raises(CarriedStateError, match="another version"):
        opened(tmp_path)
    (tmp_path / "checkpoint" / "commit.json").unlink()
    store._lock = opened(tmp_path)._lock


def test_nobody_else_reads_a_checkpoint(store: BatchStore, tmp_path: Path) -> None:
    assert (tmp_path / "checkpoint").stat().st_mode & 0o077 == 0
    assert store.attempt().state.stat().st_mode & 0o077 == 0


@needs_other_user
@pytest.mark.parametrize("mode", [0o700, 0o1777])
def test_a_checkpoint_in_which_others_may_write_is_refused(mode: int) -> None:
    """The other user makes the directory first, with a link in the place of a file that a watch writes."""
    with directory_for_all() as shared:
        target = shared / "target"
        target.write_text("precious")
        target.chmod(0o600)
        as_other(
            "import os, sys; place, target, mode = sys.argv[1:]; os.mkdir(place); "
            "os.symlink(target, place + '/watch.part'); os.chmod(place, int(mode))",
            shared / "checkpoint",
            target,
            mode,
        )
        with pytest.raises(CheckpointError, match="other users may write to the checkpoint"):
            BatchStore(shared / "checkpoint", None, ABOUT)
        assert target.read_text() == "precious"


def test_a_checkpoint_that_was_open_to_readers_is_closed(tmp_path: Path) -> None:
    place = tmp_path / "open"
    place.mkdir(mode=0o755)
    BatchStore(place, None, {}).close()
    assert place.stat().st_mode & 0o777 == 0o700
