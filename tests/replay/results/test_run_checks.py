"""Failures without an error code."""

from __future__ import annotations

import pytest

from kdissect.replay.results.run_comparison import compare
from tests.helpers.run_pairs import error, pair, run


@pytest.mark.parametrize(
    ("bucket", "error_code", "verdict"),
    [
        ("answered", 3, "diverged"),
        ("dependency", None, "diverged"),
        ("version", None, "diverged"),
        ("policy", None, "pass"),
        ("retry", None, "pass"),
    ],
)
def test_records_that_were_not_written_are_missed_though_no_error_tells(
    bucket: str, error_code: int | None, verdict: str
) -> None:
    """Neither what is of the cluster nor what the replayer could not send may look like success."""
    lost = pair(1, bucket=bucket, sent=None, answers=[], reason="of one in a hundred")
    if error_code is not None:
        lost = error(1, 0, error_code)
    others = [pair(index, api="Heartbeat") for index in range(2, 100)]
    report = compare(run(100), [pair(0), lost, *others])
    assert report["verdict"] == verdict
    assert report["because"] == (
        ["1 records that the captured cluster acknowledged were not acknowledged: 1 of 2 of orders"]
        if verdict == "diverged"
        else []
    )


def test_what_one_partition_has_twice_does_not_stand_for_what_another_lacks() -> None:
    lost = pair(1, bucket="dependency", sent=None, answers=[], reason="of one in a hundred")
    lost["captured"] = lost["captured"] | {
        "produced": {"orders-1": 1},
        "digest": [{"where": "orders-1", "error": 0, "offset": 0}],
    }
    twice = pair(2)  # the captured cluster did not take this one
    twice["captured"] = twice["captured"] | {"digest": [{"where": "orders-0", "error": 6, "offset": -1}]}
    others = [pair(index, api="Heartbeat") for index in range(3, 100)]
    report = compare(run(100), [pair(0), lost, twice, *others])
    assert report["records"]["topics"][0]["replayed"] == report["records"]["topics"][0]["captured"] == 2
    assert report["because"] == [
        "1 records that the captured cluster acknowledged were not acknowledged: 1 of 2 of orders"
    ]


def test_success_that_wrote_nothing_is_found() -> None:
    swallowed = pair(1)
    swallowed["answers"] = [
        {"version": 9, "bytes": 9, "body": None, "digest": [{"where": "t-orders-0", "error": 0, "offset": 0}]}
    ]
    report = compare(run(2), [pair(0), swallowed])
    assert report["verdict"] == "diverged"
    assert report["because"] == [
        "1 acknowledged batches got an offset that was given before: nothing was written"
    ]


def test_offsets_of_a_topic_that_was_deleted_may_begin_anew() -> None:
    deleted, again = pair(1, api="DeleteTopics", produced=[]), pair(2)
    deleted["captured"] = deleted["captured"] | {"produced": {}, "digest": [{"where": "orders", "error": 0}]}
    deleted["answers"] = [
        {"version": 6, "bytes": 9, "body": None, "digest": [{"where": "t-orders", "error": 0}]}
    ]
    again["answers"] = pair(0)["answers"]
    assert compare(run(3), [pair(0), deleted, again])["because"] == []


def test_empty_assignments_and_open_transactions_are_found() -> None:
    sync = pair(0, api="SyncGroup", api_key=14, produced=[])
    sync["captured"] = sync["captured"] | {"digest": [{"where": "", "error": 0, "assigned": 6}]}
    sync["answers"] = [
        {"version": 5, "bytes": 9, "body": None, "digest": [{"where": "", "error": 0, "assigned": 0}]}
    ]
    report = compare(run(1, open_transactions=["bank"]), [sync])
    assert [each["check"] for each in report["checks"] if not each["holds"]] == [
        "members have partitions",
        "no transaction is left open",
    ]


@pytest.mark.parametrize(
    ("api", "field", "check"),
    [
        ("ShareFetch", "acquired", "share members acquire records"),
        ("OffsetForLeaderEpoch", "known", "leader epochs have an end"),
    ],
)
def test_what_seldom_is_asked_is_checked_where_it_was(api: str, field: str, check: str) -> None:
    fetched = pair(0, api=api, produced=[])
    fetched["captured"] = fetched["captured"] | {"digest": [{"where": "t-0", "error": 0, field: 2}]}
    for found, holds in ((0, False), (1, True)):
        digest = [{"where": "t-0", "error": 0, field: found}]
        fetched["answers"] = [{"version": 2, "bytes": 9, "body": None, "digest": digest}]
        assert {each["check"]: each["holds"] for each in compare(run(1), [fetched])["checks"]}[check] is holds
    assert check not in {each["check"] for each in compare(run(1), [pair(0)])["checks"]}
