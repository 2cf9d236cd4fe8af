"""The tasks of batches, without Spark: rows and state go from batch to batch."""

import tempfile
from pathlib import Path

import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import CaptureFile
from kdissect.spark.watch.batch_step import BatchFigures, BatchPlan, batch_step, scan_step
from kdissect.spark.watch.task_files import AttemptFiles, TaskFiles, returned_files, state_name
from kdissect.streams.carry.value_bytes import CarriedStateError
from kdissect.streams.tls.keylog import keys_for
from tests.helpers.rings import CAPTURES, assert_same, ring_files, tables_at_once, tables_of_watch, write_ring

PARTITIONS = 3


def files_of(folder: Path, batch: int, returns: bool) -> TaskFiles:
    """Return the files of tasks, which use folders or return what they leave."""
    before = folder / f"state-{batch - 1}" if batch else None
    if returns:
        return returned_files(before, PARTITIONS, has_rows=True)
    return AttemptFiles(before, folder / f"state-{batch}", folder / "attempt")


def run_batches(
    paths: list[Path], folder: Path, size: int, attempts: int = 1, returns: bool = False
) -> list[BatchFigures]:
    """Return the figures of each batch of files, and of the end. Rows get their places below `out`.

    With more attempts each task is done again before its rows are moved; the figures are those of the first.
    """
    found, names = [], {}
    groups = [paths[first : first + size] for first in range(0, len(paths), size)]
    for batch, group in enumerate([*groups, []]):
        index = index_captures([CaptureFile(str(path), str(path)) for path in group])
        after = folder / f"state-{batch}"
        after.mkdir()
        plan = BatchPlan(
            batch, index.splits, (), PARTITIONS, files_of(folder, batch, returns),
            index.latest_time_ns or 0, not group, names, keys_for(None, index.files),
        )  # fmt: skip
        rows = list(scan_step(range(len(index.splits)), plan))
        figures = BatchFigures()
        for number in range(PARTITIONS):
            mine = [(partition, blob) for partition, blob in rows if partition == number]
            parts = list(batch_step(number, mine, plan))
            for _ in range(attempts - 1):
                list(batch_step(number, mine, plan))
            for part in parts:
                figures.add(part)
        figures.files.write(after, folder / "attempt")
        for path, inside in figures.files.paths.items():
            (folder / "out" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "attempt" / inside).rename(folder / "out" / path)
        names = {**figures.names, **names}
        found.append(figures)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("size", "returns"), [(1, False), (3, False), (50, False), (3, True)])
def test_rows_do_not_depend_on_the_size_of_batches(tmp_path: Path, size: int, returns: bool) -> None:
    paths = write_ring(tmp_path / "ring", ring_files(CAPTURES / "old-broker.pcap", 12))
    figures = run_batches(paths, tmp_path, size, returns=returns)
    expected = tables_at_once(tmp_path / "ring")
    assert_same(tables_of_watch(tmp_path / "out"), expected)
    for name, table in expected.items():
        assert sum(one.rows.get(name, 0) for one in figures) == table.num_rows
    assert figures[-1].open == 0
    assert figures[-2].open > 0
    assert sum(one.unanswered for one in figures) == expected["exchanges"]["status"].to_pylist().count(
        "unanswered"
    )


def test_a_task_that_is_repeated_writes_files_of_its_own(tmp_path: Path) -> None:
    paths = write_ring(tmp_path / "ring", ring_files(CAPTURES / "old-broker.pcap", 3))
    figures = run_batches(paths, tmp_path, 2, attempts=2)
    assert_same(tables_of_watch(tmp_path / "out"), tables_at_once(tmp_path / "ring"))
    left = [path for path in (tmp_path / "attempt").rglob("*") if path.is_file()]
    assert len(left) == sum(len(one.files.paths) for one in figures) > 0  # those of the second attempts
    names = {path.name for path in (tmp_path / "state-2").iterdir()}
    assert names == {state_name(number) for number in range(PARTITIONS)}


def test_a_task_that_returns_its_files_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = write_ring(tmp_path / "ring", ring_files(CAPTURES / "old-broker.pcap", 3))
    (tmp_path / "executor").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "executor"))
    figures = run_batches(paths, tmp_path, 2, attempts=2, returns=True)
    assert_same(tables_of_watch(tmp_path / "out"), tables_at_once(tmp_path / "ring"))
    assert not [path for path in (tmp_path / "attempt").rglob("*") if path.is_file()]
    assert not list((tmp_path / "executor").iterdir())
    assert {len(one.files.states) + len(one.files.rows) for one in figures} == {0}  # written, and forgotten


def test_state_is_private_and_small_at_the_end(tmp_path: Path) -> None:
    paths = write_ring(tmp_path / "ring", ring_files(CAPTURES / "old-broker.pcap", 2))
    figures = run_batches(paths, tmp_path, 1)
    last = tmp_path / "state-2" / state_name(0)
    assert last.stat().st_mode & 0o077 == 0
    assert figures[-1].state_bytes < figures[0].state_bytes


def test_damaged_state_is_one_sentence(tmp_path: Path) -> None:
    paths = write_ring(tmp_path / "ring", ring_files(CAPTURES / "old-broker.pcap", 2))
    run_batches(paths[:1], tmp_path, 1)
    (tmp_path / "state-0" / state_name(0)).write_bytes(b"nonsense")
    for returns in (False, True):
        plan = BatchPlan(1, (), (), PARTITIONS, files_of(tmp_path, 1, returns), 0)
        with pytest.raises(CarriedStateError, match="part-000"):
            list(batch_step(0, [], plan))


def test_waits_by_design_have_no_service_time() -> None:
    figures = BatchFigures()
    assert figures.percentiles((500,)) == [None]
    figures.latency = {10: 1, 20: 98, 200: 1}
    assert figures.percentiles((500, 1000)) == [20, 200]
