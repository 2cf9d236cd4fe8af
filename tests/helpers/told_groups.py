"""Groups, producers and readers told as stories, and the report about a story with its incidents.

The functions add ordinary requests to a `Line` of `told_capture`; what goes wrong is left to the test.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.capture.segment_index import Counts
from kdissect.protocol.api_keys import ApiKey
from kdissect.report.build.build_report import build_report
from kdissect.report.model.summary import CaptureFacts, Summary
from kdissect.report.partials import ALL_TABLES, Partial, merge, summarise
from kdissect.report.timeline.count_signals import SIGNAL_SOURCES
from kdissect.report.timeline.grid import SIGNAL_STEPS, grid_over
from kdissect.spark import tasks
from kdissect.spark.capture_facts import capture_facts
from kdissect.tables.build import dissect_batches
from tests.helpers.told_capture import Line, Story, batch

TOPIC = "orders"
SESSION_MS = 6000


def analyzed(story: Story, tmp_path: Path) -> Summary:
    """Return the report about a story, with signals and incidents."""
    return build_report(*partial_of(story, tmp_path))


def partial_of(story: Story, tmp_path: Path) -> tuple[Partial, CaptureFacts]:
    """Return what the report about a story is built from."""
    seen = index_captures(open_inputs([story.write(tmp_path / "story.pcap")], "").files, 1 << 30)
    ordinals = [pa.record_batch({"split": [split.index]}) for split in seen.splits]
    pieces = list(tasks.scan_step(ordinals, seen.splits, ()))
    grid = grid_over(seen.earliest_time_ns, seen.latest_time_ns, SIGNAL_STEPS)
    batches = dissect_batches(pieces, seen.splits, wanted=SIGNAL_SOURCES)
    partial = merge(summarise(dict(tables), None, grid) for tables in batches)
    return partial, capture_facts(seen, Counts(packets=seen.packets))


def in_another_order(partial: Partial, seed: int) -> Partial:
    """Return a partial whose tables have their rows in another order, as other tasks leave them."""
    rng = np.random.default_rng(seed)
    tables = {name: partial.table(ALL_TABLES[name]) for name in partial.tables}
    return Partial(
        {name: rows.take(pa.array(rng.permutation(rows.num_rows))) for name, rows in tables.items()}
    )


def causes_of(tell: Callable[[Story], Any], tmp_path: Path) -> list[str]:
    """Return the names of the causes of a story before a healthy background, the first one first."""
    story = Story()
    background(story)
    tell(story)
    return [incident.cause for incident in analyzed(story, tmp_path).incidents]


def join(
    line: Line, at_ms: float, member: str, generation: int, protocol: str = "range", **more: Any
) -> None:
    """Join the group readers, and be let in."""
    request = {
        "group_id": "readers",
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": SESSION_MS,
        "member_id": member,
        "protocol_type": "consumer",
        "protocols": [],
    }
    response = {
        "generation_id": generation,
        "protocol_name": protocol,
        "leader": "leader",
        "member_id": member,
        "members": [],
    }
    line.call(at_ms, 5, ApiKey.JOIN_GROUP, 5, request | more, response)


def heartbeat(
    line: Line, at_ms: float, member: str, generation: int, error: int = 0, took_ms: float = 1
) -> None:
    """Send a heartbeat."""
    request = {"group_id": "readers", "generation_id": generation, "member_id": member}
    line.call(at_ms, took_ms, ApiKey.HEARTBEAT, 2, request, {"error_code": error})


def heartbeats(line: Line, begin_ms: int, end_ms: int, member: str, generation: int) -> None:
    """Send a heartbeat each second."""
    for at_ms in range(begin_ms, end_ms, 1000):
        heartbeat(line, at_ms, member, generation)


def leave(line: Line, at_ms: float, member: str) -> None:
    """Leave the group readers."""
    line.call(
        at_ms, 1, ApiKey.LEAVE_GROUP, 2, {"group_id": "readers", "member_id": member}, {"error_code": 0}
    )


def produce(
    line: Line,
    at_ms: float,
    *,
    error: int = 0,
    partition: int = 0,
    count: int = 10,
    took_ms: float = 2,
    throttle_ms: int = 0,
    topic: str = TOPIC,
    offset: int = 0,
) -> None:
    """Write a batch to a partition."""
    data = {"index": partition, "records": batch(0, count, at_ms)}
    request = {"acks": -1, "timeout_ms": 1000, "topic_data": [{"name": topic, "partition_data": [data]}]}
    found = {"index": partition, "error_code": error, "base_offset": -1 if error else offset}
    response = {
        "responses": [{"name": topic, "partition_responses": [found]}],
        "throttle_time_ms": throttle_ms,
    }
    line.call(at_ms, took_ms, ApiKey.PRODUCE, 7, request, response)


def fetch(line: Line, at_ms: float, offset: int, end: int, *, records: int = 1, error: int = 0) -> None:
    """Read from partition 0; the response has the end of the log."""
    asked = {"topic": TOPIC, "partitions": [{"partition": 0, "fetch_offset": offset}]}
    found = {
        "partition_index": 0,
        "error_code": error,
        "high_watermark": end,
        "records": batch(offset, records, 0) if records else b"",
    }
    line.call(
        at_ms,
        2,
        ApiKey.FETCH,
        7,
        {"max_wait_ms": 500, "min_bytes": 1, "topics": [asked]},
        {"responses": [{"topic": TOPIC, "partitions": [found]}]},
    )


def background(story: Story, seconds: int = 30) -> Line:
    """Add a producer and a member that live through the whole story."""
    writer = story.connect("10.1.0.9", client_id="steady-writer")
    for at_ms in range(10, 1000 * seconds, 200):
        produce(writer, at_ms, offset=at_ms // 20)
    return writer


def refused(code, times=6):
    """A writer that is refused from its begin on."""

    def tell(story):
        line = story.connect("10.1.0.2", client_id="bad", at_ms=9900)
        for number in range(times):
            produce(line, 10_000 + 1000 * number, error=code)

    return tell


def impatient(
    times: int = 40, age_ms: float = 150, by_client: bool = True, spread: float = 0, before_ms: float = 0
) -> Callable[[Story], None]:
    """Return what tells of a reader whose connections end at an age, while or after a fetch waits on them.

    They begin at 8 s, one every 220 ms, and each fetch is answered after 180 ms, as it asks. Each
    second client needs `before_ms` more before it fetches.
    """
    asked = {"topic": TOPIC, "partitions": [{"partition": 0, "fetch_offset": 70}]}
    empty = {"partition_index": 0, "error_code": 0, "high_watermark": 70, "records": b""}
    request = {"max_wait_ms": 180, "min_bytes": 1, "topics": [asked]}
    response = {"responses": [{"topic": TOPIC, "partitions": [empty]}]}

    def tell(story: Story) -> None:
        for number in range(times):
            at_ms = 8_000 + 220 * number
            line = story.connect("10.1.0.8", client_id="hasty", at_ms=at_ms)
            at_ms += before_ms * (number % 2)
            line.call(at_ms + 2, 180, ApiKey.FETCH, 7, request, response)
            end_ms = at_ms + age_ms * (1 + spread * (number % 5))
            line.send(end_ms, by_client, b"", "FA")
            line.send(max(end_ms, at_ms + 182) + 1, True, b"", "RA")

    return tell
