"""Exchanges with their step of time and the ends of their connections."""

import numpy as np
import pyarrow as pa
import pytest

from kdissect.report.aggregate.column_rows import plain_column
from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.aggregate.topics import rows_of_exchanges
from kdissect.report.timeline.exchange_columns import (
    connection_rows,
    exchange_columns,
    make_timeline_table,
    partition_columns,
)
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.timeline_tables import FAILURES
from kdissect.tables.schemas import ENDS
from tests.helpers.paper_capture import MS, T
from tests.helpers.report_rows import PRODUCE, exchange_of, tables


def ends_of(*numbers):
    return TableColumns(pa.table({"connection": pa.array(numbers, pa.int64())}))


def test_connections_are_found_in_any_order():
    rows = connection_rows(ends_of(9, 2, 5), np.array([5, 9, 2, 5, 3, 99]))
    assert rows.tolist() == [2, 0, 1, 2, -1, -1]
    assert connection_rows(ends_of(), np.array([1, 2])).tolist() == [-1, -1]
    assert connection_rows(ends_of(7), np.array([], np.int64)).tolist() == []


@pytest.mark.parametrize("bound", [10, 1 << 52])
def test_of_several_ends_the_first_row_counts(bound):
    random = np.random.default_rng(3)
    numbers, wanted = random.integers(0, bound, 50), random.integers(0, bound, 50)
    numbers[30:], wanted[:20] = numbers[:20], numbers[:20]
    known = numbers.tolist()
    expected = [known.index(number) if number in known else -1 for number in wanted.tolist()]
    assert connection_rows(ends_of(*known), wanted).tolist() == expected


def test_an_exchange_has_its_step_and_the_ends_of_its_connection():
    both = tables(
        [exchange_of(1, 0, PRODUCE, 0), exchange_of(2, 0, PRODUCE, 25), exchange_of(7, 0, PRODUCE, 900)]
    )
    ends = TableColumns(both["connections"].select(ENDS.names))
    source = exchange_columns(TableColumns(both["exchanges"]), ends, Grid(T, 10 * MS, 5))
    assert source.begin.tolist() == [T, T + 25 * MS, T + 900 * MS]
    assert source.columns["step"].tolist() == [0, 2, 4]  # what comes later counts in the last step
    assert plain_column(source.columns["client_host"]).arrow().to_pylist() == ["10.1.0.1", "10.1.0.2", None]
    taken = {
        name: plain_column(column)
        for name, column in source.at(np.array([2, 0]), ("connection", "step")).items()
    }
    assert (taken["connection"].arrow().to_pylist(), taken["step"].tolist()) == ([7, 1], [4, 0])


def test_missing_columns_are_null_and_equal_rows_become_one():
    columns = {"step": np.array([1, 1, 2]), "code": np.array([6, 6, 6]), "exchanges": np.ones(3, np.int64)}
    rows = make_timeline_table(FAILURES, columns).to_pylist()
    assert sorted((row["step"], row["code"], row["exchanges"], row["client_id"]) for row in rows) == [
        (1, 6, 2, None),
        (2, 6, 1, None),
    ]


def test_partitions_come_with_columns_of_their_exchanges():
    both = tables(
        [exchange_of(1, 0, PRODUCE, 0), exchange_of(2, 0, PRODUCE, 25)],
        [{"connection": number, "ordinal": 0, "topic": f"t{number}"} for number in (2, 1, 2)],
    )
    source = exchange_columns(
        TableColumns(both["exchanges"]),
        TableColumns(both["connections"].select(ENDS.names)),
        Grid(T, 10 * MS, 5),
    )
    partitions = TableColumns(both["partitions"])
    at = rows_of_exchanges(partitions, source.exchanges)
    columns = partition_columns(source, partitions, at, np.array([2, 0]), ("client_host", "step"))
    taken = {name: plain_column(column) for name, column in columns.items()}
    assert taken["topic"].arrow().to_pylist() == ["t2", "t2"]
    assert taken["client_host"].arrow().to_pylist() == ["10.1.0.2", "10.1.0.2"]
    assert taken["step"].tolist() == [2, 2]
