"""The first occurrence of errors, faults, requests without a response, throttling, and the slowest call."""

from kdissect.report.aggregate.partial_tables import FIRST_SEEN
from tests.helpers import paper_capture
from tests.helpers.paper_capture import MS, T
from tests.helpers.report_rows import FETCH, PRODUCE, exchange_of, failing, many, rows_of, unanswered

MOVED = {"error_code": 6, "error_name": "NOT_LEADER_OR_FOLLOWER"}


def of_kind(kind, exchanges, partitions=()):
    return [row for row in rows_of(FIRST_SEEN, exchanges, partitions) if row["kind"] == kind]


def test_the_earliest_response_is_the_place_of_an_error():
    (row,) = of_kind("error", failing(1, PRODUCE, 58, [30, 10, 20]))
    assert (row["code"], row["exchanges"], row["partitions"]) == (58, 3, 0)
    assert (row["time_ns"], row["ordinal"]) == (T + 11 * MS, 1)


def test_an_error_of_partitions_counts_its_exchange_once():
    exchanges = [exchange_of(1, 0, PRODUCE, 0, error_count=2, **MOVED)]
    partitions = [
        paper_capture.partition(1, 0, 0, number, None, topic="orders", **MOVED) for number in (4, 7)
    ]
    (row,) = of_kind("error", exchanges, partitions)
    assert (row["code"], row["name"], row["exchanges"], row["partitions"]) == (6, MOVED["error_name"], 1, 2)
    assert (row["topic"], row["partition"]) == ("orders", 4)


def test_an_error_at_the_top_that_no_partition_repeats_counts_beside_them():
    exchanges = [exchange_of(1, 0, PRODUCE, 0, error_code=29, error_name="TOPIC_AUTHORIZATION_FAILED")]
    partitions = [paper_capture.partition(1, 0, 0, 4, None, topic="orders", **MOVED)]
    rows = of_kind("error", exchanges, partitions)
    assert sorted((row["code"], row["exchanges"], row["partitions"]) for row in rows) == [
        (6, 1, 1),
        (29, 1, 0),
    ]


def test_partitions_without_their_exchange_have_no_place_and_come_last():
    rows = [paper_capture.partition(1, at, 0, at, None, topic="orders", **MOVED) for at in (0, 90)]
    (row,) = of_kind("error", [exchange_of(1, 0, PRODUCE, 0)], rows)
    assert (row["exchanges"], row["partitions"], row["partition"]) == (1, 2, 0)
    (row,) = of_kind("error", [exchange_of(1, 0, PRODUCE, 0)], rows[1:])
    assert (row["exchanges"], row["partitions"], row["time_ns"], row["topic"]) == (0, 1, None, "orders")


def test_faults_of_one_shape_are_one_row_with_the_first_as_its_example():
    faults = ["topics[3]: length 70 of 12", "topics[4]: length 9 of 1", "topics[4]: varint"]
    rows = of_kind("fault", [exchange_of(1, at, FETCH, at, fault=fault) for at, fault in enumerate(faults)])
    assert {(row["name"], row["detail"], row["exchanges"]) for row in rows} == {
        ("topics[#]: length # of #", faults[0], 2),
        ("topics[#]: varint", faults[2], 1),
    }


def test_unanswered_orphan_and_throttled_are_by_api_version():
    orphan = {"api_key": None, "api_name": None, "api_version": None, "status": "orphan_response"}
    calls = [
        *unanswered(PRODUCE, 5),
        exchange_of(1, 1, PRODUCE, 9, throttle_ms=7),
        exchange_of(2, 0, FETCH, 20, **orphan),
    ]
    assert [(row["api_key"], row["time_ns"]) for row in of_kind("unanswered", calls)] == [(0, T + 5 * MS)]
    assert [(row["api_version"], row["time_ns"]) for row in of_kind("throttled", calls)] == [(9, T + 10 * MS)]
    assert [(row["api_key"], row["connection"]) for row in of_kind("orphan", calls)] == [(None, 2)]


def test_the_slowest_call_is_none_that_waits_by_design_or_cannot_be():
    calls = [
        *many(3, FETCH, 1, MS),
        exchange_of(1, 10, FETCH, 50, 9 * MS),
        exchange_of(1, 11, FETCH, 60, 500 * MS, idle_wait=True),
        exchange_of(1, 12, FETCH, 70, -5),
    ]
    (row,) = of_kind("slowest", calls)
    assert (row["ordinal"], row["order_ns"], row["time_ns"]) == (10, -9 * MS, T + 50 * MS)


def test_ties_are_broken_by_the_other_columns_of_the_location():
    calls = [exchange_of(number, 0, PRODUCE, 0, error_code=58) for number in (2, 1)]
    assert of_kind("error", calls) == of_kind("error", calls[::-1])
    (row,) = of_kind("error", calls)
    assert (row["connection"], row["exchanges"]) == (1, 2)
