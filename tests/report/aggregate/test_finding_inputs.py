"""Exchanges that findings rest on: which are chosen, by what they are counted, and their first packets."""

import pytest

from kdissect.report.aggregate.finding_inputs import AT_ONCE_NS, BEHIND_NS
from kdissect.report.aggregate.partial_tables import FINDING_INPUTS
from tests.helpers.paper_capture import MS, T, partition
from tests.helpers.report_rows import (
    ADD_PARTITIONS,
    END_TXN,
    FETCH,
    HEARTBEAT,
    JOIN,
    METADATA,
    PRODUCE,
    VOTE,
    exchange_of,
    failing,
    many,
    rows_of,
    unanswered,
)


def chosen(exchanges, partitions=()):
    """Return the kinds with their counts."""
    counts = {}
    for row in rows_of(FINDING_INPUTS, exchanges, partitions):
        counts[row["kind"]] = counts.get(row["kind"], 0) + row["exchanges"]
    return counts


@pytest.mark.parametrize(
    ("exchanges", "kinds"),
    [
        (many(3, PRODUCE, 1), {}),
        (failing(1, HEARTBEAT, 25, [0, 1]), {"error": 2}),
        (unanswered(PRODUCE, 0), {"unanswered": 1}),
        (many(2, PRODUCE, 1, throttle_ms=3), {"throttled": 2}),
        (many(2, (0, "Produce", 2), 1), {"refused_version": 2}),
        (many(1, PRODUCE, 1, acks=0), {"acks_none": 1}),
        (many(1, PRODUCE, 1, acks=1), {"acks_leader": 1}),
        (many(4, METADATA, 1), {"metadata": 4}),
        (many(2, JOIN, 1, group_id="g"), {"group": 2}),
        (many(2, VOTE, 1), {"election": 2}),
        (many(1, ADD_PARTITIONS, 1, transactional_id="t"), {"transaction_work": 1}),
        (many(1, END_TXN, 1, transactional_id="t"), {"transaction_end": 1}),
        (many(1, PRODUCE, 1, BEHIND_NS, in_flight=2), {"behind": 1}),
        (many(1, PRODUCE, 1, BEHIND_NS - 1, in_flight=2), {}),
        (many(1, PRODUCE, 1, BEHIND_NS, in_flight=1), {}),
        (many(1, FETCH, 1, AT_ONCE_NS - 1), {"empty_fetch": 1}),
        (many(1, FETCH, 1, AT_ONCE_NS), {}),
    ],
)
def test_which_exchanges_are_chosen(exchanges, kinds):
    assert chosen(exchanges) == kinds


def test_a_fetch_with_data_or_an_error_is_not_empty():
    full, failed = partition(1, 0, 1, 0, 5, topic="t"), partition(1, 0, 1, 0, None, topic="t", error_code=6)
    assert "empty_fetch" not in chosen(many(1, FETCH, 1), [full])
    assert chosen(many(1, FETCH, 1), [failed]) == {"error": 1}


def test_an_error_that_partitions_repeat_is_counted_with_them():
    rows = rows_of(
        FINDING_INPUTS,
        failing(1, PRODUCE, 6, [0]),
        [partition(1, 0, 0, at, None, topic="t", error_code=6) for at in (0, 1)],
    )
    assert [(row["code"], row["topic"], row["partition"], row["exchanges"]) for row in rows] == [
        (6, "t", 0, 1),
        (6, "t", 1, 1),
    ]


def test_errors_of_two_spells_are_two_rows_and_those_of_one_are_one():
    rows = rows_of(FINDING_INPUTS, failing(1, HEARTBEAT, 25, [0, 900, 20_000]))
    assert [(row["exchanges"], row["first_ns"]) for row in rows] == [(2, T + MS), (1, T + 20_001 * MS)]
    assert rows[0]["last_ns"] == T + 901 * MS
    assert rows[0]["request_packet"] == 10


def test_throttle_times_are_added_up_and_the_longest_is_kept():
    calls = [exchange_of(1, at, PRODUCE, at, throttle_ms=time) for at, time in enumerate((30, 50))]
    (row,) = rows_of(FINDING_INPUTS, calls)
    assert (row["kind"], row["amount"], row["most"]) == ("throttled", 80, 50)


def test_kafka_0_7_has_no_versions_to_be_refused():
    assert chosen(many(1, (0, "Produce", 9), 1, api_version=None)) == {}


def test_a_failed_transaction_request_is_no_work():
    assert chosen(many(1, ADD_PARTITIONS, 1, transactional_id="t", error_code=51)) == {"error": 1}
