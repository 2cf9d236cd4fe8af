"""What is older than the capture, on paper: members that are let in, fetch sessions that are pieced together."""

from __future__ import annotations

import pytest

from kdissect.exchanges.filter import ExchangeFilter
from kdissect.protocol.codec.messages import decode_embedded, encode_embedded
from kdissect.replay.disposition import Disposition
from kdissect.replay.settings import Groups
from tests.helpers.paper_target import MS, START, OnPaper, Script, Tree, replay, settings, topology
from tests.replay.test_courses import COMMIT, FETCH, JOIN, SYNC, Cluster, Group, batch, orders

HEARTBEAT, LEAVE, DESCRIBE, CONSUMER_HEARTBEAT = 12, 13, 15, 68
FULL = settings(groups=Groups.FULL)


class Coordinator(Group):
    """Which has nothing to say about groups that it is asked to describe."""

    def __call__(self, key: int, version: int, body: Tree) -> Tree | None:
        return {} if key == DESCRIBE else super().__call__(key, version, body)


def heartbeat(script: Script, at_ms: float, connection: int, member: str, error: int = 0) -> int:
    body = {"group_id": "g", "generation_id": 9, "member_id": member}
    return script.add(at_ms, HEARTBEAT, 3, body, {"error_code": error}, connection=connection)


def commit(script: Script, at_ms: float, connection: int, member: str, version: int = 7) -> int:
    partition = {"partition_index": 1, "committed_offset": 40}
    body = {"group_id": "g", "generation_id_or_member_epoch": 9, "member_id": member, "topics": [{"name": "orders", "partitions": [partition]}]}  # fmt: skip
    return script.add(at_ms, COMMIT, version, body, {"topics": []}, connection=connection)


def topics_of(join: Tree) -> list[str]:
    return decode_embedded("ConsumerProtocolSubscription", join["protocols"][0]["metadata"]).value["topics"]


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
    dealt = [decode_embedded("ConsumerProtocolAssignment", each).value["assigned_partitions"] for each in group.given.values()]  # fmt: skip
    assert sorted(part for each in dealt for topic in each for part in topic["partitions"]) == [0, 1, 2, 3]
    first_beat = done.sent(HEARTBEAT)[0]
    assert first_beat[0] >= max(time for time, _, _ in done.sent(SYNC))
    assert {(body["generation_id"], body["member_id"]) for _, _, body in done.sent(HEARTBEAT)} == {(77, "live-0"), (77, "live-1")}  # fmt: skip
    ((_, _, committed),) = done.sent(COMMIT)
    assert (committed["member_id"], committed["generation_id_or_member_epoch"]) == ("live-1", 77)
    assert done.sent(LEAVE)[0][2]["members"][0]["member_id"] == "live-0"


def told_by(script: Script, source: str) -> None:
    """Let the capture tell what the members of the group subscribe to."""
    metadata = encode_embedded("ConsumerProtocolSubscription", 1, {"topics": ["orders"]})
    assigned = {"assigned_partitions": [{"topic": "orders", "partitions": [2]}]}
    assignment = encode_embedded("ConsumerProtocolAssignment", 1, assigned)
    if source == "join":
        body = {"group_id": "g", "session_timeout_ms": 7000, "rebalance_timeout_ms": 8000, "member_id": "first", "protocol_type": "consumer", "protocols": [{"name": "sticky", "metadata": metadata}]}  # fmt: skip
        answer = {"error_code": 0, "generation_id": 10, "protocol_name": "sticky", "leader": "x", "member_id": "first", "members": []}  # fmt: skip
        script.add(300, JOIN, 5, body, answer)
    elif source == "sync":
        body = {"group_id": "g", "generation_id": 9, "member_id": "first", "assignments": []}
        script.add(300, SYNC, 3, body, {"error_code": 0, "assignment": assignment})
    elif source == "description":
        member = {"member_id": "first", "client_id": "c", "client_host": "/h", "member_metadata": metadata, "member_assignment": assignment}  # fmt: skip
        group = {"error_code": 0, "group_id": "g", "group_state": "Stable", "protocol_type": "consumer", "protocol_data": "range", "members": [member]}  # fmt: skip
        script.add(300, DESCRIBE, 4, {"groups": ["g"]}, {"groups": [group]}, connection=9)
    elif source == "fetch":
        fetch(script, 300, 0, 0, {("orders", 1): 5})


@pytest.mark.parametrize("source", ["join", "sync", "description", "fetch"])
def test_a_subscription_is_pieced_together(source: str) -> None:
    script = Script()
    heartbeat(script, 0, 1, "first")
    told_by(script, source)
    done = replay(script, Coordinator(leader=0), FULL, target=orders())
    join = done.sent(JOIN)[0][2]
    assert topics_of(join) == ["t-orders"]
    assert join["protocols"][0]["name"] == ("sticky" if source == "join" else "range")
    assert join["session_timeout_ms"] == (7000 if source == "join" else 45_000)
    assert done.buckets() == {"answered": len(done.loaded.items)}


def test_a_member_of_which_nothing_is_told_is_skipped_and_said() -> None:
    script = Script()
    heartbeat(script, 0, 1, "first")
    heartbeat(script, 10, 1, "stranger", error=25)
    done = replay(script, Coordinator(leader=0), FULL, target=orders())
    first, stranger = done.loaded.items
    assert first.refusal is not None  # so a plan says it too
    assert first.refusal.bucket is Disposition.HEADLESS
    assert "does not tell what it subscribes to" in first.refusal.reason
    assert stranger.refusal is None  # the captured broker did not know it either
    assert done.buckets() == {"headless": 1, "dependency": 1}
    assert done.sent(JOIN) == []


