"""`replay.machines.part_worker`: what a worker refuses before it sends anything."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from kdissect.errors import UserError
from kdissect.replay.disposition import Disposition
from kdissect.replay.engine.pass_results import PassOutcome, RequestResult, ResultTable
from kdissect.replay.engine.run import Replay
from kdissect.replay.machines.channel import Invitation, Listener
from kdissect.replay.machines.machines_run import MachinesRun
from kdissect.replay.machines.part_worker import (
    DriverUnreachable,
    check_log,
    check_writable,
    send_part,
    with_own_files,
    without_requests,
)
from kdissect.replay.machines.remote_workers import RemoteWorkers, WorkerUnfit
from kdissect.replay.machines.run_messages import Orders, log_digest
from kdissect.replay.net.transport import TcpTransport
from kdissect.replay.plan import make_plan
from kdissect.replay.settings import ReplaySettings, Tls
from kdissect.text import parse_address
from tests.helpers.conversations import CAPTURES
from tests.helpers.null_target import null_target
from tests.helpers.paper_target import settings
from tests.helpers.replay_logs import make_log
from tests.helpers.replay_workers import workers
from tests.lab.certificates import certificate


def test_a_worker_without_a_way_to_the_driver_says_so() -> None:
    listener = Listener("127.0.0.1")
    listener.close()
    with pytest.raises(DriverUnreachable, match=r"cannot reach the driver of the run at 127\.0\.0\.1:"):
        send_part(0, listener.invitation)
    assert isinstance(listener.invitation, Invitation)


@pytest.mark.slow
def test_a_worker_without_the_log_says_so(tmp_path: Path) -> None:
    capture = tmp_path / "steady.pcapng"
    capture.write_bytes((CAPTURES / "steady.pcapng").read_bytes())
    log = tmp_path / "log"
    make_log([str(capture)], log)
    orders = Orders(str(log), log_digest(log), settings(), None)
    check_log(orders)
    with pytest.raises(UserError, match="another log is there"):
        check_log(replace(orders, digest="another"))
    with pytest.raises(UserError, match="must lie where every executor can read them"):
        check_log(replace(orders, log=str(tmp_path / "nowhere")))
    capture.unlink()
    with pytest.raises(
        UserError, match=r"steady\.pcapng has changed .* with --master a replay log and its captures"
    ):
        check_log(orders)


def test_a_worker_needs_the_directory_of_the_run(tmp_path: Path) -> None:
    check_writable(str(tmp_path))
    with pytest.raises(UserError, match="the directory of --out cannot be written there"):
        check_writable(str(tmp_path / "nowhere"))


@pytest.mark.slow
def test_a_worker_whose_target_is_another_cluster_ends_the_run(tmp_path: Path) -> None:
    log = tmp_path / "log"
    make_log([str(CAPTURES / "steady.pcapng")], log)
    with null_target() as address:
        host, port = parse_address(address)
        assert port is not None
        asked = ReplaySettings(((host, port),))
        with closing(Replay(asked, [str(log)])) as replay:
            replay.learn()
            plan = make_plan(replay)
            replay.target.cluster_id = "another"
            remote = RemoteWorkers("127.0.0.1", "", 1, asked.breaker)
            with closing(remote), workers([remote.invitation]):
                remote.gather()
                with pytest.raises(
                    WorkerUnfit, match=r"worker 0 on .*: --target leads to another cluster there"
                ):
                    MachinesRun(replay, log, remote, lambda _line: None).play(tmp_path / "run", plan)
    assert not (tmp_path / "run").exists()


def test_what_tls_needs_travels_without_a_file_of_the_driver(tmp_path: Path) -> None:
    made = certificate(tmp_path, "ec")
    tls = Tls(authority="gone", certificate="gone")
    orders = Orders("log", "", settings(tls=tls), None, made.read_bytes(), made.read_bytes())
    with ExitStack() as stack:
        own = with_own_files(orders, stack).tls
        assert own is not None
        TcpTransport(own)  # reads both
        TcpTransport(own)
    assert with_own_files(replace(orders, settings=settings()), ExitStack()).tls is None


def test_an_outcome_travels_without_its_requests() -> None:
    results = ResultTable()
    results.append(RequestResult(1, Disposition.ANSWERED))
    outcome = PassOutcome(results, notes={1: ["x"]}, produced={1: [("a-0", 1)]}, stopped="why")
    light = without_requests(outcome)
    assert (len(light.results), light.notes, light.produced, light.stopped) == (0, {}, {}, "why")
    assert len(outcome.results) == 1
