"""`replay.handlers.fetch_patience`, against a target on paper: how long fetches wait, and for how much."""

from __future__ import annotations

import pytest

from kdissect.replay.net.connection import Connection
from kdissect.replay.settings import Pace
from tests.helpers.paper_cluster import FETCH, PRODUCE, Cluster, batch, produce
from tests.helpers.paper_fetches import VERSION, Sessions, fetch
from tests.helpers.paper_target import (
    MS,
    FarTarget,
    PaperTarget,
    Script,
    Tree,
    play,
    replay,
    settings,
    topology,
)

WAIT_MS = 500
WRITES = 20


def captured(records: bytes) -> dict[str, object]:
    part = {
        "partition_index": 0,
        "error_code": 0,
        "high_watermark": 9,
        "log_start_offset": 0,
        "records": records,
    }
    return {"session_id": 0, "responses": [{"topic": "orders", "partitions": [part]}]}


@pytest.mark.parametrize(
    ("pace", "records", "wait_ms"),
    [
        (Pace.SCHEDULE, b"", WAIT_MS),
        (Pace.THINK, b"", WAIT_MS),
        (Pace.ASAP, b"", 1),
        (Pace.ASAP, batch(), 1),  # nobody writes it in this run
        (Pace.SCHEDULE, batch(), 5),  # so it waits as long as the captured one took
    ],
)
def test_a_fetch_waits_only_for_what_may_come(pace: Pace, records: bytes, wait_ms: int) -> None:
    made = Script()
    body = fetch(0, -1, {0: 3}) | {"max_wait_ms": WAIT_MS}
    made.add(0, FETCH, VERSION, body, captured(records), took_ms=7)
    paper, target = Sessions(0.0), topology({"t-orders": 1}, 1)
    done = play(made.capture(), made.shelf, paper, target, settings(pace=pace), prepared=True)
    assert done.buckets() == {"answered": 1}
    asked = [each for bodies in paper.said.values() for each in bodies]
    assert [(each["max_wait_ms"], each["min_bytes"]) for each in asked] == [(wait_ms, 1)]


def test_a_fetch_that_waits_for_a_write_is_accounted_for_when_the_run_is_cut_off() -> None:
    made = Script()
    records = (3).to_bytes(8, "big") + batch()[8:]
    part = {"index": 0, "records": records}
    body = {"acks": 1, "timeout_ms": 9, "topic_data": [{"name": "orders", "partition_data": [part]}]}
    taken = {"index": 0, "error_code": 0, "base_offset": 3, "log_append_time_ms": -1}
    answer = {"responses": [{"name": "orders", "partition_responses": [taken]}]}
    made.add(0, PRODUCE, 8, body, answer)
    made.add(5, FETCH, VERSION, fetch(0, -1, {0: 3}), captured(records), connection=2, client_id="reader")
    asked = settings(pace=Pace.ASAP)
    target = topology({"t-orders": 1}, 1)
    slow_ns = 20 * 10**9
    done = replay(made, lambda *_: None, asked, target=target, delay_ns=slow_ns, interrupt_ns=10**9)
    assert {result.index for result in done.player.results} == {0, 1}
    assert len(done.player.results) == 2


class PaperLog(PaperTarget):
    """A partition on paper: takes batches of one record, and hands out one at least, as brokers do."""

    def __init__(self) -> None:
        super().__init__(lambda *_: {})
        self.log: list[bytes] = []
        self.read: list[int] = []  # offsets, as they were handed out

    def answer(self, link: Connection, key: int, version: int, body: Tree) -> Tree | None:
        if key == PRODUCE:
            (topic,) = body["topic_data"]
            taken = {"index": 0, "error_code": 0, "base_offset": len(self.log), "log_append_time_ms": -1}
            self.log.append(topic["partition_data"][0]["records"])
            return {"responses": [{"name": topic["name"], "partition_responses": [taken]}]}
        if key != FETCH:
            return super().answer(link, key, version, body)
        return {"session_id": 0, "responses": [self._fetched(topic) for topic in body["topics"]]}

    def _fetched(self, topic: Tree) -> Tree:
        offset, most = (topic["partitions"][0][name] for name in ("fetch_offset", "partition_max_bytes"))
        records = b""
        for number, each in enumerate(self.log[offset:], offset):
            if not records or len(records) + len(each) <= most:
                records += number.to_bytes(8, "big") + each[8:]
                self.read.append(number)
        part = {"partition_index": 0, "error_code": 0, "high_watermark": len(self.log), "log_start_offset": 0}
        return {"topic": topic["topic"], "partitions": [part | {"records": records}]}


