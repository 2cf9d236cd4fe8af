"""`spark.barrier_tasks`: a replay by the executors of a standalone cluster of two workers."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kdissect.errors import ExitCode, UserError
from kdissect.replay.engine.run import Replay
from kdissect.replay.plan import make_plan
from kdissect.replay.results.run_comparison import compare
from kdissect.replay.results.run_files import read_run, save_passes
from kdissect.replay.settings import Groups, Pace, ReplaySettings
from kdissect.spark import barrier_tasks
from kdissect.spark.barrier_tasks import wait_for_slots, warns_of_readers
from kdissect.text import parse_address
from tests.helpers.command import COMMAND, environment
from tests.helpers.conversations import CAPTURES
from tests.helpers.null_target import null_target
from tests.helpers.replay_logs import make_log
from tests.helpers.spark_cluster import Standalone


def replayed(command: list[str], **variables: str) -> tuple[dict[str, Any], str]:
    done = subprocess.run(
        [*COMMAND, *command],
        capture_output=True,
        text=True,
        check=False,
        env=environment(KDISSECT_JIT="0", **variables),
    )
    assert done.returncode == ExitCode.CONDITION_MET, done.stderr  # this target has no records
    return json.loads(done.stdout), done.stderr


def replayed_here(log: Path, target: str, out: Path) -> dict[str, Any]:
    """Replay a log by this process."""
    host, port = parse_address(target)
    assert port is not None
    asked = ReplaySettings(((host, port),), pace=Pace.ASAP, groups=Groups.AUTO)
    with closing(Replay(asked, [str(log)])) as replay:
        replay.learn()
        plan = make_plan(replay)
        replay.play()
        (place,) = save_passes(replay, out, plan)
    return compare(*read_run(place))


@pytest.mark.spark
@pytest.mark.thorough  # test_machines_run does this with processes, test_replay_machines with a local Spark
def test_executors_come_to_the_verdict_of_one_process(tmp_path: Path) -> None:
    make_log([str(CAPTURES / "steady.pcapng")], tmp_path / "log")
    (tmp_path / "cluster").mkdir()
    with null_target() as target, Standalone(tmp_path / "cluster") as cluster:
        confs = "\n".join(f"{name} {value}" for name, value in cluster.confs.items())
        (tmp_path / "spark-defaults.conf").write_text(confs)
        command = ["replay", "run", str(tmp_path / "log"), "--target", target, "--pace", "asap", "--execute"]
        command += ["--format", "json"]
        one = replayed_here(tmp_path / "log", target, tmp_path / "one")
        two, said = replayed(
            [*command, "--out", str(tmp_path / "two"), "--master", cluster.master],
            SPARK_CONF_DIR=str(tmp_path),
            PYSPARK_PYTHON=str(cluster.python),
        )
    for part in ("verdict", "because", "accounting", "skipped", "records", "checks"):
        assert two[part] == one[part], part
    assert "2 workers load the log" in said
    assert [worker["lost"] for worker in two["run"]["workers"]] == ["", ""]
    assert len({worker["process"] for worker in two["run"]["workers"]} - {os.getpid()}) == 2
    starts = [worker["start_ms"] for worker in two["run"]["workers"]]
    assert max(starts) - min(starts) < 1000


class Slots:
    """A Spark context of which only the slots are asked for; they come up one after the other."""

    def __init__(self, *counts: int) -> None:
        self.counts = list(counts)
        self._jsc = self

    def sc(self) -> Slots:
        return self

    def resourceProfileManager(self) -> Slots:  # noqa: N802 - a name of Spark
        return self

    def defaultResourceProfile(self) -> None:  # noqa: N802
        return None

    def maxNumConcurrentTasks(self, _profile: None) -> int:  # noqa: N802
        return self.counts.pop(0) if len(self.counts) > 1 else self.counts[0]


def slots(
    wanted: int, *counts: int, local: bool = False, notice: Callable[[str], None] = lambda _text: None
) -> int:
    context: Any = Slots(*counts)
    return wait_for_slots(context, wanted, local, notice)


def test_slots_are_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SETTLED_S", "LOOK_S"):
        monkeypatch.setattr(barrier_tasks, name, 0.01)
    monkeypatch.setattr(barrier_tasks, "REGISTER_S", 0.3)
    assert slots(0, 0, 0, 1, 2, 2, 2, 2) == 2
    assert slots(2, 0, 1, 3) == 2
    assert slots(0, 4, local=True) == 4
    with pytest.raises(UserError, match="runs 1 task at a time, and --processes asks for 2"):
        slots(2, 0, 1)
    with pytest.raises(UserError, match="runs 2 tasks at a time, and --processes asks for 3"):
        slots(3, 2)
    with pytest.raises(UserError, match="no executor that is free"):
        slots(0, 0)


def test_a_long_wait_for_slots_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    for name, seconds in (("LOOK_S", 0.01), ("PATIENCE_S", 0.05), ("REGISTER_S", 0.3)):
        monkeypatch.setattr(barrier_tasks, name, seconds)
    with pytest.raises(UserError):
        slots(2, 0, 1, notice=told.append)
    (notice,) = told
    assert notice.startswith("the Spark cluster runs 1 task at a time, which is too few: the replay waits")
    monkeypatch.setattr(barrier_tasks, "SETTLED_S", 0.1)
    assert slots(0, 1, notice=told.append) == 1  # more may come, and none is needed
    assert len(told) == 1


def test_who_can_read_along_is_told() -> None:
    def context(value: str | None) -> Any:
        return SimpleNamespace(getConf=lambda: {"spark.authenticate": value})

    assert warns_of_readers(context(None), local=False)
    assert not warns_of_readers(context("true"), local=False)
    assert not warns_of_readers(context(None), local=True)