def test_a_member_that_joined_before_the_chosen_time_is_older_too() -> None:
    script = Script()
    told_by(script, "join")
    heartbeat(script, 400, 1, "first")
    script.exclude(lambda request: request.first_ns < START + 350 * MS, "--since")
    done = replay(script, Coordinator(leader=0), FULL, target=orders())
    assert done.buckets() == {"policy": 1, "answered": 1}
    assert topics_of(done.sent(JOIN)[0][2]) == ["t-orders"]


class ByHeartbeat(Cluster):
    """A coordinator of groups without leaders."""

    def __call__(self, key: int, version: int, body: Tree) -> Tree | None:
        if key == CONSUMER_HEARTBEAT:
            joins = body["member_epoch"] == 0
            given = {"topic_partitions": [{"topic_id": b"1" * 16, "partitions": [0]}]} if joins else None
            return {"error_code": 0, "member_id": body["member_id"], "member_epoch": 31, "heartbeat_interval_ms": 1, "assignment": given}  # fmt: skip
        return super().__call__(key, version, body)


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


def fetch(
    script: Script,
    at_ms: float,
    session: int,
    epoch: int,
    said: dict[tuple[str, int], int],
    brought: dict[tuple[str, int], tuple[bytes, int]] | None = None,
    connection: int = 1,
) -> int:
    """Add a fetch of version 11; `brought` has records and high watermarks."""

    def topics(partitions: dict[tuple[str, int], Tree]) -> list[Tree]:
        return [{"topic": topic, "partitions": [fields]} for (topic, _), fields in partitions.items()]

    asked = {where: {"partition": where[1], "fetch_offset": offset, "partition_max_bytes": 77} for where, offset in said.items()}  # fmt: skip
    answered = {where: {"partition_index": where[1], "high_watermark": end, "records": records} for where, (records, end) in (brought or {}).items()}  # fmt: skip
    body = {"replica_id": -1, "max_wait_ms": 10, "min_bytes": 1, "session_id": session, "session_epoch": epoch, "topics": topics(asked)}  # fmt: skip
    return script.add(at_ms, FETCH, 11, body, {"session_id": session or 900, "responses": topics(answered)}, connection=connection)  # fmt: skip


def fetched(done: OnPaper) -> list[dict[int, int]]:
    """Give partition -> offset of every fetch that was sent."""
    return [{each["partition"]: each["fetch_offset"] for topic in body["topics"] for each in topic["partitions"]} for _, _, body in done.sent(FETCH)]  # fmt: skip


def at_offset(offset: int) -> bytes:
    return offset.to_bytes(8, "big") + batch()[8:]


def test_a_session_older_than_the_capture_is_known_by_what_it_brought() -> None:
    script = Script()
    fetch(script, 0, 55, 7, {})
    fetch(script, 20, 55, 8, {}, {("orders", 0): (at_offset(3), 4), ("orders", 1): (b"", 6)})
    fetch(script, 40, 55, 9, {("orders", 0): 4, ("orders", 2): 1})
    fetch(script, 60, 56, 3, {}, connection=2)  # nothing is ever told of this one
    done = replay(script, Cluster(), settings(offsets="identity"), target=orders())
    assert done.loaded.older_sessions["10.0.0.1:9092", 55].keys() == {("orders", 0), ("orders", 1)}
    assert fetched(done)[0] == {0: 3, 1: 6}
    assert done.sent(FETCH)[0][2]["session_epoch"] == 0
    assert fetched(done)[2] == {0: 4, 1: 6, 2: 1}  # the target on paper keeps no sessions: all is said again
    assert done.buckets() == {"answered": 3, "headless": 1}
    assert done.loaded.items[3].refusal is not None


def test_a_session_opened_before_the_chosen_time_is_known_in_full() -> None:
    script = Script()
    fetch(script, 0, 0, 0, {("orders", 0): 10, ("orders", 1): 20, ("bills", 0): 5})
    fetch(script, 20, 900, 1, {("orders", 0): 11})
    fetch(script, 40, 900, 2, {})
    script.exclude(lambda request: request.first_ns < START + 30 * MS, "--since")
    orders_only = settings(offsets="identity", filter=lambda _start_ns: ExchangeFilter(topics=("orders",)))
    done = replay(script, Cluster(), orders_only, target=topology({"t-orders": 4, "t-bills": 1}))  # fmt: skip
    assert fetched(done) == [{0: 11, 1: 20}]
    assert done.buckets() == {"policy": 2, "answered": 1}


def test_fetches_by_ids_that_the_capture_never_names_are_said_to_be_so() -> None:
    script = Script()
    topic = {
        "topic_id": b"n" * 16,
        "partitions": [{"partition": 0, "fetch_offset": 1, "partition_max_bytes": 9}],
    }
    body = {"max_wait_ms": 10, "min_bytes": 1, "session_id": 0, "session_epoch": -1, "topics": [topic]}
    script.add(0, FETCH, 13, body, {"responses": []})
    done = replay(script, Cluster(), target=orders())
    assert [(each.bucket, each.reason) for each in done.player.results] == [(Disposition.HEADLESS, "a topic id has no name in the capture")]  # fmt: skip
    said = settings(topic_ids={b"n" * 16: "orders"})
    done = replay(script, Cluster(), said, target=orders())
    assert done.buckets() == {"answered": 1}
    assert done.sent(FETCH)[0][2]["topics"][0]["topic_id"] == done.context.names.id_of("t-orders")