@pytest.mark.parametrize("later", [0, 5])
@pytest.mark.parametrize("prepared", [False, True])
def test_a_client_does_not_read_on_while_writers_are_ahead_of_it(prepared: bool, later: int) -> None:
    """The captured client reads one record, then finds nothing many times, then reads some of the others."""
    made, record = Script(), batch()
    at_ms = 0
    for number in range(WRITES):
        taken = {"index": 0, "error_code": 0, "base_offset": number, "log_append_time_ms": -1}
        answer = {"responses": [{"name": "orders", "partition_responses": [taken]}]}
        made.add(at_ms, PRODUCE, 8, produce(record), answer)
        at_ms += 2
        if not number:
            made.add(at_ms, FETCH, VERSION, fetch(0, -1, {0: 0}), captured(record), connection=2)
            for _ in range(WRITES):
                at_ms += 2
                made.add(at_ms, FETCH, VERSION, fetch(0, -1, {0: 1}), captured(b""), connection=2)
            at_ms += 2
    for number in range(1, 1 + later):
        read = number.to_bytes(8, "big") + record[8:]
        made.add(at_ms + number, FETCH, VERSION, fetch(0, -1, {0: number}), captured(read), connection=2)
    paper = PaperLog()
    asked, target = settings(pace=Pace.ASAP), topology({"t-orders": 1}, 1)
    done = play(made.capture(), made.shelf, paper, target, asked, prepared=prepared)
    assert done.buckets() == {"answered": 2 * WRITES + 1 + later}
    assert paper.read == list(range(1 + later))


def test_records_without_acknowledgement_are_read_too() -> None:
    """They come behind the others on the target, and their offsets in the capture are not known."""
    made, record = Script(), batch()
    for at_ms, partition, base, connection in ((0, 0, 1, 1), (2, 1, 0, 4)):
        taken = {"index": partition, "error_code": 0, "base_offset": base, "log_append_time_ms": -1}
        answer = {"responses": [{"name": "orders", "partition_responses": [taken]}]}
        body = produce(*[record] * (1 + partition))
        del body["topic_data"][0]["partition_data"][:partition]
        made.add(at_ms, PRODUCE, 8, body, answer, connection=connection)
    made.add(1, PRODUCE, 8, produce(record) | {"acks": 0}, connection=3)
    both = record + (1).to_bytes(8, "big") + record[8:]
    made.add(5, FETCH, VERSION, fetch(0, -1, {0: 0}), captured(both), connection=2)
    other = captured(record)
    other["responses"][0]["partitions"][0]["partition_index"] = 1
    made.add(9, FETCH, VERSION, fetch(0, -1, {0: 2, 1: 0}), other, connection=2)
    logs, asked = {0: PaperLog(), 1: PaperLog()}, list[dict[int, int]]()

    def answer_of(key: int, version: int, body: Tree) -> Tree | None:
        if key == PRODUCE:
            (data,) = body["topic_data"][0]["partition_data"]
            logs[data["index"]].log.append(data["records"])
            taken = {"index": data["index"], "error_code": 0, "base_offset": 0}
            answer = {"responses": [{"name": "t-orders", "partition_responses": [taken]}]}
            return answer if body["acks"] else None
        if key != FETCH:
            return Cluster()(key, version, body)
        named = [each for topic in body["topics"] for each in topic["partitions"]]
        asked.append({each["partition"]: each["fetch_offset"] for each in named})
        parts = []
        for each in named:
            (part,) = logs[each["partition"]]._fetched({"topic": "", "partitions": [each]})["partitions"]
            parts.append(part | {"partition_index": each["partition"]})
        return {"session_id": 0, "responses": [{"topic": "t-orders", "partitions": parts}]}

    slow = {3: 90 * MS, 4: 60 * MS}
    paper = FarTarget(
        answer_of, lag=lambda link: next((lag for owner, lag in slow.items() if owner == link.owner), MS)
    )
    play(made.capture(), made.shelf, paper, topology({"t-orders": 2}, 1), settings(pace=Pace.ASAP))
    assert asked == [{0: 0}, {0: 1, 1: 0}]
