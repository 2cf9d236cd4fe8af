"""`replay.machines.part_worker`: what a worker refuses before it sends anything."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kdissect.replay.disposition import Disposition
from kdissect.replay.engine.pass_results import PassOutcome, RequestResult, ResultTable
from kdissect.replay.engine.run import Replay
from kdissect.replay.machines.channel import Invitation, Listener
from kdissect.replay.machines.crew import Crew, NoCrewError
from kdissect.replay.machines.machines_run import MachinesRun
from kdissect.replay.machines.part_worker import DriverUnreachable, send_part, without_requests
from kdissect.replay.plan import make_plan
from kdissect.replay.settings import ReplaySettings
from kdissect.text import parse_address
from tests.helpers.conversations import CAPTURES
from tests.helpers.null_target import null_target
from tests.helpers.replay_logs import make_log
from tests.helpers.replay_workers import workers


def test_a_worker_without_a_way_to_the_driver_says_so() -> None:
    listener = Listener("127.0.0.1")
    listener.close()
    with pytest.raises(DriverUnreachable, match=r"cannot reach the driver of the run at 127\.0\.0\.1:"):
        send_part(0, listener.invitation)
    assert isinstance(listener.invitation, Invitation)


@pytest.mark.parametrize(
    ("spoiled", "said"),
    [
        ("log", "cannot be used there (another log is there): with --master a replay log and its captures"),
        ("cluster", "--target leads to another cluster there"),
        ("out", "the directory of --out cannot be written there"),
    ],
)
def test_a_worker_checks_what_it_needs(
    spoiled: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    make_log([str(CAPTURES / "steady.pcapng")], log)
    with null_target() as address:
        host, port = parse_address(address)
        assert port is not None
        settings = ReplaySettings(((host, port),))
        with closing(Replay(settings, [str(log)])) as replay:
            replay.learn()
            plan, run = make_plan(replay), "kdissect.replay.machines.machines_run"
            if spoiled == "log":
                monkeypatch.setattr(f"{run}.log_digest", lambda _log: "another")
            if spoiled == "cluster":
                replay.target.cluster_id = "another"
            crew = Crew("127.0.0.1", "", 1, settings.breaker)
            with closing(crew), workers([crew.invitation]):
                crew.gather()
                passes = MachinesRun(replay, log, crew, lambda _line: None)
                if spoiled == "out":
                    monkeypatch.setattr(passes, "_orders", _elsewhere(passes._orders, tmp_path / "gone"))
                with pytest.raises(NoCrewError) as refused:
                    passes.play(tmp_path / "run", plan)
    assert str(refused.value).startswith("worker 0 on ")
    assert said in str(refused.value)
    assert not (tmp_path / "run").exists()


def _elsewhere(orders: Any, out: Path) -> Any:
    return lambda worker, number, _out, shift: orders(worker, number, out, shift)


def test_an_outcome_travels_without_its_requests() -> None:
    results = ResultTable()
    results.append(RequestResult(1, Disposition.ANSWERED))
    outcome = PassOutcome(results, notes={1: ["x"]}, produced={1: [("a-0", 1)]}, stopped="why")
    light = without_requests(outcome)
    assert (len(light.results), light.notes, light.produced, light.stopped) == (0, {}, {}, "why")
    assert len(outcome.results) == 1
