"""`replay.handlers.rejoin`: what members do by themselves, and what the leader on the target assigns."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kdissect.protocol.codec.messages import decode_embedded, encode_embedded
from kdissect.replay.disposition import Disposition
from kdissect.replay.effects import Answer, Ask, Part, ResponseContent
from kdissect.replay.handlers.rejoin import (
    ASSIGNMENT,
    LONGEST_SESSION_MS,
    MOST_JOINS,
    SUBSCRIPTION,
    assignments,
    finish_join,
    leave_all,
    lengthen_session,
    put_into_sync,
)
from kdissect.replay.handlers.replay_context import ReplayContext, new_context
from kdissect.replay.load.analysis import load
from kdissect.replay.target.members import LiveMember
from tests.helpers.paper_target import Script, settings, topology


@pytest.fixture
def context() -> ReplayContext:
    script = Script()
    loaded = load(script.capture(), script.shelf, settings())
    topics = {"a": [0, 1], "b": [2]}
    loaded.assignments["g", 4] = {
        member: encode_embedded(
            ASSIGNMENT, 0, {"assigned_partitions": [{"topic": "orders", "partitions": partitions}]}
        )
        for member, partitions in topics.items()
    }
    return new_context(settings(), loaded, topology({"t-orders": 3}), lambda: 0, script.shelf.get)


def partitions(found: list[dict[str, Any]]) -> dict[str, dict[str, list[int]]]:
    return {
        each["member_id"]: {
            topic["topic"]: topic["partitions"]
            for topic in decode_embedded(ASSIGNMENT, each["assignment"]).value["assigned_partitions"]
        }
        for each in found
    }


def leader_of(context: ReplayContext, *captured: str) -> LiveMember:
    for name in captured:
        context.members.learn(LiveMember("g", f"live-{name}"), name)
    return LiveMember("g", "live-a", leader="live-a", others=[f"live-{name}" for name in captured])


def test_the_same_members_get_what_they_had(context: ReplayContext) -> None:
    found = partitions(assignments(context, leader_of(context, "a", "b"), 4))
    assert found == {"live-a": {"t-orders": [0, 1]}, "live-b": {"t-orders": [2]}}
    assert context.notes.counts["assignments dealt out anew"] == 0


def test_a_member_alone_in_a_group_in_memory_gets_what_it_had(context: ReplayContext) -> None:
    leader_of(context, "a", "b")
    alone = LiveMember("g", "live-b", leader="live-b", others=["live-b"])
    assert partitions(assignments(context, alone, 4)) == {"live-b": {"t-orders": [0, 1, 2]}}
    dry = dataclasses.replace(context, settings=dataclasses.replace(context.settings, dry_partitions=3))
    assert partitions(assignments(dry, alone, 4)) == {"live-b": {"t-orders": [2]}}
    assert context.notes.counts["assignments dealt out anew"] == 1


def test_other_members_share_the_captured_partitions(context: ReplayContext) -> None:
    found = partitions(assignments(context, leader_of(context, "a", "c"), 4))
    assert found == {"live-a": {"t-orders": [0, 2]}, "live-c": {"t-orders": [1]}}
    assert context.notes.counts["assignments dealt out anew"] == 1


def test_without_a_captured_assignment_the_subscription_counts(context: ReplayContext) -> None:
    leader = leader_of(context, "a")
    metadata = encode_embedded(SUBSCRIPTION, 1, {"topics": ["t-orders", "t-nowhere"]})
    leader.join = {"protocols": [{"name": "range", "metadata": metadata}]}
    assert partitions(assignments(context, leader, 9)) == {"live-a": {"t-orders": [0, 1, 2]}}


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


def test_a_target_that_lets_nobody_in_is_not_asked_for_ever() -> None:
    """The attacker is a target that answers every JoinGroup with another id of a member."""
    context = context_at(1.0)
    context.cluster.coordinators[0, "t-g"] = 1
    live = LiveMember("g", "", generation=-1)
    body = {"group_id": "t-g", "member_id": ""}

    def answer_of(part: Part) -> Answer:
        answer = Answer(part, Disposition.ANSWERED)
        answer._content = ResponseContent({"error_code": 79, "member_id": "another"}, (79,))
        return answer

    join = Part(11, 5, body)
    coroutine = finish_join(context, "c", live, body, 5, answer_of(join), stop_at_id=False)
    replies = [None, *[[answer_of(join)]] * 100]
    effects: list[object] = []
    result: Answer | None = None
    for reply in replies:
        try:
            effects.append(coroutine.send(reply))
        except StopIteration as ended:
            result = ended.value
            break
    assert result is not None
    assert result.first_error == 79
    assert len(effects) == MOST_JOINS - 1
    assert all(isinstance(effect, Ask) for effect in effects)
