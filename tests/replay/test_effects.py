"""`replay.effects`.

The tests hold what coroutines yield, what they are sent, and what leaves a replay when a handler skips.
"""

from __future__ import annotations

import pytest

from kdissect.errors import UserError
from kdissect.protocol.codec.messages import encode_response
from kdissect.replay import handlers
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.effects import (
    Answer,
    Ask,
    Coroutine,
    Gate,
    Part,
    Pause,
    Spawn,
    Until,
    ask,
    ask_one,
    pause,
    spawn,
    until,
)
from tests.helpers.paper_cluster import Cluster, batch, orders, produce, took
from tests.helpers.paper_target import Script, replay

HEARTBEAT = 12


def answer_with(error: int) -> Answer:
    body = {"error_code": error}
    frame = encode_response(HEARTBEAT, 4, {"correlation_id": 1}, body)
    return Answer(Part(HEARTBEAT, 4, {}), Disposition.ANSWERED, frame)


def test_each_helper_yields_its_effect_and_returns_the_reply() -> None:
    gate, part, answer = Gate(), Part(HEARTBEAT, 4, {}), answer_with(0)
    cases: list[tuple[Coroutine[object], object, object, object]] = [
        (ask([part]), Ask((part,)), [answer], [answer]),
        (ask_one(part), Ask((part,), synthetic=True), [answer], answer),
        (until(gate), Until(gate), False, False),
        (pause(7), Pause(7), None, None),
    ]
    for coroutine, effect, reply, returned in cases:
        assert next(coroutine) == effect
        with pytest.raises(StopIteration) as stop:
            coroutine.send(reply)  # type: ignore[arg-type]
        assert stop.value.value == returned
    beside = pause(1)
    assert next(spawn(beside, "owner")) == Spawn(beside, "owner")


def test_an_answer_is_decoded_when_somebody_asks() -> None:
    failed = answer_with(27)
    assert (failed.first_error, failed.errors, failed.body["error_code"]) == (27, (27,), 27)
    without_response = Answer(Part(HEARTBEAT, 4, {}), Disposition.TIMED_OUT)
    assert (without_response.body, without_response.errors, without_response.first_error) == ({}, (), 0)
    trusted = answer_with(27)
    trusted.mark_without_error()
    assert trusted.errors == ()


def test_a_gate_wakes_all_who_wait_once_and_in_order() -> None:
    gate, woken = Gate(), list[int]()
    gate.waiting += [lambda: woken.append(1), lambda: woken.append(2)]
    gate.open()
    gate.open()
    assert (woken, gate.opened) == ([1, 2], True)


@pytest.mark.parametrize("key", sorted(handlers.HANDLERS))
def test_a_skipped_request_is_counted_and_never_the_users_error(
    key: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def skipping(*_: object) -> Coroutine[list[Answer]]:
        yield from pause(1)
        raise SkipRequest(Disposition.LOSSY, "for this test")

    monkeypatch.setattr(handlers, "HANDLERS", dict.fromkeys(handlers.HANDLERS, skipping))
    script = Script()
    script.add(0, 0, 9, produce(batch(0)), took(0))
    done = replay(script, Cluster(), target=orders())  # raises what leaves the replay
    assert [(each.bucket, each.reason) for each in done.player.results] == [
        (Disposition.LOSSY, "for this test")
    ]
    assert not issubclass(SkipRequest, UserError), key
