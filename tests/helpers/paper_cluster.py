"""Brokers on paper that take batches, transactions and members, and scripts that speak to them."""

from itertools import count
from typing import Any

from kafka.record import MemoryRecordsBuilder

from kdissect.protocol.codec.messages import encode_embedded
from kdissect.protocol.records.record_decoder import (
    Record,
    RecordHeader,
    read_records,
)
from kdissect.replay.rewrite.batch_rewrite import batch_of, batches_of
from tests.helpers.paper_target import OnPaper, Script, topology

PRODUCE, FETCH, COMMIT, COORDINATOR, JOIN, SYNC, INIT, ADD, END = (
    0,
    1,
    8,
    10,
    11,
    14,
    22,
    24,
    26,
)


EPOCHS = 23


Tree = dict[str, Any]


def batch(
    sequence: int = -1, producer: int = 900, epoch: int = 4, records: int = 1, text: bytes = b"v"
) -> bytes:
    more = (
        {"producer_id": producer, "producer_epoch": epoch, "base_sequence": sequence} if sequence >= 0 else {}
    )
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 16, **more)
    for number in range(records):
        builder.append(timestamp=number, key=None, value=text)
    builder.close()
    return bytes(builder.buffer())


def produce(*records: bytes, acks: int = -1, transaction: str | None = None, topic: str = "orders") -> Tree:
    data = [{"index": number, "records": each} for number, each in enumerate(records)]
    return {
        "transactional_id": transaction,
        "acks": acks,
        "timeout_ms": 500,
        "topic_data": [{"name": topic, "partition_data": data}],
    }


def took(*errors: int, base: int = 70) -> Tree:
    each = [
        {"index": number, "error_code": error, "base_offset": base} for number, error in enumerate(errors)
    ]
    return {"responses": [{"name": "orders", "partition_responses": each}]}


def issued(producer: int, epoch: int) -> Tree:
    return {"error_code": 0, "producer_id": producer, "producer_epoch": epoch}


class Cluster:
    """A target that takes everything, and fails where told. Producer ids begin at 5000."""

    def __init__(self, **errors: list[int]) -> None:
        self.ids, self.offset, self.errors = count(5000), 0, errors

    def __call__(self, key: int, version: int, body: Tree) -> Tree | None:
        del version
        error = self.errors.get(f"key{key}", [])
        code = error.pop(0) if error else 0
        if key == COORDINATOR:
            found = {"error_code": 0, "node_id": 1, "host": "127.0.0.1", "port": 9092}
            keys = body.get("coordinator_keys")
            return {"coordinators": [found | {"key": each} for each in keys]} if keys else found
        if key == INIT:
            return issued(next(self.ids) if not code else -1, 0) | {"error_code": code}
        if key == ADD:
            results = [
                {
                    "name": t["name"],
                    "results_by_partition": [
                        {"partition_index": p, "partition_error_code": code} for p in t["partitions"]
                    ],
                }
                for t in body["v3_and_below_topics"]
            ]
            return {"results_by_topic_v3_and_below": results}
        if key == PRODUCE:
            answer = []
            for topic in body["topic_data"]:
                name = {"name": topic["name"]} if "name" in topic else {"topic_id": topic["topic_id"]}
                parts = []
                for each in topic["partition_data"]:
                    parts.append(
                        {
                            "index": each["index"],
                            "error_code": code,
                            "base_offset": -1 if code else self.offset,
                        }
                    )
                    self.offset += 0 if code else batch_of(each["records"]).records
                answer.append(name | {"partition_responses": parts})
            return None if body["acks"] == 0 else {"responses": answer}
        return {} if key in (FETCH, COMMIT, EPOCHS) else {"error_code": code}


def batches_sent(done: OnPaper) -> list[tuple[int, int, int, int]]:
    """Return (partition, producer, epoch, sequence) of every batch that was sent."""
    found = []
    for _, _, body in done.sent(PRODUCE):
        for topic in body["topic_data"]:
            for each in topic["partition_data"]:
                (one,) = batches_of(each["records"])
                found.append((each["index"], one.producer_id, one.producer_epoch, one.base_sequence))
    return found


def orders(leaders: int = 1) -> Any:
    return topology({"t-orders": 4}, leaders)


