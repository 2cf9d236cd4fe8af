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
from kdissect.replay.net.connection import Connection
from kdissect.replay.settings import Groups, Pace
from kdissect.replay.target.members import LiveMember
from tests.helpers.paper_cluster import JOIN, SYNC, Cluster, orders
from tests.helpers.paper_groups import HEARTBEAT as BEAT
from tests.helpers.paper_rebalance import Rebalancing
from tests.helpers.paper_target import MS, OnPaper, Script, play, settings, topology


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


def add_member(
    script: Script, name: str, connection: int, joins_at: int, heartbeats: tuple[int, ...]
) -> None:
    """Have a member join; all joins that have begun by 40 ms end then, in one generation."""
    parts = {"first": [0, 1], "second": [2]}
    protocols = [{"name": "range", "metadata": encode_embedded(SUBSCRIPTION, 1, {"topics": ["orders"]})}]
    join = {
        "group_id": "g", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer", "protocols": protocols,
    }  # fmt: skip
    refused = {"error_code": 79, "member_id": name, "leader": "", "members": [], "protocol_name": ""}
    joined = refused | {"error_code": 0, "generation_id": 4, "protocol_name": "range", "leader": "first"}
    script.add(joins_at, JOIN, 5, join | {"member_id": ""}, refused, connection=connection)
    body = join | {"member_id": name}
    script.add(joins_at + 10, JOIN, 5, body, joined, connection=connection, took_ms=30 - joins_at)
    given = [
        {
            "member_id": each,
            "assignment": encode_embedded(
                ASSIGNMENT, 0, {"assigned_partitions": [{"topic": "orders", "partitions": numbers}]}
            ),
        }
        for each, numbers in parts.items()
    ]
    sync = {"group_id": "g", "generation_id": 4, "member_id": name}
    sync["assignments"] = given if name == "first" else []
    script.add(41 + connection, SYNC, 3, sync, {"error_code": 0, "assignment": b""}, connection=connection)
    for at in heartbeats:
        body = {"group_id": "g", "generation_id": 4, "member_id": name}
        script.add(at, BEAT, 3, body, {"error_code": 0}, connection=connection)


def play_members(
    first: tuple[int, ...], second: tuple[int, ...], paper: Rebalancing, refused: int = 0
) -> OnPaper:
    script = Script()
    for number in range(refused):
        join = {"group_id": "g", "member_id": "", "protocol_type": "consumer", "protocols": []}
        answer = {"error_code": 14, "member_id": "", "leader": "", "members": [], "protocol_name": ""}
        script.add(number / 10, JOIN, 5, join, answer, connection=2, took_ms=0.05)
    add_member(script, "first", 1, 1, first)
    add_member(script, "second", 2, 5, second)
    asked = settings(groups=Groups.FULL, pace=Pace.SCHEDULE)
    script.requests.sort(key=lambda each: each.first_ns)
    capture = script.capture()
    for number, request in enumerate(capture.requests):
        capture.requests[number] = dataclasses.replace(request, index=number)
    return play(capture, script.shelf, paper, orders(), asked)


def test_a_member_that_is_let_in_too_early_joins_again_with_the_others() -> None:
    paper = Rebalancing(Cluster())
    done = play_members((100,), (110,), paper)
    assert [members for _, members in paper.generations][-1] == ("live-1", "live-2")
    assert paper.now_ns < 1000 * MS
    found = partitions([{"member_id": each, "assignment": data} for each, data in paper.given.items()])
    assert found == {"live-1": {"t-orders": [0, 1]}, "live-2": {"t-orders": [2]}}
    assert done.buckets() == {"answered": 8}


class Restless(Rebalancing):
    """A coordinator that begins a rebalance by itself, half a second after all are in."""

    def take(self, link: Connection, frame: bytes) -> None:
        self.rebalancing |= self.now_ns > 500 * MS and len(self.generations) < REBALANCES
        super().take(link, frame)


REBALANCES = 3  # two before everybody is in, and the one that the coordinator begins


def test_all_members_join_again_when_one_does_so_by_itself() -> None:
    paper = Restless(Cluster())
    done = play_members((600,), (9000,), paper)
    began, members = paper.generations[-1]
    assert (len(paper.generations), members) == (REBALANCES, ("live-1", "live-2"))
    assert began < 2000 * MS  # and not when the second one has noticed it
    assert done.buckets() == {"answered": 8}


def test_a_group_does_not_wait_for_ids_that_nobody_will_use() -> None:
    """The capture's coordinator still loaded its groups, so its first joins got no ids."""
    paper = Rebalancing(Cluster(), waits_for_ids=True)
    done = play_members((100,), (110,), paper, refused=2)
    began, members = paper.generations[-1]
    assert began < 1000 * MS
    assert members == ("live-3", "live-4")
    assert (paper.unused, done.buckets()) == (set(), {"answered": 10})
