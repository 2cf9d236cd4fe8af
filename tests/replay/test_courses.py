"""Courses on paper: what is asked of a target that exists only here, request by request."""

from itertools import count
from typing import Any

import pytest
from kafka.record import MemoryRecordsBuilder

from kdissect.protocol.codec.messages import decode_embedded, encode_embedded
from kdissect.protocol.records.record_decoder import (
    Record,
    RecordHeader,
    read_records,
)
from kdissect.replay.disposition import Disposition
from kdissect.replay.rewrite.batch_rewrite import batch_of, batches_of
from kdissect.replay.settings import Groups, Pace
from tests.helpers.paper_target import MS, OnPaper, Script, replay, settings, topology

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
    return {"transactional_id": transaction, "acks": acks, "timeout_ms": 500, "topic_data": [{"name": topic, "partition_data": data}]}  # fmt: skip


def took(*errors: int, base: int = 70) -> Tree:
    each = [
        {"index": number, "error_code": error, "base_offset": base} for number, error in enumerate(errors)
    ]
    return {"responses": [{"name": "orders", "partition_responses": each}]}


def issued(producer: int, epoch: int) -> Tree:
    return {"error_code": 0, "producer_id": producer, "producer_epoch": epoch}


class Cluster:
    """A target that takes everything, gives producer ids from 5000 on and offsets in order, and fails where told."""

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
            results = [{"name": t["name"], "results_by_partition": [{"partition_index": p, "partition_error_code": code} for p in t["partitions"]]} for t in body["v3_and_below_topics"]]  # fmt: skip
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
    """Give (partition, producer, epoch, sequence) of every batch that was sent."""
    found = []
    for _, _, body in done.sent(PRODUCE):
        for topic in body["topic_data"]:
            for each in topic["partition_data"]:
                (one,) = batches_of(each["records"])
                found.append((each["index"], one.producer_id, one.producer_epoch, one.base_sequence))
    return found


def orders(leaders: int = 1) -> Any:
    return topology({"t-orders": 4}, leaders)


def test_sequences_have_no_holes_and_producers_are_the_targets() -> None:
    script = Script()
    script.add(0, INIT, 4, {"transactional_id": None, "transaction_timeout_ms": 1}, issued(900, 4))
    for at, sequence in ((10, 17), (20, 18), (30, 25)):  # the capture lost what was between
        script.add(at, PRODUCE, 9, produce(batch(sequence)), took(0))
    done = replay(script, Cluster(), target=orders())
    assert batches_sent(done) == [(0, 5000, 0, 0), (0, 5000, 0, 1), (0, 5000, 0, 2)]
    assert done.buckets() == {"answered": 4}


def test_a_producer_older_than_the_capture_gets_an_id_once() -> None:
    script = Script()
    for connection in (1, 2):
        script.add(0, PRODUCE, 9, produce(batch(40)), took(0), connection=connection)
        script.add(
            9, PRODUCE, 9, produce(batch(7 + connection, producer=901)), took(0), connection=connection
        )
    done = replay(script, Cluster(), target=orders())
    assert len(done.sent(INIT)) == 2
    assert {body["transactional_id"] for _, _, body in done.sent(INIT)} == {None}
    assert done.context.notes.counts["producer ids asked for"] == 2


def test_a_batch_waits_for_the_id_that_another_connection_gets() -> None:
    script = Script()
    script.add(
        0, INIT, 4, {"transactional_id": None, "transaction_timeout_ms": 1}, issued(900, 4), connection=1
    )
    script.add(1, PRODUCE, 9, produce(batch(0)), took(0), connection=2)
    done = replay(script, Cluster(), target=orders(), delay_ns=40 * MS)
    assert len(done.sent(INIT)) == 1
    (sent,) = done.sent(PRODUCE)
    assert sent[0] >= done.sent(INIT)[0][0] + 40 * MS
    assert list(done.player.results)[-1].cause == "dependency"


def test_an_epoch_that_a_client_raises_itself_is_raised_alike() -> None:
    script = Script()
    script.add(0, INIT, 4, {"transactional_id": None, "transaction_timeout_ms": 1}, issued(900, 4))
    script.add(5, PRODUCE, 9, produce(batch(0)), took(0))
    script.add(9, PRODUCE, 9, produce(batch(0, epoch=6)), took(0))
    assert batches_sent(replay(script, Cluster(), target=orders())) == [(0, 5000, 0, 0), (0, 5000, 2, 0)]


def test_numbers_go_on_behind_what_was_taken() -> None:
    script = Script()
    for at, sequence in ((0, 0), (100, 1), (200, 2)):
        script.add(at, PRODUCE, 9, produce(batch(sequence)), took(0))
    done = replay(script, Cluster(key0=[0, 10, 0]), target=orders())  # the second was too large
    assert [sequence for _, _, _, sequence in batches_sent(done)] == [0, 1, 1]


