"""The comparison from pairs that are written by hand: identity, errors, verdict, percentiles."""

from __future__ import annotations

import pytest

from kdissect.replay.disposition import Unaccounted
from kdissect.replay.results.run_comparison import compare, is_idle_poll, quantiles, without_noise
from tests.helpers.run_pairs import MS, error, pair, run


def test_what_went_well_passes() -> None:
    report = compare(run(3), [pair(0), pair(1), pair(2)])
    assert report["verdict"] == "pass"
    assert report["records"]["topics"] == [
        {"topic": "orders", "target": "t-orders", "captured": 3, "replayed": 3}
    ]
    assert report["latency"]["Produce v9"]["service_ms"]["p99"] == 3.0
    assert report["latency"]["Produce v9"]["captured_ms"]["p50"] == 2.0
    assert report["latency"]["Produce v9"]["p99_ratio"] == 1.5


def test_a_sum_that_does_not_come_out_is_no_report() -> None:
    with pytest.raises(Unaccounted, match="3 requests were captured, but 2"):
        compare(run(3), [pair(0), pair(1)])


def test_errors_are_new_vanished_mutated_or_the_same() -> None:
    report = compare(
        run(5), [error(0, 0, 10), error(1, 10, 0), error(2, 10, 87), error(3, 10, 10), error(4, 0, 6)]
    )
    found = {
        (each["captured"], each["replayed"]): (each["kind"], each["expected"]) for each in report["errors"]
    }
    assert found == {
        ("NONE", "MESSAGE_TOO_LARGE"): ("new", False),
        ("MESSAGE_TOO_LARGE", "NONE"): ("vanished", False),
        ("MESSAGE_TOO_LARGE", "INVALID_RECORD"): ("mutated", False),
        ("MESSAGE_TOO_LARGE", "MESSAGE_TOO_LARGE"): ("same", False),
        ("NONE", "NOT_LEADER_OR_FOLLOWER"): ("new", True),
    }
    assert report["verdict"] == "diverged"
    assert report["because"][2:] == [
        "1 records that the captured cluster acknowledged were not acknowledged: 1 of 2 of orders"
    ]


def test_a_slow_replayer_cannot_pass() -> None:
    late = [pair(index) for index in range(10)]
    for each in late:
        each["sent"] = each["sent"] | {
            "sent_ns": each["sent"]["due_ns"] + 80 * MS,
            "received_ns": each["sent"]["due_ns"] + 90 * MS,
            "cause": "self",
        }
    report = compare(run(10), late)
    assert report["verdict"] == "invalid"
    assert report["latency"]["Produce v9"]["response_ms"]["p50"] == 90.0
    assert report["latency"]["Produce v9"]["service_ms"]["p50"] == 10.0
    for each in late:
        each["sent"]["cause"] = "in-flight cap"
    assert compare(run(10), late)["verdict"] == "pass"
    assert compare(run(1, stopped="interrupted"), [pair(0)])["because"] == ["incomplete: interrupted"]


def test_what_could_mostly_not_be_sent_is_no_comparison() -> None:
    for bucket, verdict in (("policy", "pass"), ("headless", "invalid")):
        unsent = pair(2, bucket=bucket, reason="a topic id has no name in the capture", sent=None, answers=[])
        report = compare(run(3), [pair(0), pair(1), unsent])
        assert report["verdict"] == verdict
    assert report["because"] == [
        "1 of 3 requests to be sent could not be: a topic id has no name in the capture"
    ]


def test_a_second_run_is_the_noise() -> None:
    report = compare(run(2), [pair(0), error(1, 0, 10)])
    without_noise(report, compare(run(2), [pair(0), error(1, 0, 10)]))
    assert report["verdict"] == "pass"
    quiet = compare(run(2), [pair(0), error(1, 0, 10)])
    without_noise(quiet, compare(run(2), [pair(0), pair(1)]))
    assert quiet["verdict"] == "diverged"


def test_quantiles_are_nearest_rank() -> None:
    assert quantiles([]) is None
    assert quantiles([number * MS for number in range(1, 101)]) == {
        "p50": 50.0,
        "p90": 90.0,
        "p99": 99.0,
        "p99.9": 100.0,
        "max": 100.0,
    }


@pytest.mark.parametrize(("api", "brought"), [("Fetch", "records"), ("ShareFetch", "acquired")])
def test_a_fetch_that_waited_in_vain_is_idle_and_one_that_brought_something_is_not(
    api: str, brought: str
) -> None:
    made = pair(0, api=api)
    made["captured"]["request"] = {"max_wait_ms": 3}
    made["answers"][0]["digest"] = []
    assert is_idle_poll(made)
    had_some = [{"where": "t-orders-0", "error": 0, brought: 2}]
    made["answers"][0]["digest"] = had_some
    assert not is_idle_poll(made)
    made["captured"] |= {"digest": [], "service_ns": 3 * MS}  # the captured one did so
    assert is_idle_poll(made)
    made["captured"]["digest"] = had_some
    assert not is_idle_poll(made)
