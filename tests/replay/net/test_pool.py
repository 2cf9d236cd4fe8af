"""The pool drives coroutines: effects, deadlines, throttles, failures, and connections by owner and node."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from kdissect.protocol.codec.wire import EncodeError
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.effects import ANY, Coroutine, Gate, Part, ask, ask_one, pause, spawn, until
from kdissect.replay.net.connection import Connection
from kdissect.replay.net.pool import ConnectionPool
from kdissect.replay.safety import AbortRun
from kdissect.replay.settings import Address, Credentials
from tests.helpers.paper_target import MS, PaperTarget, Tree, settings, topology

LIST_GROUPS = Part(16, 1, {})
S = 1000 * MS


def driven(
    coroutine: Coroutine[Any], respond: Any = lambda *_: {}, **how: Any
) -> tuple[Any, Any, ConnectionPool]:
    """Return the result of a coroutine, the failure, and the pool."""
    paper = PaperTarget(respond)
    pool = paper.board = ConnectionPool(settings(**how), topology(leaders=2), paper, lambda: "nonce")
    ends: list[tuple[Any, Any]] = []
    pool.wake(0)
    pool.run(coroutine, "owner", lambda value, failure: ends.append((value, failure)))
    paper.run(None, 600 * S, lambda: bool(ends))
    return *ends[0], pool


def test_effects_are_brought_about_in_order() -> None:
    beside: list[str] = []

    def other() -> Coroutine[None]:
        beside.append("spawned")
        yield from pause(MS)

    def main() -> Coroutine[Any]:
        yield from spawn(other(), "other")
        yield from pause(5 * MS)
        gate = Gate(opened=True)
        opened = yield from until(gate)
        answers = yield from ask((LIST_GROUPS._replace(node=1), LIST_GROUPS._replace(node=2)))
        one = yield from ask_one(LIST_GROUPS)
        return opened, [answer.node for answer in answers], one.body["groups"]

    value, failure, pool = driven(main())
    assert (value, failure, beside) == ((True, [1, 2], []), None, ["spawned"])
    assert pool.counters.synthetic == {"ApiVersions": 2, "further parts": 1, "ListGroups": 1}


def test_a_gate_that_never_opens_is_waited_for_until_the_deadline() -> None:
    value, _, pool = driven(until(Gate()), dependency_deadline_s=2.0)
    assert value is False
    assert pool.now_ns == 2 * S


def raising(error: Exception) -> Coroutine[None]:
    yield from pause(MS)
    raise error


def test_failures_that_are_values_are_handed_to_who_asked() -> None:
    for error in (SkipRequest(Disposition.VERSION, "too old"), AbortRun("not there")):
        assert driven(raising(error))[1] is error
    _, failure, _ = driven(raising(EncodeError("X v0: too long")))
    assert (failure.bucket, str(failure)) == (Disposition.FAILED_TO_SEND, "X v0: too long")


@pytest.mark.parametrize("defect", [KeyError("x"), TypeError("x"), ValueError("x"), AttributeError("x")])
def test_a_defect_is_raised_and_not_taken_for_captured_bytes(defect: Exception) -> None:
    with pytest.raises(type(defect)):
        driven(raising(defect))


def test_a_throttled_node_is_left_alone() -> None:
    answers = iter([{"throttle_time_ms": 300}, {}])

    def main() -> Coroutine[list[int]]:
        times = []
        for _ in range(2):
            (answer,) = yield from ask((LIST_GROUPS._replace(node=1),))
            times.append(answer.sent_ns or 0)
        return times

    def respond(_key: int, _version: int, _body: Tree) -> Tree:
        return next(answers)

    (first, second), _, pool = driven(main(), respond)
    assert second >= first + 300 * MS
    assert (pool.counters.throttled, pool.counters.throttle_ms) == (1, 300)


@pytest.mark.parametrize("throttle_ms", [60_000, (1 << 31) - 1])
def test_a_target_cannot_mute_a_connection_for_longer_than_the_deadline(throttle_ms: int) -> None:
    """The attacker is a target that asks for a pause of 24 days."""
    answers = iter([{"throttle_time_ms": throttle_ms}, {}])

    def main() -> Coroutine[list[int]]:
        times = []
        for _ in range(2):
            (answer,) = yield from ask((LIST_GROUPS._replace(node=1),))
            times.append(answer.sent_ns or 0)
        return times

    (first, second), _, _ = driven(main(), lambda *_: next(answers), answer_deadline_s=2.0)
    assert second - first <= 2.1 * S


@pytest.mark.parametrize("lifetime_ms", [-1, 1, 60])
def test_a_target_cannot_have_the_replayer_log_in_all_the_time(lifetime_ms: int) -> None:
    """The attacker is a target whose SASL sessions end at once."""
    bodies: dict[int, Tree] = {
        17: {"error_code": 0, "mechanisms": ["PLAIN"]},
        36: {"error_code": 0, "error_message": None, "auth_bytes": b"", "session_lifetime_ms": lifetime_ms},
    }
    logins: list[int] = []

    def respond(key: int, _version: int, _body: Tree) -> Tree:
        if key == 36:
            logins.append(key)
        return bodies.get(key, {})

    def main() -> Coroutine[None]:
        yield from ask_one(LIST_GROUPS)
        yield from pause(10 * S)

    driven(main(), respond, credentials=Credentials("PLAIN", "me", "secret"))
    assert len(logins) <= 11


def test_silence_ends_at_the_deadline() -> None:
    value, _, _ = driven(ask((LIST_GROUPS,)), lambda *_: None, answer_deadline_s=1.0)
    assert [answer.bucket for answer in value] == [Disposition.TIMED_OUT]


def test_any_node_is_one_that_the_owner_is_connected_to() -> None:
    paper = PaperTarget(lambda *_: {})
    pool = paper.board = ConnectionPool(settings(), topology(leaders=3), paper, lambda: "")
    first = pool.connection("one", 3)
    assert pool.connection("one", ANY) is first
    assert pool.connection("other", 3) is not first
    pool.leave("one")
    assert first.closed
    assert {owner for owner, _ in pool.connections} == {"other"}


def test_a_connection_that_the_target_closes_is_reported() -> None:
    paper = PaperTarget(lambda *_: {})
    pool = paper.board = ConnectionPool(settings(), topology(), paper, lambda: "")
    told: list[int] = []
    pool.on_connection_lost(lambda: told.append(1))
    pool.lost(pool.connection("one", 1))
    assert (told, pool.counters.closed_by_peer, pool.connections) == ([1], 1, {})


class Dead(PaperTarget):
    """One that refuses connections, or accepts them and closes them, as a proxy in front of it does."""

    accepts = False

    def connect(self, link: Connection, address: Address) -> None:
        refuse, self.refuse = self.refuse, self.refuse and not self.accepts
        super().connect(link, address)
        self.refuse = refuse

    def send(self, link: Connection, data: bytes) -> None:
        board = self.board
        assert board is not None
        if self.refuse:
            self.later(0, lambda: board.lost(link))
        else:
            super().send(link, data)


@pytest.mark.parametrize("accepts", [False, True])
def test_a_node_that_is_down_is_asked_again_after_pauses_that_grow(accepts: bool) -> None:
    refused_ns = []
    paper = Dead(lambda *_: {}, delay_ns=0, refuse=True)
    paper.accepts = accepts

    def main() -> Coroutine[None]:
        for _ in range(8):
            yield from ask_one(LIST_GROUPS._replace(node=1))
            refused_ns.append(paper.now_ns)
        paper.refuse = False
        yield from ask_one(LIST_GROUPS._replace(node=1))
        pool.leave("owner")
        paper.refuse = True
        yield from ask_one(LIST_GROUPS._replace(node=1))
        refused_ns.append(paper.now_ns)
        yield from ask_one(LIST_GROUPS._replace(node=1))
        refused_ns.append(paper.now_ns)

    pool = paper.board = ConnectionPool(settings(), topology(), paper, lambda: "")
    ends: list[object] = []
    pool.wake(0)
    pool.run(main(), "owner", lambda *end: ends.append(end))
    paper.run(None, 60 * S, lambda: bool(ends))
    pauses = [(after - before) // MS for before, after in pairwise(refused_ns)]
    assert pauses[:7] == [50, 100, 200, 400, 800, 1000, 1000]
    assert pauses[7:] == [1000, 50]  # the pause before the connection that was made, and the first one anew
