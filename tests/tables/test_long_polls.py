"""Waits by design: fetches that wait for data, joins, and syncs of members that do not lead."""

import struct
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kdissect.protocol.api_keys import FETCHES, ApiKey
from kdissect.streams.engine import ExchangeBatch
from kdissect.tables import exchanges as exchanges_module
from kdissect.tables import long_polls
from kdissect.tables.log_ends import FetchHistory
from kdissect.tables.long_polls import QUORUM_TOPIC_ID, Waits, call_all, plain_waits, waits_by_design
from kdissect.tables.message_columns import MessageColumns
from kdissect.tables.partition_keys import TOPIC_ID, partition_keys
from tests.helpers import recorded
from tests.helpers.told_capture import Line, Story, batch

NAME = "rebalances.pcapng"
MS = 1_000_000


def poll(line: Line, at_ms: float, took_ms: float, end: int, records: bytes = b"", **request: Any) -> None:
    """Fetch from partition 0 of orders, with max_wait_ms 500 and min_bytes 1 unless said otherwise."""
    asked = {"topic": "orders", "partitions": [{"partition": 0, "fetch_offset": 42}]}
    found = {"partition_index": 0, "high_watermark": end, "records": records}
    line.call(
        at_ms,
        took_ms,
        ApiKey.FETCH,
        7,
        {"max_wait_ms": 500, "min_bytes": 1, "topics": [asked]} | request,
        {"responses": [{"topic": "orders", "partitions": [found]}]},
    )


def waits(story: Story, tmp_path: Path) -> list[tuple[bool, float, float]]:
    """Return idle wait, wait and latency (ms) of each exchange in the order of time."""
    rows = recorded.rows(story.write(tmp_path / "polls.pcap"), "exchanges")
    rows.sort(key=lambda row: row["request_first_ns"])
    return [(row["idle_wait"], row["wait_ns"] / MS, row["latency_ns"] / MS) for row in rows]


def shortened(capture: bytes, size: int) -> bytes:
    """Return a pcap file of which so many bytes of each packet are kept."""
    out, at = [capture[:24]], 24
    while at < len(capture):
        *time, kept, length = struct.unpack_from("<IIII", capture, at)
        out += struct.pack("<IIII", *time, min(kept, size), length), capture[at + 16 :][: min(kept, size)]
        at += 16 + kept
    return b"".join(out)


def test_a_poll_that_is_answered_long_after_its_end_is_late_by_the_difference(tmp_path: Path) -> None:
    story = Story()
    line = story.connect()
    poll(line, 0, 503, 42)
    poll(line, 1000, 8186, 42)
    assert waits(story, tmp_path) == [(True, 503, 503), (False, 500, 8186)]


def test_a_record_that_was_written_during_the_poll_ends_it_whenever_it_was_created(tmp_path: Path) -> None:
    """The record was created 100 ms before the poll, and written 83 ms after its begin (linger.ms)."""
    story = Story()
    line = story.connect()
    poll(line, 0, 500, 42)
    poll(line, 501, 83.9, 43, batch(42, at_ms=401))
    assert waits(story, tmp_path)[1] == (True, 83.9, 83.9)


def test_records_that_were_there_are_service(tmp_path: Path) -> None:
    """The log had them at the poll before, or the reader was away for longer than the answer took."""
    story = Story()
    line = story.connect()
    poll(line, 0, 1, 50, batch(40, 2, at_ms=-50))
    poll(line, 2, 80, 50, batch(42, 8, at_ms=-50))
    poll(line, 1000, 80, 60, batch(50, 10, at_ms=500))
    assert [idle for idle, *_ in waits(story, tmp_path)] == [False, False, False]


def test_a_poll_waits_until_min_bytes_are_there(tmp_path: Path) -> None:
    story = Story()
    line = story.connect()
    poll(line, 0, 500, 50, batch(42, 8), min_bytes=100_000)
    poll(line, 600, 900, 50, batch(42, 8), min_bytes=100_000)
    poll(line, 1600, 80, 50, batch(42, 8))
    assert waits(story, tmp_path) == [(True, 500, 500), (False, 500, 900), (False, 0, 80)]


def test_a_poll_behind_another_one_begins_when_that_is_answered(tmp_path: Path) -> None:
    story = Story()
    line = story.connect()
    poll(line, 0, 500, 42)
    poll(line, 100, 890, 42)
    assert waits(story, tmp_path) == [(True, 500, 500), (True, 890, 890)]


