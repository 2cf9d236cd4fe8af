"""Latencies of a run against those of a reference: what counts as slower, and what is too little to tell."""

from __future__ import annotations

import pytest

from kdissect.replay.results.performance import (
    LatencySubject,
    RunLatencies,
    compare_latencies,
    performance_verdict,
)
from kdissect.replay.results.run_comparison import compare
from tests.helpers.run_pairs import MS, pair, run

PRODUCE = LatencySubject("Produce v9", "")


@pytest.mark.parametrize(
    ("requests", "reference_ms", "replayed_ms", "verdict"),
    [
        (200, 1, 51, "slower"),
        (200, 51, 1, "faster"),
        (200, 1, 2, "same"),  # less than 2 ms
        (200, 100, 120, "same"),  # less than a quarter
        (200, 100, 130, "slower"),
        (3, 1, 51, "too few to tell"),
    ],
)
def test_a_shift_counts_from_a_quarter_and_from_2_ms_on(
    requests: int, reference_ms: int, replayed_ms: int, verdict: str
) -> None:
    jitter = range(requests)
    rows = compare_latencies(
        {PRODUCE: [reference_ms * MS + 1000 * each for each in jitter]},
        {PRODUCE: [replayed_ms * MS + 1000 * each for each in jitter]},
    )
    median = next(row for row in rows if row["quantile"] == "p50")
    assert median["difference"] == verdict
    assert performance_verdict([median], "capture")["verdict"] == verdict


def test_samples_that_overlap_are_the_same() -> None:
    wide = [each * MS for each in range(1, 13)]
    shifted = [each + 3 * MS for each in wide]
    (median, _) = compare_latencies({PRODUCE: wide}, {PRODUCE: shifted})
    assert (median["more_ms"], median["difference"]) == (3.0, "same")


def test_the_sentences_name_the_largest_differences() -> None:
    fetch = LatencySubject("Fetch v16", "")
    rows = compare_latencies(
        {PRODUCE: [MS] * 1000, fetch: [MS] * 1000}, {PRODUCE: [9 * MS] * 1000, fetch: [60 * MS] * 1000}
    )
    verdict = performance_verdict(rows, "capture")
    assert verdict["because"] == [
        "p50 of Fetch v16: 1.00ms in the capture, 60.0ms on the target",
        "p99 of Fetch v16: 1.00ms in the capture, 60.0ms on the target",
        "p50 of Produce v9: 1.00ms in the capture, 9.00ms on the target",
    ]


def test_a_request_counts_for_its_only_topic_and_idle_ones_do_not() -> None:
    latencies = RunLatencies()
    two = [{"where": "orders-0", "error": 0}, {"where": "bills-1", "error": 0}]
    latencies.add(pair(0), idle=False)
    latencies.add(pair(1, captured=pair(1)["captured"] | {"digest": two}), idle=False)
    latencies.add(pair(2), idle=True)
    topic = LatencySubject("Produce v9", "orders")
    broker = LatencySubject("Produce v9", broker=1)
    lengths = {subject: len(values) for subject, values in latencies.replayed.items()}
    assert lengths == {PRODUCE: 2, topic: 1, broker: 2}
    assert latencies.captured[topic] == [2 * MS]


def test_topics_explain_and_do_not_decide() -> None:
    topic = LatencySubject("Produce v9", "orders")
    rows = compare_latencies({topic: [MS] * 1000}, {topic: [90 * MS] * 1000})
    assert rows[0]["difference"] == "slower"
    assert performance_verdict(rows, "capture")["verdict"] == "too few to tell"


def test_one_slow_broker_makes_a_target_slower() -> None:
    slow, quick = (LatencySubject("Produce v9", broker=number) for number in (1, 2))
    rows = compare_latencies(
        {slow: [MS] * 1000, quick: [MS] * 1000}, {slow: [60 * MS] * 1000, quick: [MS] * 1000}
    )
    verdict = performance_verdict(rows, "baseline run")
    assert verdict["verdict"] == "slower"
    assert (
        verdict["because"][0]
        == "p50 of Produce v9 by broker 1: 1.00ms in the baseline run, 60.0ms on the target"
    )


def test_a_target_that_throttles_is_slower() -> None:
    report = compare(run(1, throttled={"answers": 3, "ms": 2500}), [pair(0)])
    assert report["performance"]["verdict"] == "slower"
    assert report["performance"]["because"] == ["the target throttled 3 responses, for 2.5 s in all"]
    assert compare(run(1, throttled={"answers": 0, "ms": 0}), [pair(0)])["performance"]["because"] == []
