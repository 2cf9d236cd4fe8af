"""Counts, bytes and latencies of calls, by connection, client, API, status and wait."""

import numpy as np
import pytest

from kdissect.report.aggregate.calls import KIND, class_columns, exchange_classes, group_classes
from kdissect.report.aggregate.column_rows import ColumnRows, plain_column
from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.aggregate.histogram import bucket_of
from kdissect.report.aggregate.partial_tables import CALLS, LATENCIES
from kdissect.report.aggregate.sound_latency import MAX_LATENCY_NS
from kdissect.tables.coded_text import CodedText, NumberColumn
from tests.helpers import synthetic_tables as synthetic
from tests.helpers.paper_capture import MS, T
from tests.helpers.report_rows import FETCH, PRODUCE, exchange_of, many, rows_of, unanswered


def test_exchanges_that_agree_in_all_keys_are_one_row():
    (row,) = rows_of(CALLS, many(3, PRODUCE, 10, 2 * MS, error_code=6, error_count=2))
    assert (row["api_key"], row["api_version"], row["status"], row["idle_wait"]) == (0, 9, "answered", False)
    assert (row["exchanges"], row["error_responses"], row["errors"]) == (3, 3, 6)
    assert (row["timed"], row["latency_ns"], row["latency_min_ns"], row["latency_max_ns"]) == (
        3,
        6 * MS,
        2 * MS,
        2 * MS,
    )
    assert (row["first_ns"], row["last_ns"]) == (T, T + 22 * MS + 10_000)


@pytest.mark.parametrize(
    "change",
    [
        {"connection": 2},
        {"client_id": "other"},
        {"api_version": 8},
        {"group_id": "readers"},
        {"idle_wait": True},
        {"status": "no_response_expected"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_any_key_keeps_rows_apart(change):
    rows = rows_of(CALLS, [exchange_of(1, 0, PRODUCE, 0), exchange_of(1, 1, PRODUCE, 1) | change])
    assert [row["exchanges"] for row in rows] == [1, 1]


def test_the_status_does_not_divide_latencies():
    answered, other = exchange_of(1, 0, PRODUCE, 0), exchange_of(1, 1, PRODUCE, 1, status="orphan_response")
    (row,) = rows_of(LATENCIES, [answered, other])
    assert row["count"] == 2


@pytest.mark.parametrize("latency", [-1, MAX_LATENCY_NS])
def test_a_latency_that_cannot_be_counts_as_untimed_only(latency):
    (row,) = rows_of(CALLS, [exchange_of(1, 0, PRODUCE, 0, latency)])
    assert (row["exchanges"], row["timed"], row["untimed"], row["latency_ns"]) == (1, 0, 1, 0)
    assert (row["latency_min_ns"], row["latency_max_ns"]) == (None, None)
    assert rows_of(LATENCIES, [exchange_of(1, 0, PRODUCE, 0, latency)]) == []


def test_a_request_without_a_response_has_no_time_to_its_end():
    (row,) = rows_of(CALLS, unanswered(PRODUCE, 5))
    assert (row["status"], row["timed"], row["untimed"]) == ("unanswered", 0, 0)
    assert (row["first_ns"], row["last_ns"]) == (T + 5 * MS, T + 5 * MS)
    assert (row["transfer_ns"], row["transfer_max_ns"]) == (0, None)


def test_latencies_are_counted_by_bucket():
    rows = rows_of(LATENCIES, [*many(2, FETCH, 1, MS), exchange_of(1, 5, FETCH, 9, 900 * MS)])
    assert [(row["bucket"], row["count"]) for row in rows] == [
        (int(bucket_of(np.array([ns]))[0]), count) for ns, count in ((MS, 2), (900 * MS, 1))
    ]


def test_acks_throttling_and_pipelining_are_counted():
    calls = [
        exchange_of(1, 0, PRODUCE, 0, acks=0),
        exchange_of(1, 1, PRODUCE, 1, acks=1, throttle_ms=40, in_flight=3),
        exchange_of(1, 2, PRODUCE, 2, acks=-1, throttle_ms=-5),
    ]
    (row,) = rows_of(CALLS, calls)
    assert (row["acks_none"], row["acks_leader"], row["acks_all"]) == (1, 1, 1)
    assert (row["throttled"], row["throttle_ms"], row["throttle_max_ms"]) == (1, 40, 40)
    assert (row["pipelined"], row["in_flight_max"]) == (1, 3)


@pytest.mark.parametrize("rows", [0, 1, 300, 6000])
def test_classes_and_what_is_grouped_from_them_are_those_of_all_exchanges(rows: int) -> None:
    exchanges = TableColumns(synthetic.tables(np.random.default_rng(rows), rows)["exchanges"])
    columns = class_columns(exchanges)
    plain = {name: exchanges.table[name].to_pylist() for name in columns}
    plain["idle_wait"] = list(map(bool, plain["idle_wait"]))
    for names in ((*KIND, "status"), KIND, KIND[:2], ("api_key", "status")):
        groups = group_classes(exchanges, names)
        whole = [plain[name] for name in names]
        number_of: dict[tuple[object, ...], int] = {}
        expected = [number_of.setdefault(key, len(number_of)) for key in zip(*whole, strict=True)]
        assert groups.of.tolist() == expected
        assert groups.first.tolist() == [expected.index(number) for number in range(len(number_of))]
    for name, column in columns.items():
        again = plain_column(ColumnRows(column, exchange_classes(exchanges).of))
        texts = again.arrow() if isinstance(again, CodedText | NumberColumn) else again
        assert texts.tolist() == plain[name], name