def test_a_retry_is_sent_only_if_the_first_attempt_failed_here_too() -> None:
    for errors, sent in (([0, 0], 1), ([7, 0], 2)):
        script = Script()
        script.add(0, PRODUCE, 9, produce(batch(3)), took(6), connection=1)
        script.add(50, PRODUCE, 9, produce(batch(3)), took(0), connection=2)
        done = replay(script, Cluster(key0=list(errors)), target=orders())
        assert len(done.sent(PRODUCE)) == sent
        assert done.buckets().get("retry", 0) == 2 - sent
        if sent == 2:
            assert [sequence for _, _, _, sequence in batches_sent(done)] == [0, 0]


def test_retries_without_sequences_are_known_by_their_records() -> None:
    script = Script()
    script.add(0, PRODUCE, 9, produce(batch(text=b"same")), None, connection=1)  # never answered
    script.add(50, PRODUCE, 9, produce(batch(text=b"same")), took(0), connection=2)
    # The same again, on purpose.
    script.add(60, PRODUCE, 9, produce(batch(text=b"same")), took(0), connection=2)
    done = replay(script, Cluster(), target=orders())
    assert len(done.sent(PRODUCE)) == 2
    assert done.buckets() == {"answered": 2, "retry": 1}


def plain(*texts: bytes, compression: int = 0, headers: bool = False) -> bytes:
    builder = MemoryRecordsBuilder(magic=2, compression_type=compression, batch_size=1 << 16)
    for text in texts:
        builder.append(timestamp=7, key=b"k" + text, value=text, headers=[("h", text)] if headers else [])
    builder.close()
    return bytes(builder.buffer())


def written(done: OnPaper) -> list[bytes]:
    """Give the values of all records that were sent, in order."""
    return [
        record.value
        for _, _, body in done.sent(PRODUCE)
        for record in read_records(body["topic_data"][0]["partition_data"][0]["records"])
        if isinstance(record, Record) and record.headers == (RecordHeader(b"h", record.value),)
    ]  # fmt: skip


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
def test_records_that_were_batched_anew_are_written_once(compression: int) -> None:
    def batch_of_some(*texts: bytes) -> Tree:
        return produce(plain(*texts, compression=compression, headers=True))

    def script() -> Script:
        made = Script()
        made.add(0, PRODUCE, 9, batch_of_some(b"1", b"2"), None, connection=1)  # never answered
        made.add(1, PRODUCE, 9, batch_of_some(b"3"), took(6), connection=1)
        made.add(90, PRODUCE, 9, batch_of_some(b"1", b"2", b"3", b"4"), took(0), connection=2)
        made.add(95, PRODUCE, 9, batch_of_some(b"5"), took(0), connection=2)
        return made

    done = replay(script(), Cluster(), target=orders())
    assert written(done) == [b"1", b"2", b"3", b"4", b"5"]
    assert done.context.notes.counts["records left out of regrouped retries"] == 3
    assert done.buckets() == {"answered": 4}
    refused = replay(script(), Cluster(key0=[0, 10, 0, 0]), target=orders())
    assert written(refused) == [b"1", b"2", b"3", b"3", b"4", b"5"]  # the first b"3" was refused


@pytest.mark.parametrize("sequence", [-1, 3])
def test_a_third_attempt_is_a_retry_of_the_first(sequence: int) -> None:
    for errors, sent in (([0], 1), ([10, 0], 2), ([10, 10, 0], 3)):
        script = Script()
        script.add(0, PRODUCE, 9, produce(batch(sequence)), took(6), connection=1)
        script.add(50, PRODUCE, 9, produce(batch(sequence)), took(6), connection=2)
        script.add(90, PRODUCE, 9, produce(batch(sequence)), took(0), connection=3)
        done = replay(script, Cluster(key0=list(errors)), target=orders())
        assert len(done.sent(PRODUCE)) == sent


def test_requests_are_cut_along_leaders_and_batches() -> None:
    script = Script()
    script.add(0, PRODUCE, 9, produce(batch(0), batch(0), batch(0)), took(0, 0, 0))
    done = replay(script, Cluster(), target=orders(leaders=2))
    assert sorted(len(body["topic_data"][0]["partition_data"]) for _, _, body in done.sent(PRODUCE)) == [1, 2]
    assert done.context.notes.counts["split"] == 1
    assert done.buckets() == {"answered": 1}
    several = Script()
    several.add(0, PRODUCE, 9, produce(batch(0) + batch(1, records=3) + batch(4)), took(0))
    done = replay(several, Cluster(), target=orders())
    assert [sequence for _, _, _, sequence in batches_sent(done)] == [0, 1, 4]
    assert done.buckets() == {"answered": 1}


