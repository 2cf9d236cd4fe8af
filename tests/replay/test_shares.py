"""Share groups on paper: a target that is strict about sessions and about who acknowledges what."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from kdissect.replay.disposition import Disposition
from kdissect.replay.effects import Answer, Part
from kdissect.replay.handlers.share import learn_acquired
from kdissect.replay.pass_state import PassNotes
from kdissect.replay.settings import Groups
from kdissect.replay.target.share_sessions import AcknowledgedRun, OwnShareSession
from tests.helpers.paper_target import MS, Script, Tree, replay, settings, topology
from tests.replay.test_courses import Cluster

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
            return {"error_code": 0, "member_id": body["member_id"], "member_epoch": 5 if body["member_epoch"] >= 0 else -1, "heartbeat_interval_ms": 1, "assignment": given}  # fmt: skip
        if key not in (FETCH, ACKNOWLEDGE):
            return super().__call__(key, version, body)
        error = self._session(key, body)
        if error:
            self.refused.append(error)
            return {"error_code": error, "responses": []}
        asked = {each["partition_index"]: each["acknowledgement_batches"] for topic in body["topics"] for each in topic["partitions"]}  # fmt: skip
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
        for batch in batches:
            for at, offset in enumerate(range(batch["first_offset"], batch["last_offset"] + 1)):
                if offset not in self.held.get(partition, ()):
                    return INVALID_STATE
                kind = batch["acknowledge_types"][at]
                self.said[kind] += 1
                self.held[partition] -= {offset} if kind != RENEW else set()
        return 0

    def _hand_out(self, partition: int, error: int) -> Tree:
        first = self.next[partition]
        self.next[partition] += 3
        self.held.setdefault(partition, set()).update(range(first, first + 3))
        return {"partition_index": partition, "error_code": 0, "acknowledge_error_code": error, "records": b"", "acquired_records": [{"first_offset": first, "last_offset": first + 2, "delivery_count": 1}]}  # fmt: skip


TARGET = topology({"t-orders": 4})


class Member:
    """A captured member with a session at each of two brokers, one partition each."""

    def __init__(self) -> None:
        self.script = Script(names={ORDERS: "orders"})
        self.epochs: Counter[int] = Counter()

    def heartbeat(self, at_ms: float, epoch: int) -> None:
        body = {"group_id": "g", "member_id": "m", "member_epoch": epoch, "subscribed_topic_names": ["orders"] if not epoch else None}  # fmt: skip
        answer = {"error_code": 0, "member_id": "m", "member_epoch": 1, "heartbeat_interval_ms": 1}
        self.script.add(at_ms, HEARTBEAT, 1, body, answer, connection=9)

    def fetch(
        self, at_ms: float, partition: int, acks: list[int] | None = None, epoch: int | None = None
    ) -> None:
        body = self._body(partition, acks, epoch) | {"max_wait_ms": 1, "min_bytes": 1, "max_bytes": 99, "max_records": 7, "batch_size": 7}  # fmt: skip
        self._add(at_ms, FETCH, body, partition)

    def acknowledge(self, at_ms: float, partition: int, acks: list[int] | None = None, epoch: int | None = None) -> None:  # fmt: skip
        self._add(at_ms, ACKNOWLEDGE, self._body(partition, acks, epoch), partition)

    def _body(self, partition: int, acks: list[int] | None, epoch: int | None) -> Tree:
        opens = self.epochs[partition] == 0
        batches = (
            [{"first_offset": 70, "last_offset": 69 + len(acks), "acknowledge_types": acks}] if acks else []
        )
        topics = [{"topic_id": ORDERS, "partitions": [{"partition_index": partition, "acknowledgement_batches": batches}]}]  # fmt: skip
        said = self.epochs[partition] if epoch is None else epoch
        self.epochs[partition] += 1
        return {"group_id": "g", "member_id": "m", "share_session_epoch": said, "topics": topics if opens or acks else []}  # fmt: skip

    def _add(self, at_ms: float, key: int, body: Tree, partition: int) -> None:
        self.script.add(at_ms, key, 2, body, {"error_code": 0, "responses": []}, connection=1 + partition, server=f"10.0.0.{1 + partition}:9092")  # fmt: skip


def test_two_captured_sessions_are_one_on_a_node_that_leads_both_partitions() -> None:
    member, sharing = Member(), Sharing()
    member.heartbeat(0, 0)
    for at in (50, 100, 150):
        for partition in (0, 1):
            member.fetch(at + partition, partition, [ACCEPT, RELEASE] if at > 50 else None)
    member.acknowledge(200, 0, [REJECT])
    for partition in (0, 1):
        member.acknowledge(220 + partition, partition, epoch=-1)
    member.heartbeat(230, -1)
    done = replay(member.script, sharing, FULL, target=TARGET, delay_ns=5 * MS)
    assert sharing.refused == []
    assert done.buckets() == {
        "answered": 10,
        "policy": 1,
    }  # of two captured sessions that end, one is the target's
    bodies = [body for key in (FETCH, ACKNOWLEDGE) for _, _, body in done.sent(key)]
    assert [body["share_session_epoch"] for body in bodies] == [0, 1, 2, 3, 4, 5, 6, -1]
    assert len({body["member_id"] for body in bodies}) == 1
    assert len(bodies[0]["member_id"]) == 22  # as a Uuid is written
    assert {body["group_id"] for body in bodies} == {"t-g"}
    assert set(sharing.said) == {ACCEPT, RELEASE, REJECT}
    assert abs(sharing.said[ACCEPT] - sharing.said[RELEASE]) <= 6
    assert not sharing.held.get(0)  # all of what was handed out of the partition that was acknowledged last


def test_a_member_and_a_session_older_than_the_capture() -> None:
    member, sharing = Member(), Sharing()
    member.epochs.update({0: 7})
    member.fetch(10, 0)
    member.fetch(30, 0, [ACCEPT])
    done = replay(member.script, sharing, FULL, target=TARGET)
    assert [body["member_epoch"] for _, _, body in done.sent(HEARTBEAT)][:1] == [0]
    assert [body["share_session_epoch"] for _, _, body in done.sent(FETCH)] == [0, 1]
    assert [len(topic["partitions"]) for topic in done.sent(FETCH)[0][2]["topics"]] == [2]  # what is assigned
    assert sharing.said == {ACCEPT: 3}
    assert done.buckets() == {"answered": 2}


def test_a_lost_session_begins_again() -> None:
    member, sharing = Member(), Sharing()
    member.heartbeat(0, 0)
    member.fetch(10, 0)
    member.fetch(30, 0)
    member.fetch(60, 0, [ACCEPT])
    member.fetch(80, 0, [ACCEPT])
    forgets = iter([False, True])

    def respond(key: int, version: int, body: Tree) -> Tree | None:
        if key == FETCH and next(forgets, False):
            sharing.epoch = None
        return sharing(key, version, body)

    done = replay(member.script, respond, FULL, target=TARGET)
    assert sharing.refused == [NOT_FOUND]
    assert [body["share_session_epoch"] for _, _, body in done.sent(FETCH)] == [0, 1, 0, 1]
    assert done.context.notes.counts["share sessions begun again"] == 1
    assert sharing.said == {ACCEPT: 3}


def test_members_of_share_groups_need_full_groups_and_a_target_that_knows_them() -> None:
    member = Member()
    member.heartbeat(0, 0)
    member.fetch(10, 0)
    done = replay(member.script, Sharing(), target=TARGET)
    assert {item.refusal.reason for item in done.loaded.items if item.refusal} == {"group membership is replayed with --groups full, not off"}  # fmt: skip
    older = topology({"t-orders": 4})
    for key in (HEARTBEAT, FETCH, ACKNOWLEDGE):
        del older.versions[key]
    assert replay(member.script, Sharing(), FULL, target=older).buckets() == {"version": 2}


@pytest.mark.parametrize(
    ("runs", "held", "expected"),
    [
        ([(4, ACCEPT), (2, RELEASE)], [(10, 12)], [[ACCEPT, ACCEPT, RELEASE]]),
        ([(1, ACCEPT)], [(1, 2), (5, 5)], [[ACCEPT, ACCEPT], [ACCEPT]]),
        ([(1 << 62, REJECT)], [(0, 1)], [[REJECT, REJECT]]),
        ([(1, 0)], [(3, 3)], [[ACCEPT]]),  # a gap there is a record here
        ([(1, RENEW), (1, ACCEPT)], [(3, 4)], [[RENEW, ACCEPT]]),
        ([], [(3, 4)], []),
        ([(1, ACCEPT)], [], []),
    ],
)
def test_what_is_held_is_acknowledged_in_captured_proportions(
    runs: list[tuple[int, int]], held: list[tuple[int, int]], expected: list[list[int]]
) -> None:
    session = OwnShareSession(acquired={("t", 0): list(held)})
    batches = session.acknowledge(("t", 0), [AcknowledgedRun(*run) for run in runs], renewing=True)
    assert [each["acknowledge_types"] for each in batches] == expected
    assert [(each["first_offset"], each["last_offset"]) for each in batches] == (held if expected else [])
    assert session.acquired.get(("t", 0), []) == ([(3, 3)] if any(RENEW in each for each in expected) else [])


def test_what_was_under_way_in_a_lost_session_does_not_end_the_next_one() -> None:
    session = OwnShareSession()
    context = SimpleNamespace(notes=PassNotes(), names=None)
    asked = [session.next_epoch() for _ in range(3)]
    for epoch in asked[1:]:
        part = Part(FETCH, 2, {"share_session_epoch": epoch})
        answer = Answer(part, Disposition.CLOSED)
        learn_acquired(context, session, answer)  # type: ignore[arg-type]
        if epoch == 1:
            assert session.next_epoch() == 0
    assert session.epoch == 1
    assert context.notes.counts["share sessions begun again"] == 1
