"""Exchanges with the columns that the timeline counts by: step of time, both hosts, location."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa

from kdissect.array_types import Int64s
from kdissect.report.aggregate.calls import class_columns, exchange_classes
from kdissect.report.aggregate.column_rows import AnyColumn, ColumnRows, PlainColumn, columns_at
from kdissect.report.aggregate.grouping import TableColumns, find_rows
from kdissect.report.aggregate.partial_rows import roll_up_columns
from kdissect.report.aggregate.partial_tables import PartialTable
from kdissect.report.aggregate.partition_classes import PLACE, partition_classes
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.timeline_tables import WHERE
from kdissect.tables.array_batch import ArrayBatch
from kdissect.tables.coded_text import NumberColumn
from kdissect.tables.schemas import ENDS

HOSTS = ("client_host", "server_host")
OF_EXCHANGE = ("transactional_id", *(name for name, _ in WHERE if name != "connection"))
OF_CLASS = ("connection", "client_id", "api_key", "idle_wait", "group_id")
"""Columns that are taken from the class of an exchange, like those of its hosts."""


class ExchangeColumns(NamedTuple):
    """Columns by name, one row for each exchange; `begin`: time of the request, or of an orphan response."""

    exchanges: TableColumns
    columns: Mapping[str, AnyColumn]
    begin: Int64s

    def at(self, rows: Int64s, names: tuple[str, ...]) -> dict[str, AnyColumn]:
        """Return some columns at some rows."""
        return columns_at({name: self.columns[name] for name in names}, rows)


def connection_ends(tables: Mapping[str, pa.RecordBatch | pa.Table | ArrayBatch]) -> TableColumns:
    """Return the ends of connections among tables, none if they are not there."""
    return TableColumns(tables["ends"] if "ends" in tables else ENDS.empty_table())


def exchange_columns(exchanges: TableColumns, ends: TableColumns, grid: Grid) -> ExchangeColumns:
    """Return exchanges together with the ends of their connections."""
    begin = exchanges.coalesce("request_first_ns", "response_first_ns")
    columns: dict[str, AnyColumn] = {name: exchanges.column(name) for name in OF_EXCHANGE}
    classes, few = exchange_classes(exchanges), class_columns(exchanges)
    of_class: dict[str, PlainColumn] = {name: few[name] for name in OF_CLASS}
    rows = connection_rows(ends, exchanges.ints("connection")[classes.first])
    of_class |= {name: ends.text(name).take(rows) for name in HOSTS}
    port = ends.column("server_port")
    assert isinstance(port, NumberColumn)
    of_class["server_port"] = port.take(rows)
    columns |= {name: ColumnRows(column, classes.of) for name, column in of_class.items()}
    return ExchangeColumns(exchanges, columns | {"step": grid.steps_of(begin), "order_ns": begin}, begin)


def partition_columns(
    source: ExchangeColumns,
    partitions: TableColumns,
    exchange_rows: Int64s,
    rows: Int64s,
    names: Iterable[str],
) -> dict[str, AnyColumn]:
    """Return topic and partition at some rows of partitions that have an exchange, and columns of those."""
    classes = partition_classes(partitions, source.exchanges, exchange_rows)
    of, exchange = classes.groups.of.take(rows), exchange_rows[rows]
    columns: dict[str, AnyColumn] = {name: ColumnRows(classes.columns[name], of) for name in PLACE}
    for name in names:
        column = source.columns[name]
        if isinstance(column, ColumnRows):  # it has a row for each class of exchanges
            columns[name] = ColumnRows(classes.of_exchanges(column.column), of)
        else:
            columns[name] = ColumnRows(column, exchange)
    return columns


def connection_rows(ends: TableColumns, connection: Int64s) -> Int64s:
    """Return the first row of each connection among `ends`, -1 where there is none."""
    return find_rows(ends.ints("connection"), connection)


def make_timeline_table(part: PartialTable, columns: Mapping[str, AnyColumn]) -> ArrayBatch:
    """Return a table of the timeline from one row for each thing counted; missing columns are null."""
    count = len(next(iter(columns.values())))
    return roll_up_columns(part, columns, count)
