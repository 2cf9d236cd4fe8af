"""Coordinators on paper, and scripts of members and sessions that are older than the capture."""

from __future__ import annotations

from kdissect.protocol.codec.messages import decode_embedded, encode_embedded
from kdissect.replay.settings import Groups
from tests.helpers.paper_cluster import COMMIT, FETCH, JOIN, SYNC, Cluster, Group, batch
from tests.helpers.paper_target import OnPaper, Script, Tree, settings

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
    body = {
        "group_id": "g",
        "generation_id_or_member_epoch": 9,
        "member_id": member,
        "topics": [{"name": "orders", "partitions": [partition]}],
    }
    return script.add(at_ms, COMMIT, version, body, {"topics": []}, connection=connection)


def topics_of(join: Tree) -> list[str]:
    return decode_embedded("ConsumerProtocolSubscription", join["protocols"][0]["metadata"]).value["topics"]


def told_by(script: Script, source: str) -> None:
    """Have the capture tell what the members of the group subscribe to."""
    metadata = encode_embedded("ConsumerProtocolSubscription", 1, {"topics": ["orders"]})
    assigned = {"assigned_partitions": [{"topic": "orders", "partitions": [2]}]}
    assignment = encode_embedded("ConsumerProtocolAssignment", 1, assigned)
    if source == "join":
        body = {
            "group_id": "g",
            "session_timeout_ms": 7000,
            "rebalance_timeout_ms": 8000,
            "member_id": "first",
            "protocol_type": "consumer",
            "protocols": [{"name": "sticky", "metadata": metadata}],
        }
        answer = {
            "error_code": 0,
            "generation_id": 10,
            "protocol_name": "sticky",
            "leader": "x",
            "member_id": "first",
            "members": [],
        }
        script.add(300, JOIN, 5, body, answer)
    elif source == "sync":
        body = {"group_id": "g", "generation_id": 9, "member_id": "first", "assignments": []}
        script.add(300, SYNC, 3, body, {"error_code": 0, "assignment": assignment})
    elif source == "description":
        member = {
            "member_id": "first",
            "client_id": "c",
            "client_host": "/h",
            "member_metadata": metadata,
            "member_assignment": assignment,
        }
        group = {
            "error_code": 0,
            "group_id": "g",
            "group_state": "Stable",
            "protocol_type": "consumer",
            "protocol_data": "range",
            "members": [member],
        }
        script.add(300, DESCRIBE, 4, {"groups": ["g"]}, {"groups": [group]}, connection=9)
    elif source == "fetch":
        fetch(script, 300, 0, 0, {("orders", 1): 5})


class ByHeartbeat(Cluster):
    """A coordinator of groups without leaders."""

    def __call__(self, key: int, version: int, body: Tree) -> Tree | None:
        if key == CONSUMER_HEARTBEAT:
            joins = body["member_epoch"] == 0
            given = {"topic_partitions": [{"topic_id": b"1" * 16, "partitions": [0]}]} if joins else None
            return {
                "error_code": 0,
                "member_id": body["member_id"],
                "member_epoch": 31,
                "heartbeat_interval_ms": 1,
                "assignment": given,
            }
        return super().__call__(key, version, body)


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

    asked = {
        where: {"partition": where[1], "fetch_offset": offset, "partition_max_bytes": 77}
        for where, offset in said.items()
    }
    answered = {
        where: {"partition_index": where[1], "high_watermark": end, "records": records}
        for where, (records, end) in (brought or {}).items()
    }
    body = {
        "replica_id": -1,
        "max_wait_ms": 10,
        "min_bytes": 1,
        "session_id": session,
        "session_epoch": epoch,
        "topics": topics(asked),
    }
    return script.add(
        at_ms,
        FETCH,
        11,
        body,
        {"session_id": session or 900, "responses": topics(answered)},
        connection=connection,
    )


def fetched(done: OnPaper) -> list[dict[int, int]]:
    """Return partition -> offset of every fetch that was sent."""
    return [
        {each["partition"]: each["fetch_offset"] for topic in body["topics"] for each in topic["partitions"]}
        for _, _, body in done.sent(FETCH)
    ]


def at_offset(offset: int) -> bytes:
    return offset.to_bytes(8, "big") + batch()[8:]