def test_without_acks_nothing_is_waited_for() -> None:
    script = Script()
    for at in range(5):
        script.add(at, PRODUCE, 9, produce(batch(), acks=0), None)
    script.add(6, COORDINATOR, 3, {"key": "g", "key_type": 0}, None)
    done = replay(script, Cluster(), target=orders(), delay_ns=30 * MS)
    assert done.buckets() == {"no answer due": 5, "answered": 1}


def test_missing_and_internal_topics_are_not_written() -> None:
    script = Script()
    script.add(0, PRODUCE, 9, produce(batch(), topic="gone"), took(0))
    script.add(1, PRODUCE, 9, produce(batch(), topic="__consumer_offsets"), took(0))
    done = replay(script, Cluster(), target=topology({"t-__consumer_offsets": 1}))
    assert done.sent(PRODUCE) == []
    assert {result.reason for result in done.player.results} == {"topic t-gone is not on the target", "__consumer_offsets is an internal topic"}  # fmt: skip


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


def test_a_transaction_keeps_its_order_across_connections() -> None:
    done = replay(transaction(1), Cluster(), target=orders(), delay_ns=25 * MS)
    assert in_order(done) == [INIT, ADD, PRODUCE, PRODUCE, END]
    ended = done.sent(END)[0]
    assert ended[0] >= max(time for time, _, _ in done.sent(PRODUCE)) + 25 * MS
    assert (ended[2]["transactional_id"], ended[2]["producer_id"], ended[2]["producer_epoch"]) == (
        "t-bank",
        5000,
        0,
    )
    assert not done.context.transactions.open


def test_the_second_generation_on_a_target_of_the_first() -> None:
    first = orders()
    first.features["transaction.version"] = 1
    done = replay(transaction(2), Cluster(), target=first)
    assert sorted(in_order(done)) == sorted([INIT, ADD, PRODUCE, ADD, PRODUCE, END])
    assert {version for _, version, _ in done.sent(PRODUCE)} == {11}
    assert [version for _, version, _ in done.sent(END)] == [4]
    second = replay(transaction(2), Cluster(), target=orders())
    assert in_order(second) == [INIT, PRODUCE, PRODUCE, END]
    assert {version for _, version, _ in second.sent(PRODUCE)} == {12}


def test_what_is_still_ending_is_asked_again() -> None:
    done = replay(transaction(1), Cluster(key24=[51, 51, 0], key0=[19, 0, 0]), target=orders())
    assert in_order(done).count(ADD) == 3
    assert in_order(done).count(PRODUCE) == 3
    assert done.buckets() == {"answered": 5}
    assert (done.context.notes.counts["asked again"], done.context.notes.counts["sent again"]) == (2, 1)
    first, second, third = (time for time, _, _ in done.sent(ADD))
    assert 5 * MS <= second - first <= 10 * MS <= third - second <= 15 * MS
    refused, _, again = (time for time, _, _ in done.sent(PRODUCE))
    assert 5 * MS <= again - refused <= 10 * MS


def test_who_waits_long_for_a_coordinator_asks_seldom() -> None:
    done = replay(transaction(1), Cluster(key24=[*[51] * 30, 0]), target=orders())
    times = [time for time, _, _ in done.sent(ADD)]
    assert done.buckets() == {"answered": 5}
    assert len(times) == 31
    assert times[-1] - times[0] >= (5 + 10 + 20 + 40 + 26 * 50) * MS


def test_a_transaction_that_was_ending_in_the_capture_too_is_waited_for() -> None:
    script = transaction(2)
    script.requests.pop()
    body = produce(batch(1), transaction="bank")
    script.add(40, PRODUCE, 12, body, took(51), connection=1)
    script.add(60, PRODUCE, 12, body, took(0), connection=1)
    done = replay(script, Cluster(key0=[0, 0, 19, 0]), target=orders())
    assert done.buckets() == {"answered": 4, "retry": 1}
    assert done.context.notes.counts["sent again"] == 1


def test_an_open_transaction_is_aborted_at_the_end() -> None:
    script = transaction(1)
    script.requests.pop()
    done = replay(script, Cluster(), target=orders())
    ((_, _, body),) = done.sent(END)
    assert (body["transactional_id"], body["committed"]) == ("t-bank", False)
    assert done.context.notes.counts["transactions aborted at the end"] == 1


