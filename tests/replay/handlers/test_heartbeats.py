"""`replay.handlers.heartbeats`, against a target on paper."""

from __future__ import annotations

from tests.helpers.paper_cluster import COMMIT, orders
from tests.helpers.paper_groups import (
    CONSUMER_HEARTBEAT,
    FULL,
    ByHeartbeat,
    commit,
)
from tests.helpers.paper_target import Script, replay


def test_a_member_without_leaders_says_all_first() -> None:
    script = Script()
    commit(script, 0, 1, "m", version=9)
    for at, epoch in ((10, 9), (20, 9), (30, -1)):
        body = {"group_id": "g", "member_id": "m", "member_epoch": epoch}
        answer = {"error_code": 0, "member_id": "m", "member_epoch": epoch, "heartbeat_interval_ms": 1}
        script.add(at, CONSUMER_HEARTBEAT, 1, body, answer, connection=2)
    done = replay(script, ByHeartbeat(), FULL, target=orders())
    assert done.buckets() == {"answered": 4}
    beats = [body for _, _, body in done.sent(CONSUMER_HEARTBEAT)]
    assert [body["member_epoch"] for body in beats] == [0, 31, 31, -1]
    assert [body["subscribed_topic_names"] for body in beats] == [["t-orders"], None, None, None]
    assert (beats[0]["topic_partitions"], len({body["member_id"] for body in beats})) == ([], 1)
    ((_, _, committed),) = done.sent(COMMIT)
    assert (committed["member_id"], committed["generation_id_or_member_epoch"]) == (beats[0]["member_id"], 31)
