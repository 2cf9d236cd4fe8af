"""A replay by two workers: the verdict of one process, and an account of every request whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kdissect.replay.engine.run import Replay
from kdissect.replay.machines.machines_run import worker_count
from kdissect.replay.machines.remote_workers import RemoteWorkers, WhenLost
from kdissect.replay.plan import make_plan
from kdissect.replay.results.pass_rate import sending_time
from kdissect.replay.results.run_comparison import compare
from kdissect.replay.results.run_files import read_run, save_passes
from kdissect.replay.results.run_text import comparison_text
from kdissect.replay.settings import DRY_CLUSTER, DRY_TARGET, Caps, Pace, ReplaySettings
from kdissect.text import parse_address
from tests.helpers.conversations import CAPTURES
from tests.helpers.null_target import null_target
from tests.helpers.replay_logs import make_log
from tests.helpers.replay_workers import Relay, run, run_into_memory

pytestmark = pytest.mark.slow

Processes = list[subprocess.Popen[bytes]]


@pytest.fixture(scope="module")
def target() -> Iterator[tuple[str, int]]:
    with null_target() as address:
        host, port = parse_address(address)
        assert port is not None
        yield host, port


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("logs") / "log"
    make_log([str(CAPTURES / "steady.pcapng")], place)
    return place


def asked(target: tuple[str, int], **more: Any) -> ReplaySettings:
    return ReplaySettings((target,), **({"run": "machines"} | more))


def wait_until_sending(remote: RemoteWorkers) -> None:
    """Wait until something that each worker has sent has ended."""
    while not remote.sending or not all(len(worker.ledger) for worker in remote.workers.values()):
        time.sleep(0.05)


def accounted(report: dict[str, Any]) -> None:
    sums = report["accounting"]
    assert sums["captured"] == sums["sent"] + sums["skipped"] == 1177


def test_two_workers_come_to_the_verdict_of_one_process(
    target: tuple[str, int], log: Path, tmp_path: Path
) -> None:
    how = asked(target, pace=Pace.ASAP)
    two = run(how, log, tmp_path / "two")
    with closing(Replay(how, [str(log)])) as replay:
        replay.learn()
        plan = make_plan(replay)
        replay.play()
        (place,) = save_passes(replay, tmp_path / "one", plan)
    one = compare(*read_run(place))
    accounted(two)
    for part in ("verdict", "because", "accounting", "skipped", "records", "checks", "capture"):
        assert two[part] == one[part], part
    assert [(worker["number"], worker["lost"]) for worker in two["run"]["workers"]] == [(0, ""), (1, "")]
    assert sum(worker["requests"] for worker in two["run"]["workers"]) == two["accounting"]["sent"]
    starts = [worker["start_ms"] for worker in two["run"]["workers"]]
    assert max(starts) - min(starts) < 1000
    assert any(line.startswith("  2 workers: start spread") for line in comparison_text(two))
    assert not any(line.startswith("  2 workers: start spread") for line in comparison_text(one))
    indices = [pair["index"] for pair in read_run(tmp_path / "two")[1]]
    assert indices == list(range(1177))
    assert not list(tmp_path.glob(".*"))


def test_a_worker_that_is_killed_is_named_and_the_other_stops(
    target: tuple[str, int], log: Path, tmp_path: Path
) -> None:
    def kill(remote: RemoteWorkers, processes: Processes, relays: list[Relay]) -> None:
        wait_until_sending(remote)
        os.kill(remote.workers[1].process, signal.SIGKILL)

    began = time.monotonic()
    report = run(asked(target), log, tmp_path / "run", while_sending=kill)
    assert time.monotonic() - began < 20  # the capture has 24 s
    accounted(report)
    assert report["verdict"] == "invalid"
    first, second = report["run"]["workers"]
    assert second["lost"].startswith(f"worker 1 on {second['host']} is gone: ")
    assert (first["lost"], report["run"]["stopped"]) == ("", second["lost"])
    assert 0 < second["ended"] < second["requests"]
    unknown = [each for each in report["skipped"] if each["reason"].startswith("nothing is known of it")]
    assert sum(each["requests"] for each in unknown) == second["requests"] - second["ended"]
    assert report["left_out"] >= second["ended"]


@pytest.mark.thorough
def test_the_other_may_go_on_when_the_network_is_gone(
    target: tuple[str, int], log: Path, tmp_path: Path
) -> None:
    def cut(remote: RemoteWorkers, processes: Processes, relays: list[Relay]) -> None:
        wait_until_sending(remote)
        relays[1].cut()

    how = asked(target, speed=8.0)
    report = run(how, log, tmp_path / "run", while_sending=cut, when_lost=WhenLost.CONTINUE, lost_s=1.5)
    accounted(report)
    first, second = report["run"]["workers"]
    assert "silent for 1.5 s" in second["lost"]
    assert first["ended"] >= first["requests"]
    assert report["verdict"] == "invalid"
    assert second["lost"] in report["run"]["stopped"]


def test_ctrl_c_ends_all_workers_in_order(target: tuple[str, int], log: Path, tmp_path: Path) -> None:
    def interrupt(remote: RemoteWorkers, processes: Processes, relays: list[Relay]) -> None:
        wait_until_sending(remote)
        os.kill(os.getpid(), signal.SIGINT)

    try:
        report = run(asked(target), log, tmp_path / "run", while_sending=interrupt)
        time.sleep(0.1)
    except KeyboardInterrupt:  # would end all tests of this process
        pytest.fail("the run had ended before the interrupt came")
    accounted(report)
    assert report["run"]["stopped"] == "interrupted"
    assert "incomplete: interrupted" in report["because"]
    assert [worker["lost"] for worker in report["run"]["workers"]] == ["", ""]
    assert report["accounting"]["sent_as"]["answered"] > 0


@pytest.mark.thorough
def test_workers_send_to_targets_in_memory_and_write_nothing(log: Path, tmp_path: Path) -> None:
    how = asked(DRY_TARGET, dry_partitions=1, known_target=DRY_CLUSTER, pace=Pace.ASAP)
    before = set(log.parent.iterdir())
    with closing(Replay(how, [str(log)])) as replay:
        replay.learn()
        replay.play()
        one = sending_time(replay.passes[0].outcome.results)
    ((first, second),) = run_into_memory(how, log)
    assert (first.lost, second.lost) == ("", "")
    assert first.sent.requests + second.sent.requests == one.requests > 0
    assert min(first.sent.requests, second.sent.requests) > 0
    assert abs(first.sent.first_ns - second.sent.first_ns) < 10**9
    assert set(log.parent.iterdir()) == before


@pytest.mark.thorough
def test_limits_hold_for_the_sum(target: tuple[str, int], log: Path, tmp_path: Path) -> None:
    limit = 60_000  # of 280,000
    report = run(asked(target, speed=8.0, caps=Caps(bytes_in_all=limit)), log, tmp_path / "run")
    accounted(report)
    assert "--max-bytes" in report["run"]["stopped"]
    assert " (worker " in report["run"]["stopped"]
    assert 0 < report["accounting"]["sent"] < 1120
    _, pairs = read_run(tmp_path / "run")
    sent = sum(pair["captured"]["request_bytes"] for pair in pairs if pair.get("sent"))
    assert limit / 4 < sent < 1.2 * limit  # the first worker that has sent its part stops all


@pytest.mark.thorough
def test_no_more_workers_than_components_or_connections(target: tuple[str, int], log: Path) -> None:
    with closing(Replay(asked(target), [str(log)])) as replay:
        assert worker_count(replay, 1000) < 100
        assert worker_count(replay, 2) == 2
    with closing(Replay(asked(target, caps=Caps(connections=3)), [str(log)])) as replay:
        assert worker_count(replay, 1000) == 3
