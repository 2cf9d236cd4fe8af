"""`replay.handlers.rejoin`: what members do by themselves."""

from __future__ import annotations

import pytest

from kdissect.replay.disposition import Disposition
from kdissect.replay.effects import Answer, Ask
from kdissect.replay.handlers.rejoin import LONGEST_SESSION_MS, leave_all, lengthen_session, put_into_sync
from kdissect.replay.handlers.replay_context import ReplayContext, new_context
from kdissect.replay.load.analysis import load
from kdissect.replay.target.members import LiveMember
from tests.helpers.paper_target import Script, settings, topology

LEAVE, HEARTBEAT = 13, 68


def context_at(speed: float) -> ReplayContext:
    script, asked = Script(), settings(speed=speed)
    loaded = load(script.capture(), script.shelf, asked)
    return new_context(asked, loaded, topology(), lambda: 0, script.shelf.get)


@pytest.mark.parametrize(
    ("speed", "session_ms"), [(2.0, 10_000), (1.0, 10_000), (0.5, 20_000), (0.001, LONGEST_SESSION_MS)]
)
def test_sessions_are_longer_where_heartbeats_are_slower(speed: float, session_ms: int) -> None:
    join = {"session_timeout_ms": 10_000}
    lengthen_session(context_at(speed), join)
    assert join == {"session_timeout_ms": session_ms}


def test_a_sync_names_the_protocol_from_version_5_on() -> None:
    live = LiveMember("g", "m", generation=7, protocol="range")
    for version, more in ((4, {}), (5, {"protocol_type": "consumer", "protocol_name": "range"})):
        body: dict[str, object] = {}
        put_into_sync(body, live, version)
        assert body == {"member_id": "m", "generation_id": 7, **more}


def test_members_that_are_left_leave_in_the_way_in_which_they_joined() -> None:
    context = context_at(1.0)
    context.cluster.coordinators[0, "t-g"] = 1
    context.members.learn(LiveMember("g", "classic", generation=3), "a")
    context.members.learn(LiveMember("g", "modern", generation=5, joins_by=HEARTBEAT), "b")
    context.members.learn(LiveMember("g", "out", generation=-1), "c")
    sent, coroutine = [], leave_all(context)
    effect: object = next(coroutine)
    while isinstance(effect, Ask):
        (part,) = effect.parts
        sent.append((part.key, part.node, part.body))
        try:
            effect = coroutine.send([Answer(part, Disposition.ANSWERED)])
        except StopIteration:
            break
    assert sent == [
        (LEAVE, 1, {"group_id": "t-g", "members": [{"member_id": "classic"}]}),
        (HEARTBEAT, 1, {"group_id": "t-g", "member_id": "modern", "member_epoch": -1}),
    ]
    assert {live.generation for live in context.members.all()} == {-1}
