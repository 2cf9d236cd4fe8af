"""`replay.handlers.assignment`: what the leader that the target named assigns."""

from __future__ import annotations

from typing import Any

import pytest

from kdissect.protocol.codec.messages import decode_embedded, encode_embedded
from kdissect.replay.handlers.assignment import ASSIGNMENT, SUBSCRIPTION, assignments
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


def test_other_members_share_the_captured_partitions(context: ReplayContext) -> None:
    found = partitions(assignments(context, leader_of(context, "a", "c"), 4))
    assert found == {"live-a": {"t-orders": [0, 2]}, "live-c": {"t-orders": [1]}}
    assert context.notes.counts["assignments dealt out anew"] == 1


def test_without_a_captured_assignment_the_subscription_counts(context: ReplayContext) -> None:
    leader = leader_of(context, "a")
    metadata = encode_embedded(SUBSCRIPTION, 1, {"topics": ["t-orders", "t-nowhere"]})
    leader.join = {"protocols": [{"name": "range", "metadata": metadata}]}
    assert partitions(assignments(context, leader, 9)) == {"live-a": {"t-orders": [0, 1, 2]}}