def test_polls_whose_limit_was_cut_off_may_have_waited(tmp_path: Path) -> None:
    """Clients let a broker wait for up to 5 s by default; a broker that takes longer is late."""
    story = Story()
    line = story.connect()
    poll(line, 0, 1500, 42)
    poll(line, 2000, 5600, 42)
    story.write(tmp_path / "polls.pcap")
    (tmp_path / "cut.pcap").write_bytes(shortened((tmp_path / "polls.pcap").read_bytes(), 80))
    rows = recorded.rows(str(tmp_path / "cut.pcap"), "exchanges")
    assert [(row["idle_wait"], row["wait_ns"] / MS) for row in rows] == [(True, 1500), (False, 5000)]


def test_the_service_time_of_recorded_consumers_is_not_their_polling() -> None:
    """The readers of this capture poll for records that come every 100 to 200 ms; the brokers need 1 ms."""
    rows = [row for row in recorded.rows("steady.pcapng", "exchanges") if row["api_key"] == ApiKey.FETCH]
    answered = [row for row in rows if row["latency_ns"] is not None]
    assert sum(not row["idle_wait"] for row in answered) < len(answered) // 10


def test_only_fetches_joins_and_syncs_wait_by_design() -> None:
    idle = [row for row in recorded.rows(NAME, "exchanges") if row["idle_wait"]]
    assert {row["api_key"] for row in idle} <= {*FETCHES, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP}
    assert {row["status"] for row in idle} == {"answered"}
    assert not any(row["error_code"] for row in idle)


def test_every_join_without_an_error_is_a_wait() -> None:
    rows = recorded.rows(NAME, "exchanges")
    joins = [row for row in rows if row["api_key"] == ApiKey.JOIN_GROUP and row["status"] == "answered"]
    assert joins
    assert all(row["idle_wait"] is (row["error_code"] == 0) for row in joins)


def test_the_sync_of_a_leader_is_not_a_wait() -> None:
    events = recorded.rows(NAME, "group_events")
    leads = {(row["connection"], row["ordinal"]): row["leader"] for row in events if row["event"] == "sync"}
    syncs = [row for row in recorded.rows(NAME, "exchanges") if row["api_key"] == ApiKey.SYNC_GROUP]
    answered = [row for row in syncs if row["status"] == "answered" and row["error_code"] == 0]
    assert {leads[row["connection"], row["ordinal"]] for row in answered} == {True, False}
    assert all(row["idle_wait"] is not leads[row["connection"], row["ordinal"]] for row in answered)


@pytest.mark.parametrize("name", ["rebalances.pcapng", "cluster-life.pcapng", "clock-step.pcapng"])
def test_many_exchanges_wait_as_few_do(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times, statuses and ids of topics are those of the capture, and then any."""
    random = np.random.default_rng(1)
    compared: Counter[str] = Counter()

    def compare(
        batch: ExchangeBatch, request: MessageColumns, response: MessageColumns, history: FetchHistory
    ) -> Waits:
        plain = plain_waits(batch, request, response, history)
        for changed in range(4):
            at = np.flatnonzero(random.random(len(batch.exchanges)) < 0.3 * changed)
            exchanges, arena = batch.exchanges.copy(), batch.arena.copy()
            exchanges["status"][at] = random.integers(0, 4, len(at))
            exchanges["request"]["last_byte_ns"][at] -= random.integers(-(10**9), 10**9, len(at))
            exchanges["request"]["last_byte_ns"][at[::7]] = -1
            exchanges["api_key"][at[::3]] = ApiKey.SHARE_FETCH
            ids = partition_keys(batch.arena, response).keys[:, TOPIC_ID]
            for start in ids[ids >= 0][:: 5 - changed].tolist() if changed else ():
                arena[start : start + 16] = QUORUM_TOPIC_ID
            told = [known.copy() for known in history]
            for known in told:
                known[at] = exchanges["request"]["last_byte_ns"][at] - random.integers(0, 10**8, len(at))
            varied = ExchangeBatch(exchanges, arena), request, response, FetchHistory(*told)
            expected = plain_waits(*varied)
            for one, other in zip(waits_by_design(*varied), expected, strict=True):
                assert one.tolist() == other.tolist()
            compared.update(
                idle=int(expected.idle.sum()), late=int((~expected.idle & (expected.wait_ns > 0)).sum())
            )
        return plain

    monkeypatch.setattr(long_polls, "are_many", lambda _rows: True)
    monkeypatch.setattr(exchanges_module, "waits_by_design", compare)
    recorded.dissected.__wrapped__(name)
    assert compared["idle"] > 20
    assert compared["late"]


def test_the_loop_for_many_exchanges_compiles() -> None:
    call_all()
