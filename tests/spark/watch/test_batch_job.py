"""A batch that fails has changed nothing: it is done again, and its rows are there once."""

from pathlib import Path

import pytest

from kdissect.errors import OutputError
from kdissect.spark.session import Engine
from kdissect.spark.watch.batch_job import BatchJob, BatchReport
from kdissect.spark.watch.batch_store import BatchStore
from kdissect.spark.watch.file_journal import TakenFile
from kdissect.spark.watch.late_files import LateFiles
from kdissect.spark.watch.watch_settings import WatchSettings
from kdissect.spark.watch.watched_directory import WatchedDirectory
from kdissect.text import format_clock
from tests.helpers.recorded import analyzed
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


@pytest.fixture(scope="module")
def watched_pause(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> list[BatchReport]:
    """Return the reports of a batch with `pause.pcapng`, and of the last one."""
    folder, path = tmp_path_factory.mktemp("pause"), CAPTURES / "pause.pcapng"
    settings = WatchSettings(WatchedDirectory(str(folder)))
    store = BatchStore(folder / "checkpoint", None, settings.about())
    job = BatchJob(engine, settings, store)
    files = [TakenFile(0, str(path), path.stat().st_size, 0, "", 0)]
    try:
        return [job.run(part, part, LateFiles(), is_last=not part) for part in (files, [])]
    finally:
        store.close()


def test_the_time_of_a_batch_is_that_of_its_latest_packet(watched_pause: list[BatchReport]) -> None:
    assert [format_clock(one.commit.now_ns) for one in watched_pause] == ["05:33:45.156"] * 2


def test_signals_are_those_of_one_analysis(watched_pause: list[BatchReport]) -> None:
    at_once = {signal.kind for signal in analyzed("pause.pcapng")[0].signals}
    assert {"leaders_moved", "replicas_out_of_sync"} <= at_once
    assert watched_pause[-1].recent is not None
    assert {signal.kind for signal in watched_pause[-1].recent.signals} == at_once