def plain(*texts: bytes, compression: int = 0, headers: bool = False) -> bytes:
    builder = MemoryRecordsBuilder(magic=2, compression_type=compression, batch_size=1 << 16)
    for text in texts:
        builder.append(timestamp=7, key=b"k" + text, value=text, headers=[("h", text)] if headers else [])
    builder.close()
    return bytes(builder.buffer())


def written(done: OnPaper) -> list[bytes]:
    """Return the values of all records that were sent, in order."""
    return [
        record.value
        for _, _, body in done.sent(PRODUCE)
        for record in read_records(body["topic_data"][0]["partition_data"][0]["records"])
        if isinstance(record, Record) and record.value is not None
        if record.headers == (RecordHeader(b"h", record.value),)
    ]


def transaction(generation: int) -> Script:
    """A transactional producer of either generation: two partitions, then commit."""
    script, key = Script(), {"transactional_id": "bank", "producer_id": 900, "producer_epoch": 4}
    script.add(0, INIT, 4, {"transactional_id": "bank", "transaction_timeout_ms": 60_000}, issued(900, 4))
    if generation == 1:
        topics = [{"name": "orders", "partitions": [0, 1]}]
        add = {f"v3_and_below_{name}": value for name, value in key.items()} | {"v3_and_below_topics": topics}
        script.add(10, ADD, 3, add, {"results_by_topic_v3_and_below": []}, connection=2)
    version = 11 if generation == 1 else 12
    script.add(12, PRODUCE, version, produce(batch(0), transaction="bank"), took(0), connection=1)
    data = produce(batch(0), batch(0), transaction="bank")
    data["topic_data"][0]["partition_data"] = data["topic_data"][0]["partition_data"][1:]
    script.add(12, PRODUCE, version, data, took(0), connection=3)
    answer = {"error_code": 0} | ({"producer_id": 900, "producer_epoch": 5} if generation == 2 else {})
    script.add(30, END, 4 if generation == 1 else 5, key | {"committed": True}, answer, connection=2)
    return script


def in_order(done: OnPaper) -> list[int]:
    return [key for _, key, _, _ in done.target.asked if key in (INIT, ADD, PRODUCE, END)]


class Group(Cluster):
    """A coordinator that names another leader than the capture had, and wants ids first."""

    def __init__(self, leader: int) -> None:
        super().__init__()
        self.leader, self.members, self.given = leader, list[str](), dict[str, bytes]()

    def __call__(self, key: int, version: int, body: Tree) -> Tree | None:
        if key == JOIN and not body["member_id"]:
            self.members.append(f"live-{len(self.members)}")
            return {
                "error_code": 79,
                "member_id": self.members[-1],
                "leader": "",
                "members": [],
                "protocol_name": "",
            }
        if key == JOIN:
            leads = body["member_id"] == f"live-{self.leader}"
            members = [{"member_id": each, "metadata": b""} for each in ("live-0", "live-1")] if leads else []
            return {
                "error_code": 0,
                "generation_id": 77,
                "protocol_name": "range",
                "leader": f"live-{self.leader}",
                "member_id": body["member_id"],
                "members": members,
            }
        if key == SYNC:
            self.given |= {each["member_id"]: each["assignment"] for each in body["assignments"]}
            return {"error_code": 0, "assignment": b""}
        return super().__call__(key, version, body)


def member(script: Script, connection: int, name: str, leads: bool) -> None:
    metadata = encode_embedded("ConsumerProtocolSubscription", 1, {"topics": ["orders"]})
    join = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": metadata}],
    }
    refused = {"error_code": 79, "member_id": name, "leader": "", "members": [], "protocol_name": ""}
    script.add(connection, JOIN, 5, join | {"member_id": ""}, refused, connection=connection)
    joined = refused | {"error_code": 0, "generation_id": 3, "protocol_name": "range", "leader": "first"}
    script.add(20 + connection, JOIN, 5, join | {"member_id": name}, joined, connection=connection)
    assigned = [
        {
            "member_id": each,
            "assignment": encode_embedded(
                "ConsumerProtocolAssignment",
                1,
                {"assigned_partitions": [{"topic": "orders", "partitions": parts}]},
            ),
        }
        for each, parts in (("first", [0, 1, 2]), ("second", [3]))
    ]
    sync = {"group_id": "g", "generation_id": 3, "member_id": name, "assignments": assigned if leads else []}
    script.add(40 + connection, SYNC, 3, sync, {"error_code": 0, "assignment": b"x"}, connection=connection)
