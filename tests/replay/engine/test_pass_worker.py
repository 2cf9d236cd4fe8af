"""Share of one process in a pass."""

from __future__ import annotations

import gc

from kdissect.replay.engine.crash_recovery import CrashJournal
from kdissect.replay.engine.pass_worker import PassWorker, WorkerSetup, collect_little
from kdissect.replay.engine.run_limits import StopSignal
from kdissect.replay.handlers.replay_context import new_context
from kdissect.replay.load.analysis import load
from kdissect.replay.net.transport import now_ns, wall_ns
from kdissect.replay.settings import Pace
from tests.helpers.null_target import null_target
from tests.helpers.paper_target import START, Script, settings, topology
from tests.replay.engine.test_player import asks


def worker(script: Script, port: int, stop: StopSignal, journal: CrashJournal | None = None) -> PassWorker:
    asked = settings(target=(("127.0.0.1", port),), pace=Pace.ASAP)
    cluster = topology()
    cluster.nodes = {1: ("127.0.0.1", port)}
    loaded = load(script.capture(), script.shelf, asked)
    context = new_context(asked, loaded, cluster, now_ns, script.shelf.get)
    return PassWorker(WorkerSetup(loaded, context, loaded.items, asked, script.shelf, stop, journal))


def test_a_worker_sends_its_share_and_keeps_a_journal() -> None:
    script, journal = asks(Script(), [0.0] * 20, in_flight=5), CrashJournal()
    with null_target() as address:
        sending = worker(script, int(address.rpartition(":")[2]), StopSignal(), journal)
        start_ns = now_ns()
        outcome = sending.play(start_ns)
        gc.unfreeze()
    assert sorted(outcome.results.indices()) == list(range(20))
    assert {str(result.bucket) for result in outcome.results} == {"answered"}
    assert outcome.counters.opened == 1
    context = sending._setup.context
    assert abs(context.clock.shift_ns - (wall_ns() - START)) < 60 * 10**9
    journal.close()


def test_a_worker_ends_when_another_one_has_given_the_signal() -> None:
    script, stop = asks(Script(), [0.0] * 20), StopSignal()
    stop.give("enough")
    with null_target() as address:
        outcome = worker(script, int(address.rpartition(":")[2]), stop).play(now_ns())
        gc.unfreeze()
    assert outcome.stopped == "enough"
    assert len(outcome.results) == 20


def test_the_collector_is_as_before_afterwards() -> None:
    before = gc.get_threshold()
    with collect_little():
        assert gc.get_threshold() != before
    assert gc.get_threshold() == before
