"""`spark.executor_slots`: how many tasks a cluster runs at a time, and notices while there are none."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kdissect.spark import executor_slots
from kdissect.spark.executor_slots import SlotNotices, notice_missing_slots
from kdissect.spark.session import Engine
from kdissect.spark.spark_settings import SparkSettings
from tests.helpers.spark_cluster import Standalone
from tests.spark.conftest import spark_apart


def told(*looks: tuple[float, int, int]) -> list[str]:
    """Return the notices after looks: seconds, active stages and slots of each."""
    lines: list[str] = []
    times = iter([seconds for seconds, _, _ in looks])
    notices = SlotNotices(lines.append, lambda: next(times))
    for _, stages, slots in looks:
        notices.look(stages, slots)
    return lines


WAITS = "no executor of the Spark cluster is free for this run: it starts when there is one"


def test_a_stage_that_waits_is_told_once_and_its_start_too() -> None:
    assert told((0, 0, 0), (5, 1, 0), (14, 1, 0)) == []
    assert told((0, 1, 0), (10, 1, 0), (12, 1, 0), (30, 1, 0)) == [WAITS]
    assert told((0, 1, 0), (10, 1, 0), (42, 1, 2), (44, 1, 2)) == [
        WAITS, "the Spark cluster has given an executor, after 42 s",
    ]  # fmt: skip


def test_each_wait_has_a_time_of_its_own() -> None:
    assert told((0, 1, 0), (6, 0, 0), (8, 1, 0), (14, 1, 0)) == []  # two jobs, none of which waits long
    later = told((0, 1, 0), (10, 1, 0), (20, 1, 2), (50, 1, 0), (59, 1, 0), (60, 1, 0))
    assert later == [WAITS, "the Spark cluster has given an executor, after 20 s", WAITS]


def test_nobody_looks_after_the_end_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_slots, "LOOK_S", 0.01)
    looks: list[int] = []

    def active_stages() -> list[int]:
        looks.append(1)
        raise ConnectionRefusedError

    context: Any = SimpleNamespace(statusTracker=lambda: SimpleNamespace(getActiveStageIds=active_stages))
    end = notice_missing_slots(context, pytest.fail)
    for thread in threading.enumerate():
        if thread.name == "executor-slots":
            thread.join(5)
    assert looks == [1]
    end()


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.slow
def test_a_cluster_that_others_fill_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_slots, "PATIENCE_S", 0.5)
    monkeypatch.setattr(executor_slots, "LOOK_S", 0.1)
    lines: list[str] = []

    def notice(line: str) -> None:
        lines.append(line)
        if line == WAITS:
            cluster.add_worker("worker-0")

    with Standalone(tmp_path, workers=0) as cluster:
        settings = SparkSettings(cluster.master, confs=cluster.confs, notice=notice)
        with spark_apart(), Engine.start(settings) as engine:
            assert engine.context().parallelize(range(4), 2).sum() == 6
    assert lines[0] == WAITS
