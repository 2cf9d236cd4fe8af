"""Tasks end by themselves when the user ends the reading, and all connections end at the same split."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from kdissect.capture.index.splits import Split
from kdissect.report.build.build_report import build_report
from kdissect.report.model.summary import CaptureFacts
from kdissect.spark import jobs, reading_stop
from kdissect.spark.analysis_work import AnalysisWork
from kdissect.spark.reading_stop import TO_THE_END, Interruption, ReadingStop
from kdissect.spark.session import Engine
from tests.spark.conftest import CAPTURES

FIRST = min(CAPTURES.glob("*.pcap*"))


def pieces(count: int, first: int = 0) -> Iterator[pa.RecordBatch]:
    return (pa.record_batch({"split": [number, number]}) for number in range(first, count))


def splits_of(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [batch["split"][0].as_py() for batch in batches]


def test_nobody_asks_for_a_stop(tmp_path: Path) -> None:
    stop = ReadingStop.new(tmp_path)
    assert all(stop.lets_scan(ordinal) for ordinal in range(5))
    assert splits_of(stop.reading(pieces(5))) == [0, 1, 2, 3, 4]
    assert stop.settle() is None
    assert not stop.is_asked_for


def test_tasks_of_pass_two_end_together(tmp_path: Path) -> None:
    stop = ReadingStop.new(tmp_path)
    ahead, behind = stop.reading(pieces(9)), stop.reading(pieces(9))
    assert splits_of(next(ahead) for _ in range(4)) == [0, 1, 2, 3]
    next(behind)
    stop.ask()
    assert splits_of(behind) == [1, 2, 3]
    assert splits_of(ahead) == []
    assert splits_of(stop.reading(pieces(9))) == []  # a task that had not begun
    assert stop.settle() == Interruption(4, 1)
    assert splits_of(stop.reading(pieces(9))) == [0, 1, 2, 3]  # a later job of the run
    assert [ordinal for ordinal in range(9) if stop.lets_scan(ordinal)] == [0, 1, 2, 3]


def test_tasks_stop_where_they_are_if_one_has_ended(tmp_path: Path) -> None:
    stop = ReadingStop.new(tmp_path)
    slow = stop.reading(pieces(9))
    assert splits_of(stop.reading(pieces(9))) == list(range(9))
    assert splits_of(next(slow) for _ in range(2)) == [0, 1]
    stop.ask()
    assert splits_of(slow) == []
    assert stop.settle() == Interruption(2, 0)


def test_a_stop_in_pass_one_leaves_pass_two_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = ReadingStop.new(tmp_path)
    assert stop.lets_scan(3)
    stop.ask()
    assert [stop.lets_scan(ordinal) for ordinal in (4, 0, 7)] == [False, True, False]
    assert splits_of(stop.reading(pieces(6))) == [0, 1, 2, 3]
    assert stop.settle() == Interruption(4, 0)

    (tmp_path / "second").mkdir()
    stop = ReadingStop.new(tmp_path / "second")
    monkeypatch.setattr(reading_stop, "LEAST_SECONDS", 0.05)
    stop.ask()
    task = stop.reading(pieces(9))
    next(task)
    time.sleep(0.2)
    assert splits_of(task) == [1]
    assert stop.settle() == Interruption(2, 0)


def test_a_stop_that_comes_too_late_is_none(tmp_path: Path) -> None:
    stop = ReadingStop.new(tmp_path)
    assert splits_of(stop.reading(pieces(3))) == [0, 1, 2]
    stop.ask()
    assert stop.settle() is None
    assert stop.settled.numbers() == [TO_THE_END]
    assert splits_of(stop.reading(pieces(3))) == [0, 1, 2]


@pytest.mark.spark
def test_a_report_of_what_was_read(
    engine: Engine, splits_of: Callable[..., tuple[Split, ...]], tmp_path: Path
) -> None:
    splits = splits_of(FIRST, split_bytes=100_000)
    stop = ReadingStop.new(tmp_path)
    work, part = AnalysisWork(splits, partitions=3, stop=stop), AnalysisWork(splits[:1], partitions=3)
    stop.ask()
    interrupted = jobs.merge_figures(jobs.figures(engine.context(), work))
    assert stop.settle() == Interruption(1, 0)
    alone = jobs.merge_figures(jobs.figures(engine.context(), part))
    assert interrupted.counts == alone.counts
    assert interrupted.counts.packets == splits[0].packets
    assert build_report(interrupted.partial, CaptureFacts()) == build_report(alone.partial, CaptureFacts())
