"""`replay.handlers.fetch_patience`, against a target on paper: how long fetches wait, and for how much."""

from __future__ import annotations

import pytest

from kdissect.replay.settings import Pace
from tests.helpers.paper_cluster import FETCH, batch
from tests.helpers.paper_fetches import VERSION, Sessions, fetch
from tests.helpers.paper_target import Script, play, settings, topology

WAIT_MS = 500


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
