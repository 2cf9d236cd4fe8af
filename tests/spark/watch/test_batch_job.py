"""A batch that fails has changed nothing: it is done again, and its rows are there once."""

from pathlib import Path

import pytest

from kdissect.errors import OutputError
from kdissect.spark.session import Engine
from kdissect.spark.watch.batch_job import BatchJob
from kdissect.spark.watch.batch_store import BatchStore
from kdissect.spark.watch.file_journal import TakenFile
from kdissect.spark.watch.late_files import LateFiles
from kdissect.spark.watch.watch_settings import WatchSettings
from kdissect.spark.watch.watched_directory import WatchedDirectory
from kdissect.text import format_clock
from tests.helpers.rings import CAPTURES, assert_same, ring_files, tables_at_once, tables_of_watch, write_ring


def test_a_batch_that_fails_is_done_again(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = write_ring(tmp_path / "ring", ring_files(CAPTURES / "old-broker.pcap", 2))
    settings = WatchSettings(WatchedDirectory(str(tmp_path / "ring")))
    store = BatchStore(tmp_path / "checkpoint", tmp_path / "out", settings.about())
    job = BatchJob(engine, settings, store)
    commit, failures = store.commit, [OutputError("no room")]

    def fails_once(*arguments: object) -> None:
        if failures:
            raise failures.pop()
        commit(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "commit", fails_once)
    taken = [TakenFile(number, str(path), path.stat().st_size, 0, "", 0) for number, path in enumerate(paths)]
    try:
        for batch, file in enumerate(taken):
            if failures:
                with pytest.raises(OutputError, match="no room"):
                    job.run([file], [file], LateFiles(), is_last=False)
                assert not list((tmp_path / "out").rglob("*.parquet"))
            report = job.run([file], [file], LateFiles(), is_last=False)
            assert (report.commit.batch, report.commit.taken, report.files) == (batch, batch + 1, 1)
        assert job.run([], [], LateFiles(), is_last=True).figures.open == 0
    finally:
        store.close()
    assert_same(tables_of_watch(tmp_path / "out"), tables_at_once(tmp_path / "ring"))


def test_the_time_of_a_batch_is_that_of_its_latest_packet(engine: Engine, tmp_path: Path) -> None:
    path = CAPTURES / "pause.pcapng"
    settings = WatchSettings(WatchedDirectory(str(tmp_path)))
    store = BatchStore(tmp_path / "checkpoint", None, settings.about())
    job = BatchJob(engine, settings, store)
    file = TakenFile(0, str(path), path.stat().st_size, 0, "", 0)
    try:
        reports = [
            job.run([file], [file], LateFiles(), is_last=False),
            job.run([], [], LateFiles(), is_last=True),
        ]
    finally:
        store.close()
    assert [format_clock(report.commit.now_ns) for report in reports] == ["05:33:45.156"] * 2
