"""Prepared requests on their way: what is decoded of answers, and what counts as an error."""

from __future__ import annotations

from itertools import cycle

from kdissect.replay.engine.fast_path.in_flight import SAMPLE_NS, FastPath
from kdissect.replay.handlers.replay_context import new_context
from kdissect.replay.load.analysis import load
from kdissect.replay.net.pool import ConnectionPool
from kdissect.replay.settings import Breaker
from tests.helpers.paper_cluster import PRODUCE, Cluster, batch, produce, took
from tests.helpers.paper_target import MS, OnPaper, PaperTarget, Responder, Script, play, settings, topology
from tests.replay.engine.test_player import FOUND, NOT_THERE, asks


def replayed(script: Script, respond: Responder, **how: object) -> OnPaper:
    known = topology({"t-orders": 3})
    asked = settings(**how)
    return play(script.capture(), script.shelf, PaperTarget(respond), known, asked, prepared=True)


def test_one_answer_of_a_moment_stands_for_those_before() -> None:
    script, asked, known = Script(), settings(), topology()
    loaded, paper = load(script.capture(), script.shelf, asked), PaperTarget(lambda *_: FOUND)
    pool = ConnectionPool(asked, known, paper, lambda: "")
    context = new_context(asked, loaded, known, lambda: 0, script.shelf.get)
    path = FastPath(context, pool, lambda _request: None)
    pool.now_ns = SAMPLE_NS
    assert path.sample() == 1
    assert [path.sample() for _ in range(3)] == [0, 0, 0]
    pool.now_ns *= 2
    assert path.sample() == 4


def test_errors_of_reads_are_noticed_though_few_are_decoded() -> None:
    script = asks(Script(), [number / 4 for number in range(400)], in_flight=50)
    done = replayed(script, lambda *_: NOT_THERE, breaker=Breaker(least_answers=20))
    assert "failed that did not in the capture" in done.player.stopped
    healthy = asks(Script(), [number / 4 for number in range(400)], in_flight=50)
    hosts = cycle(FOUND | {"host": f"host-{number}"} for number in range(7))
    done = replayed(healthy, lambda *_: next(hosts), breaker=Breaker(least_answers=20))
    assert done.player.stopped == ""
    assert done.buckets() == {"answered": 400}


def test_a_batch_that_is_refused_for_the_moment_is_sent_again_and_its_last_answer_counts() -> None:
    script = Script()
    script.add(0, PRODUCE, 9, produce(batch(), batch()), took(0, 0))
    done = replayed(script, Cluster(key0=[19, 0]))
    (result,) = done.player.results
    assert (result.again, len(result.answers)) == (1, 2)
    assert done.context.notes.produced == {0: (("t-orders-0", 1), ("t-orders-1", 1))}


def test_a_prepared_request_on_a_connection_that_cannot_be_made_fails_in_time() -> None:
    script, known = Script(), topology({"t-orders": 3})
    script.add(0, PRODUCE, 9, produce(batch()), took(0))
    paper = PaperTarget(Cluster(), refuse=True)
    asked = settings(breaker=Breaker(refusals=1000), dependency_deadline_s=2.0)
    done = play(script.capture(), script.shelf, paper, known, asked, prepared=True)
    assert done.buckets() == {"failed to send": 1}
    assert paper.now_ns < 4_000 * MS