def test_commits_without_members_are_translated() -> None:
    script = Script()
    script.add(0, PRODUCE, 9, produce(batch(records=5)), took(0, base=1000))
    commit = {"group_id": "g", "generation_id_or_member_epoch": 3, "member_id": "m-1", "group_instance_id": "static", "topics": [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 1004, "committed_leader_epoch": 7, "committed_metadata": "x"}]}]}  # fmt: skip
    script.add(50, COMMIT, 7, commit, {"topics": []})
    done = replay(script, Cluster(), settings(groups=Groups.SIMPLE), target=orders())
    ((_, _, body),) = done.sent(COMMIT)
    assert (body["group_id"], body["generation_id_or_member_epoch"], body["member_id"], body["group_instance_id"]) == ("t-g", -1, "", None)  # fmt: skip
    assert body["topics"][0]["partitions"][0] == {"partition_index": 0, "committed_offset": 4, "committed_leader_epoch": -1, "committed_metadata": "x"}  # fmt: skip


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
            return {"error_code": 0, "generation_id": 77, "protocol_name": "range", "leader": f"live-{self.leader}", "member_id": body["member_id"], "members": members}  # fmt: skip
        if key == SYNC:
            self.given |= {each["member_id"]: each["assignment"] for each in body["assignments"]}
            return {"error_code": 0, "assignment": b""}
        return super().__call__(key, version, body)


def member(script: Script, connection: int, name: str, leads: bool) -> None:
    metadata = encode_embedded("ConsumerProtocolSubscription", 1, {"topics": ["orders"]})
    join = {"group_id": "g", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000, "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": metadata}]}  # fmt: skip
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


def test_groups_of_other_protocols_are_refused_ahead() -> None:
    script = Script()
    join = {"group_id": "workers", "session_timeout_ms": 1, "rebalance_timeout_ms": 1, "member_id": "", "protocol_type": "connect", "protocols": []}  # fmt: skip
    script.add(0, JOIN, 5, join, None)
    done = replay(script, Cluster(), settings(groups=Groups.FULL), target=orders())
    (item,) = done.loaded.items  # so a plan says it too
    assert item.refusal == (Disposition.POLICY, "groups of protocol type 'connect' are not supported")
    assert done.buckets() == {"policy": 1}


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
        assert found == {"live-0": [{"topic": "t-orders", "partitions": [0, 1, 2]}], "live-1": [{"topic": "t-orders", "partitions": [3]}]}  # fmt: skip
        assert done.buckets() == {"answered": 6}


def test_hostile_frames_are_skipped_and_counted() -> None:
    script = Script()
    for number in range(40):
        body = produce(bytes((number * 7 + at) % 256 for at in range(90)))
        script.add(number, PRODUCE, 9, body, took(0))
    done = replay(script, Cluster(), target=orders())
    assert done.buckets() == {"undecodable": 40}
    assert done.sent(PRODUCE) == []


def test_a_partition_keeps_its_order_when_its_leader_moved() -> None:
    script = Script()
    script.add(0, PRODUCE, 9, produce(batch(0)), took(0), connection=1)
    script.add(1, PRODUCE, 9, produce(batch(1)), took(0), connection=1)  # waits behind the first
    script.add(2, PRODUCE, 9, produce(batch(2)), took(0), connection=2, server="10.0.0.2:9092")
    done = replay(script, Cluster(), settings(pace=Pace.ASAP), target=orders(), delay_ns=20 * MS)
    sent = done.sent(PRODUCE)
    assert [sequence for _, _, _, sequence in batches_sent(done)] == [0, 1, 2]
    assert [len(body["topic_data"]) for _, _, body in sent] == [1, 1, 1]
    assert sent[2][0] >= sent[1][0] + 20 * MS


def test_leader_epochs_are_those_of_the_target() -> None:
    script = Script()
    asked = {"partition": 1, "current_leader_epoch": 6, "leader_epoch": 5}
    for at, partition in enumerate((1, 3)):
        body = {"replica_id": -1, "topics": [{"topic": "orders", "partitions": [asked | {"partition": partition}, asked | {"partition": 0}]}]}  # fmt: skip
        script.add(at, EPOCHS, 4, body, {"topics": []})
    known = orders(leaders=2)
    known.topics["t-orders"] = known.topics["t-orders"]._replace(epochs={0: 12, 1: 13})
    done = replay(script, Cluster(), target=known)
    told = [(each["partition"], each["leader_epoch"], each["current_leader_epoch"]) for _, _, body in done.sent(EPOCHS) for topic in body["topics"] for each in topic["partitions"]]  # fmt: skip
    assert told == [(1, 13, -1), (0, 12, -1), (3, -1, -1), (0, 12, -1)]  # of the last but one none is known
    assert done.context.notes.counts["split"] == 2
    assert done.buckets() == {"answered": 2}
