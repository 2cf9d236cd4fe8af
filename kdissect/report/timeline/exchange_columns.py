"""Exchanges with what the course of events tells them apart by: step of time, both ends, place. One row per exchange."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.report.aggregate.grouping import TableColumns, nullable_ints
from kdissect.report.aggregate.histogram import Ints
from kdissect.report.aggregate.partial_tables import (
    AnyColumn,
    PartialTable,
    roll_up,
    take_rows,
)
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.timeline_tables import WHERE

OF_CONNECTION = ("client_host", "server_host", "server_port")
OF_EXCHANGE = ("connection", "client_id", "api_key", "idle_wait", "group_id", "transactional_id", *(name for name, _ in WHERE))  # fmt: skip


class ExchangeColumns(NamedTuple):
    """Columns by name, all of one row per exchange; `begin` is when it was asked (or answered, without a request)."""

    exchanges: TableColumns
    columns: Mapping[str, AnyColumn]
    begin: Ints

    def at(self, rows: Ints, names: tuple[str, ...]) -> dict[str, AnyColumn]:
        """Give some columns at some rows."""
        return {name: take_rows(self.columns[name], rows) for name in names}


def exchange_columns(exchanges: TableColumns, ends: TableColumns, grid: Grid) -> ExchangeColumns:
    """Put exchanges and the ends of their connections together."""
    begin = exchanges.either("request_first_ns", "response_first_ns")
    columns: dict[str, AnyColumn] = {name: exchanges.plain(name) for name in OF_EXCHANGE}
    found = connection_rows(ends, exchanges.ints("connection"))
    columns |= {name: ends.plain(name).take(nullable_ints(found, found >= 0)) for name in OF_CONNECTION}
    columns["idle_wait"] = exchanges.truths("idle_wait")
    return ExchangeColumns(exchanges, columns | {"step": grid.steps_of(begin), "order_ns": begin}, begin)


def connection_rows(ends: TableColumns, connection: Ints) -> Ints:
    """Give the row of each connection among the ends, -1 where there is none."""
    numbers = ends.ints("connection")
    if not len(numbers):
        return np.full(len(connection), -1, np.int64)
    order = np.argsort(numbers, kind="stable")
    at = np.minimum(np.searchsorted(numbers[order], connection), len(numbers) - 1)
    return np.where(numbers[order[at]] == connection, order[at], -1)


def make_timeline_table(part: PartialTable, columns: Mapping[str, AnyColumn]) -> pa.Table:
    """Give a part from one row per thing that is counted; columns that are missing are null."""
    count = len(next(iter(columns.values())))
    rows = {
        field.name: columns[field.name] if field.name in columns else pa.nulls(count, field.type)
        for field in part.schema
    }
    return roll_up(part, pa.table(rows).cast(part.schema))
