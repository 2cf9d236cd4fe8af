"""Captures that were never recorded: what replays are measured with, one kind of traffic in each.

A `Script` has one connection for each client, and its requests are dealt out to them in turns, evenly over
time.
"""

from collections import Counter
from collections.abc import Callable

from kafka.record import MemoryRecordsBuilder

from kdissect.protocol.codec.messages import encode_embedded
from kdissect.replay.settings import Groups
from tests.bench.null_broker import RECORDS, topic_id
from tests.helpers.paper_target import Script

START_NS = 1_700_000_000_000_000_000
TOOK: dict[str, object] = {"responses": []}
DONE_INIT = {"error_code": 0, "producer_epoch": 0}
DONE: dict[str, object] = {"error_code": 0}
Tree = dict[str, object]


def batch(sequence: int, producer: int = -1, transactional: bool = False) -> bytes:
    """Return a batch of one record; idempotent if it has a sequence."""
    more = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence} if sequence >= 0 else {}
    builder = MemoryRecordsBuilder(
        magic=2, compression_type=0, batch_size=1 << 16, transactional=transactional, **more
    )
    builder.append(timestamp=1_700_000_000_000, key=b"key", value=b"v" * 100)
    builder.close()
    return bytes(builder.buffer())


def _moments(rate: int, seconds: int, connections: int) -> "list[tuple[float, int, int]]":
    """Return (ms since the start, connection, which one of this connection) of each request."""
    return [
        (200 + number * 1000 / rate, number % connections, number // connections)
        for number in range(rate * seconds)
    ]


def mixed(rate: int, seconds: int, connections: int) -> Script:
    """Half Produce 9 of one record (half of those idempotent), a quarter Metadata 9, a quarter
    FindCoordinator 3."""
    made = Script()
    for connection in range(connections):
        _init(made, connection)
    plain = batch(-1)
    sequences: Counter[int] = Counter()
    for at_ms, connection, turn in _moments(rate, seconds, connections):
        kind = turn % 4
        if kind < 2:
            records = plain
            if kind:
                records = batch(sequences[connection], 500 + connection)
                sequences[connection] += 1
            made.add(at_ms, 0, 9, _produced(connection, records), TOOK, connection=connection, in_flight=5)
        elif kind == 2:
            made.add(at_ms, 3, 9, {"topics": [{"name": "topic-1"}]}, connection=connection, in_flight=5)
        else:
            made.add(at_ms, 10, 3, {"key": "group", "key_type": 0}, connection=connection, in_flight=5)
    return made


def fetches(rate: int, seconds: int, connections: int) -> Script:
    """Fetch 16 in a session of six partitions; every second one brings a record, and the one behind it says
    so."""
    made = Script()
    for connection in range(connections):
        made.names[topic_id(f"topic-{connection}")] = f"topic-{connection}"
    for at_ms, connection, epoch in _moments(rate, seconds, connections):
        offset = epoch // 2  # by now; every odd epoch brings one record to partition 0
        named = range(6) if not epoch else range(epoch % 2 == 0)
        partitions = [
            {"partition": each, "fetch_offset": 0 if each else offset, "partition_max_bytes": 1 << 20}
            for each in named
        ]
        identity = topic_id(f"topic-{connection}")
        topics = [{"topic_id": identity, "partitions": partitions}] if partitions else []
        session: Tree = {"session_id": 7000 + connection if epoch else 0, "session_epoch": epoch}
        body = {
            "max_wait_ms": 500,
            "min_bytes": 1,
            "topics": topics,
            "forgotten_topics_data": [],
            "rack_id": "",
        }
        responses: list[Tree] = []
        if epoch % 2:
            told: Tree = {
                "partition_index": 0,
                "error_code": 0,
                "high_watermark": offset + 1,
                "log_start_offset": 0,
            }
            told |= {"aborted_transactions": None, "records": offset.to_bytes(8, "big") + RECORDS[8:]}
            responses = [{"topic_id": identity, "partitions": [told]}]
        answer: Tree = {"error_code": 0, "session_id": 7000 + connection, "responses": responses}
        made.add(
            at_ms, 1, 16, body | session, answer, connection=connection, client_id=f"reader-{connection}"
        )
    return made


def members(rate: int, seconds: int, connections: int) -> Script:
    """Groups of one member each: after joining, half Heartbeat 4, half OffsetCommit 8."""
    made = Script()
    subscription = encode_embedded(
        "ConsumerProtocolSubscription", 1, {"topics": ["topic-1"], "user_data": None}
    )
    for connection in range(connections):
        group, at_ms = {"group_id": f"group-{connection}"}, connection / 10
        join = group | {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 1,
            "member_id": "m",
            "protocol_type": "consumer",
        }
        join["protocols"] = [{"name": "range", "metadata": subscription}]  # type: ignore[assignment]
        joined = DONE | {"generation_id": 1, "protocol_name": "range", "leader": "m", "member_id": "m"}
        joined["members"] = [{"member_id": "m", "metadata": subscription}]
        made.add(at_ms, 11, 5, join, joined, connection=connection)
        sync = group | {"generation_id": 1, "member_id": "m", "assignments": []}
        made.add(at_ms + 30, 14, 3, sync, DONE | {"assignment": b""}, connection=connection)
    for at_ms, connection, turn in _moments(rate, seconds, connections):
        member: Tree = {"group_id": f"group-{connection}", "member_id": "m", "group_instance_id": None}
        if turn % 2:
            body, answer = member | {"generation_id": 1}, DONE
            made.add(at_ms, 12, 4, body, answer, connection=connection)
            continue
        partitions = [
            {
                "partition_index": each,
                "committed_offset": turn,
                "committed_leader_epoch": -1,
                "committed_metadata": "",
            }
            for each in range(2)
        ]
        body = member | {
            "generation_id_or_member_epoch": 1,
            "topics": [{"name": f"topic-{connection}", "partitions": partitions}],
        }
        said = [{"partition_index": each, "error_code": 0} for each in range(2)]
        answer = {"topics": [{"name": f"topic-{connection}", "partitions": said}]}
        made.add(at_ms, 8, 8, body, answer, connection=connection)
    return made


def lookups(rate: int, seconds: int, connections: int) -> Script:
    """Half ListOffsets 7 of three partitions, half OffsetFetch 7."""
    made = Script()
    for at_ms, connection, turn in _moments(rate, seconds, connections):
        name = f"topic-{connection}"
        if turn % 2:
            asked = [{"partition_index": each, "timestamp": -1} for each in range(3)]
            body: Tree = {"replica_id": -1, "topics": [{"name": name, "partitions": asked}]}
            said = [{"partition_index": each, "error_code": 0, "offset": 5} for each in range(3)]
            made.add(
                at_ms, 2, 7, body, {"topics": [{"name": name, "partitions": said}]}, connection=connection
            )
        else:
            body = {
                "group_id": f"group-{connection}",
                "topics": [{"name": name, "partition_indexes": [0, 1, 2]}],
            }
            made.add(at_ms, 9, 7, body, {"topics": [], "error_code": 0}, connection=connection)
    return made


def transactions(rate: int, seconds: int, connections: int) -> Script:
    """Transactions of six requests: AddPartitionsToTxn 3, four Produce 9 of one record, EndTxn 3."""
    made = Script()
    sequences: Counter[int] = Counter()
    for connection in range(connections):
        _init(made, connection, f"txn-{connection}")
    for at_ms, connection, turn in _moments(rate, seconds, connections):
        name, own = f"txn-{connection}", {"connection": connection}
        who: Tree = {"transactional_id": name, "producer_id": 500 + connection, "producer_epoch": 0}
        step = turn % 6
        if step == 0:
            body: Tree = {f"v3_and_below_{each}": value for each, value in who.items()}
            body["v3_and_below_topics"] = [{"name": f"topic-{connection}", "partitions": [0]}]
            made.add(at_ms, 24, 3, body, {"results_by_topic_v3_and_below": []}, **own)
        elif step < 5:
            records = batch(sequences[connection], 500 + connection, transactional=True)
            sequences[connection] += 1
            made.add(at_ms, 0, 9, _produced(connection, records) | {"transactional_id": name}, TOOK, **own)
        else:
            made.add(at_ms, 26, 3, who | {"committed": True}, DONE, **own)
    return made


def _init(made: Script, connection: int, name: str | None = None) -> None:
    issued = DONE_INIT | {"producer_id": 500 + connection}
    made.add(
        connection / 10,
        22,
        3,
        {"transactional_id": name, "transaction_timeout_ms": 1},
        issued,
        connection=connection,
    )


def _produced(connection: int, records: bytes) -> Tree:
    """Write to a partition of its own for each connection, as sequences want."""
    data = [{"name": f"topic-{connection}", "partition_data": [{"index": 0, "records": records}]}]
    return {"acks": 1, "timeout_ms": 1000, "topic_data": data}


KINDS: dict[str, Callable[[int, int, int], Script]] = {
    "mixed": mixed,
    "fetches": fetches,
    "members": members,
    "lookups": lookups,
    "transactions": transactions,
}
GROUPS = {"members": Groups.FULL}
