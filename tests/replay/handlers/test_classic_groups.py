"""`replay.handlers.classic_groups`, against a target on paper."""

from __future__ import annotations

from kdissect.protocol.codec.messages import decode_embedded
from kdissect.replay.settings import Groups
from tests.helpers.paper_cluster import (
    SYNC,
    Group,
    member,
    orders,
)
from tests.helpers.paper_target import Script, replay, settings


def test_whoever_the_target_names_leader_sends_the_captured_assignment() -> None:
    for leader in (0, 1):
        script, group = Script(), Group(leader)
        member(script, 1, "first", leads=True)
        member(script, 2, "second", leads=False)
        done = replay(script, group, settings(groups=Groups.FULL), target=orders())
        assert {body["generation_id"] for _, _, body in done.sent(SYNC)} == {77}
        found = {
            name: decode_embedded("ConsumerProtocolAssignment", data).value["assigned_partitions"]
            for name, data in group.given.items()
        }
        assert found == {
            "live-0": [{"topic": "t-orders", "partitions": [0, 1, 2]}],
            "live-1": [{"topic": "t-orders", "partitions": [3]}],
        }
        assert done.buckets() == {"answered": 6}
