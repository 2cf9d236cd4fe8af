"""`replay.handlers.classic_groups`, against a target on paper."""

from __future__ import annotations

from typing import Any

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import decode_embedded
from kdissect.protocol.error_codes import ErrorCode
from kdissect.replay.settings import Groups, Pace
from tests.helpers.paper_cluster import (
    JOIN,
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


class Loading(Group):
    """A coordinator that still loads its groups when the first joins arrive."""

    def __init__(self) -> None:
        super().__init__(leader=0)
        self.loading = 3

    def __call__(self, key: int, version: int, body: dict[str, Any]) -> dict[str, Any] | None:
        if key == JOIN and self.loading:
            self.loading -= 1
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return {"error_code": code, "member_id": "", "leader": "", "members": [], "protocol_name": ""}
        return {"error_code": 0} if key == ApiKey.HEARTBEAT else super().__call__(key, version, body)


def test_the_next_join_waits_for_the_id_that_the_first_one_gets() -> None:
    script, group = Script(), Loading()
    member(script, 1, "first", leads=True)
    beat = {"group_id": "g", "generation_id": 3, "member_id": "first"}
    # The connection once had two requests in flight, so two may be sent at once.
    script.add(60, ApiKey.HEARTBEAT, 3, beat, {"error_code": 0}, in_flight=2)
    done = replay(script, group, settings(groups=Groups.FULL, pace=Pace.ASAP), target=orders())
    assert group.members == ["live-0"]  # nobody joined twice
    assert [body["member_id"] for _, _, body in done.sent(JOIN)] == ["", "", "", "", "live-0"]
    assert done.buckets() == {"answered": 4}
