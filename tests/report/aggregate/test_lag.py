"""How far consumers are behind at their first and last fetch of a partition, and at most."""

import pytest

from kdissect.report.aggregate.partial_tables import LAGS
from tests.helpers.paper_capture import MS, T, partition
from tests.helpers.report_rows import FETCH, exchange_of, many, rows_of


def fetches(*lags, number=0, **more):
    rows = [
        partition(1, at, 1, number, None, topic="orders", offset=100, high_watermark=100 + lag) | more
        for at, lag in enumerate(lags)
    ]
    return many(len(lags), FETCH, 10), rows


def test_first_last_and_most():
    first, last = rows_of(LAGS, *fetches(5, 90, 40))
    assert [first["edge"], first["lag"], first["most"], first["exchanges"]] == ["first", 5, 90, 3]
    assert [last["edge"], last["lag"], last["most"], last["exchanges"]] == ["last", 40, 90, 3]
    assert (first["order_ns"], last["order_ns"]) == (T + MS, -(T + 21 * MS))
    assert (first["request_packet"], last["request_packet"]) == (10, 14)


def test_each_partition_has_two_rows_however_many_fetches():
    exchanges, rows = fetches(*range(50))
    more = [row | {"partition": 1} for row in rows]
    found = rows_of(LAGS, exchanges, rows + more)
    assert sorted((row["partition"], row["edge"]) for row in found) == [
        (0, "first"),
        (0, "last"),
        (1, "first"),
        (1, "last"),
    ]


def test_a_consumer_is_never_ahead_of_the_log():
    first, last = rows_of(LAGS, *fetches(-3, -9))
    assert (first["lag"], last["lag"], last["most"]) == (0, 0, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"high_watermark": -1},
        {"offset": -1},
        {"offset": None},
        {"error_code": 6},
        {"api_key": 8},
        {"partition": None},
    ],
    ids=lambda change: next(iter(change)),
)
def test_rows_that_tell_no_lag_are_left_out(change):
    assert rows_of(LAGS, *fetches(5, 9, **change)) == []


def test_a_row_without_its_exchange_is_left_out():
    assert rows_of(LAGS, [exchange_of(2, 0, FETCH, 0)], fetches(5)[1]) == []
