"""`replay.handlers.fetch`, against a target on paper."""

from __future__ import annotations

from typing import Any

import pytest

from kdissect.replay.disposition import Disposition
from tests.helpers.paper_cluster import FETCH, Cluster, orders
from tests.helpers.paper_fetches import (
    FETCHES,
    PARTITIONS,
    VERSION,
    Sessions,
    fetch,
    script,
)
from tests.helpers.paper_target import (
    Script,
    Tree,
    play,
    replay,
    settings,
    topology,
)


def test_fetches_by_ids_that_the_capture_never_names_are_said_to_be_so() -> None:
    script = Script()
    topic = {
        "topic_id": b"n" * 16,
        "partitions": [{"partition": 0, "fetch_offset": 1, "partition_max_bytes": 9}],
    }
    body = {"max_wait_ms": 10, "min_bytes": 1, "session_id": 0, "session_epoch": -1, "topics": [topic]}
    script.add(0, FETCH, 13, body, {"responses": []})
    done = replay(script, Cluster(), target=orders())
    assert [(each.bucket, each.reason) for each in done.player.results] == [
        (Disposition.HEADLESS, "a topic id has no name in the capture")
    ]
    said = settings(topic_ids={b"n" * 16: "orders"})
    done = replay(script, Cluster(), said, target=orders())
    assert done.buckets() == {"answered": 1}
    assert done.sent(FETCH)[0][2]["topics"][0]["topic_id"] == done.context.names.id_of("t-orders")


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize(
    ("leaders", "took_ms", "speed", "wait_ms"),
    [
        (1, 7, 1, 500),
        (2, 7, 1, 5),
        (2, 0.4, 1, 0),
        (2, 70, 2, 20),
        (2, 499, 1, 200),
        (2, 900, 1, 500),
        (2, None, 1, 500),
    ],
)
def test_several_leaders_wait_no_longer_than_the_one_that_was_captured(
    leaders: int, took_ms: float | None, speed: float, wait_ms: int, prepared: bool
) -> None:
    """Leaders without data would else delay what those with data answer at once."""
    body = fetch(0, -1, {0: 3, 1: 5}) | {"max_wait_ms": 500 * speed}
    made = Script()
    answer: Tree | None = None if took_ms is None else {"responses": []}
    made.add(0, FETCH, VERSION, body, answer, took_ms=took_ms or 0)
    paper, target = Sessions(0.0), topology({"t-orders": 2}, leaders)
    done = play(made.capture(), made.shelf, paper, target, settings(speed=speed), prepared=prepared)
    assert done.buckets() == {"answered": 1}
    asked = [each for bodies in paper.said.values() for each in bodies]
    assert [each["max_wait_ms"] for each in asked] == [wait_ms] * leaders


@pytest.mark.parametrize("errors", [0.0, 0.2])
@pytest.mark.parametrize("leaders", [1, 2])
def test_what_was_looked_at_before_its_turn_is_asked_alike(leaders: int, errors: float) -> None:
    found: list[Any] = []
    for prepared in (False, True):
        made, target = script(), topology({"t-orders": PARTITIONS}, leaders)
        paper = Sessions(errors)
        done = play(made.capture(), made.shelf, paper, target, settings(), prepared=prepared)
        ends = [(each.index, each.bucket, each.reason, each.parts) for each in done.player.results]
        found.append((sorted(ends), paper.said, done.context.notes.by_request))
    assert found[0] == found[1]
    ends, sent, _ = found[1]
    skipped = [bucket for _, bucket, _, _ in ends if bucket is not Disposition.ANSWERED]
    assert (
        skipped.count(Disposition.HEADLESS)
        == skipped.count(Disposition.DEPENDENCY)
        == len(skipped) / 2
        == FETCHES // 10 - 1
    )
    assert len(sent) == leaders + 1
    assert sum(map(len, sent.values())) >= FETCHES
