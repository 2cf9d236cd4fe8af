"""`replay.handlers.prior_member_joins`, against a target on paper."""

from __future__ import annotations

from kdissect.protocol.codec.messages import decode_embedded
from tests.helpers.paper_cluster import COMMIT, JOIN, SYNC, orders
from tests.helpers.paper_groups import (
    FULL,
    HEARTBEAT,
    LEAVE,
    Coordinator,
    commit,
    heartbeat,
    told_by,
    topics_of,
)
from tests.helpers.paper_target import MS, START, Script, replay


def test_members_older_than_the_capture_are_let_in_together() -> None:
    script, group = Script(), Coordinator(leader=0)
    for at in range(4):
        heartbeat(script, 100 * at, 1, "first")
        heartbeat(script, 100 * at + 50, 2, "second")
    commit(script, 500, 2, "second")
    script.add(600, LEAVE, 3, {"group_id": "g", "members": [{"member_id": "first"}]}, {"error_code": 0})
    done = replay(script, group, FULL, target=orders())
    assert done.buckets() == {"answered": 10}
    assert done.context.notes.counts["members let in that are older than the capture"] == 2
    joins = [body for _, _, body in done.sent(JOIN)]
    assert {(each["group_id"], *topics_of(each)) for each in joins} == {("t-g", "t-orders")}
    assert {body["member_id"] for _, _, body in done.sent(SYNC)} == {"live-0", "live-1"}
    dealt = [
        decode_embedded("ConsumerProtocolAssignment", each).value["assigned_partitions"]
        for each in group.given.values()
    ]
    assert sorted(part for each in dealt for topic in each for part in topic["partitions"]) == [0, 1, 2, 3]
    first_beat = done.sent(HEARTBEAT)[0]
    assert first_beat[0] >= max(time for time, _, _ in done.sent(SYNC))
    assert {(body["generation_id"], body["member_id"]) for _, _, body in done.sent(HEARTBEAT)} == {
        (77, "live-0"),
        (77, "live-1"),
    }
    ((_, _, committed),) = done.sent(COMMIT)
    assert (committed["member_id"], committed["generation_id_or_member_epoch"]) == ("live-1", 77)
    assert done.sent(LEAVE)[0][2]["members"][0]["member_id"] == "live-0"


def test_a_member_that_joined_before_the_chosen_time_is_older_too() -> None:
    script = Script()
    told_by(script, "join")
    heartbeat(script, 400, 1, "first")
    script.exclude(lambda request: request.first_ns < START + 350 * MS, "--since")
    done = replay(script, Coordinator(leader=0), FULL, target=orders())
    assert done.buckets() == {"policy": 1, "answered": 1}
    assert topics_of(done.sent(JOIN)[0][2]) == ["t-orders"]
