"""A target on paper with share groups, and a member of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from kdissect.replay.settings import Groups
from tests.helpers.paper_cluster import PRODUCE, Cluster, batch, produce, took
from tests.helpers.paper_target import Script, Tree, settings, topology

HEARTBEAT, FETCH, ACKNOWLEDGE = 76, 78, 79


ORDERS = b"o" * 16


ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


INVALID_REQUEST, INVALID_STATE, NOT_FOUND, OTHER_EPOCH = 42, 121, 122, 123


FULL = settings(groups=Groups.FULL)


class Sharing(Cluster):
    """Hands out three records of each partition at every fetch, and knows what it handed out."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch: int | None = None
        self.partitions: set[int] = set()
        self.held: dict[int, set[int]] = {}
        self.next: Counter[int] = Counter()
        self.said: Counter[int] = Counter()  # how records were acknowledged
        self.refused: list[int] = []

    def __call__(self, key: int, version: int, body: Tree) -> Tree | None:
        if key == HEARTBEAT:
            given = {
                "topic_partitions": [{"topic_id": TARGET.topics["t-orders"].identity, "partitions": [0, 1]}]
            }
            return {
                "error_code": 0,
                "member_id": body["member_id"],
                "member_epoch": 5 if body["member_epoch"] >= 0 else -1,
                "heartbeat_interval_ms": 1,
                "assignment": given,
            }
        if key not in (FETCH, ACKNOWLEDGE):
            return super().__call__(key, version, body)
        error = self._session(key, body)
        if error:
            self.refused.append(error)
            return {"error_code": error, "responses": []}
        asked = {
            each["partition_index"]: each["acknowledgement_batches"]
            for topic in body["topics"]
            for each in topic["partitions"]
        }
        errors = {partition: self._acknowledge(partition, batches) for partition, batches in asked.items()}
        self.refused += filter(None, errors.values())
        answer: list[dict[str, Any]] = []
        if key == FETCH:
            self.partitions |= asked.keys()
            self.partitions -= {
                each for topic in body["forgotten_topics_data"] for each in topic["partitions"]
            }
            answer = [
                self._hand_out(partition, errors.get(partition, 0)) for partition in sorted(self.partitions)
            ]
        topics = [{"topic_id": TARGET.topics["t-orders"].identity, "partitions": answer}] if answer else []
        return {"error_code": 0, "responses": topics}

    def _session(self, key: int, body: Tree) -> int:
        epoch = body["share_session_epoch"]
        if epoch == 0 and key == FETCH:
            if any(
                each["acknowledgement_batches"] for topic in body["topics"] for each in topic["partitions"]
            ):
                return INVALID_REQUEST
            self.partitions, self.held = set(), {}
        elif self.epoch is None:
            return NOT_FOUND
        elif epoch not in (-1, self.epoch):
            return OTHER_EPOCH
        self.epoch = None if epoch == -1 else epoch + 1
        return 0

    def _acknowledge(self, partition: int, batches: list[Tree]) -> int:
        for each in batches:
            for at, offset in enumerate(range(each["first_offset"], each["last_offset"] + 1)):
                if offset not in self.held.get(partition, ()):
                    return INVALID_STATE
                kind = each["acknowledge_types"][at]
                self.said[kind] += 1
                self.held[partition] -= {offset} if kind != RENEW else set()
        return 0

    def _hand_out(self, partition: int, error: int) -> Tree:
        first = self.next[partition]
        self.next[partition] += 3
        self.held.setdefault(partition, set()).update(range(first, first + 3))
        return {
            "partition_index": partition,
            "error_code": 0,
            "acknowledge_error_code": error,
            "records": b"",
            "acquired_records": [{"first_offset": first, "last_offset": first + 2, "delivery_count": 1}],
        }


TARGET = topology({"t-orders": 4})


class Member:
    """A captured member with a session at each of two brokers, one partition each."""

    def __init__(self) -> None:
        self.script = Script(names={ORDERS: "orders"})
        self.epochs: Counter[int] = Counter()
        self.written: Counter[int] = Counter()  # batches of each partition

    def heartbeat(self, at_ms: float, epoch: int, assigned: int = 0) -> None:
        """Add a heartbeat, which was answered with so many partitions."""
        body = {
            "group_id": "g",
            "member_id": "m",
            "member_epoch": epoch,
            "subscribed_topic_names": ["orders"] if not epoch else None,
        }
        answer = {"error_code": 0, "member_id": "m", "member_epoch": 1, "heartbeat_interval_ms": 1}
        if assigned:
            partitions = [{"topic_id": ORDERS, "partitions": list(range(assigned))}]
            answer["assignment"] = {"topic_partitions": partitions}
        self.script.add(at_ms, HEARTBEAT, 1, body, answer, connection=9)

    def fetch(
        self,
        at_ms: float,
        partition: int,
        acks: list[int] | None = None,
        epoch: int | None = None,
        *,
        wait_ms: int = 1,
        acquired: tuple[int, int] | None = None,
    ) -> int:
        """Add a fetch, which was handed out records from one offset to another. Return its index."""
        body = self._body(partition, acks, epoch) | {
            "max_wait_ms": wait_ms,
            "min_bytes": 1,
            "max_bytes": 99,
            "max_records": 7,
            "batch_size": 7,
        }
        handed_out = []
        if acquired or body["topics"]:
            ranges = [dict(zip(("first_offset", "last_offset"), acquired, strict=True))] if acquired else []
            fields = {"partition_index": partition, "records": b"", "acquired_records": ranges}
            handed_out = [{"topic_id": ORDERS, "partitions": [fields]}]
        return self._add(at_ms, FETCH, body, partition, handed_out)

    def produce(self, at_ms: float, partition: int, offset: int, connection: int = 20) -> int:
        """Add a batch that was written at an offset. Return the index of its request."""
        body = produce(batch(self.written[partition]))
        self.written[partition] += 1
        body["topic_data"][0]["partition_data"][0]["index"] = partition
        answer = took(0, base=offset)
        answer["responses"][0]["partition_responses"][0]["index"] = partition
        return self.script.add(at_ms, PRODUCE, 9, body, answer, connection=connection)

    def acknowledge(
        self, at_ms: float, partition: int, acks: list[int] | None = None, epoch: int | None = None
    ) -> None:
        self._add(at_ms, ACKNOWLEDGE, self._body(partition, acks, epoch), partition)

    def _body(self, partition: int, acks: list[int] | None, epoch: int | None) -> Tree:
        opens = self.epochs[partition] == 0
        batches = (
            [{"first_offset": 70, "last_offset": 69 + len(acks), "acknowledge_types": acks}] if acks else []
        )
        topics = [
            {
                "topic_id": ORDERS,
                "partitions": [{"partition_index": partition, "acknowledgement_batches": batches}],
            }
        ]
        said = self.epochs[partition] if epoch is None else epoch
        self.epochs[partition] += 1
        return {
            "group_id": "g",
            "member_id": "m",
            "share_session_epoch": said,
            "topics": topics if opens or acks else [],
        }

    def _add(
        self, at_ms: float, key: int, body: Tree, partition: int, handed_out: Sequence[Tree] = ()
    ) -> int:
        return self.script.add(
            at_ms,
            key,
            2,
            body,
            {"error_code": 0, "responses": handed_out},
            connection=1 + partition,
            server=f"10.0.0.{1 + partition}:9092",
        )
