"""Tables that are counted without exchanges: events of groups and transactions, replicas, and what is rare.

Their rows are few. Batches of them are gathered before they are counted, since each costs milliseconds of
calls, however few its rows are.
"""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from kdissect.report.aggregate.column_rows import AnyColumn
from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.aggregate.partial_tables import PartialTable
from kdissect.report.aggregate.row_limits import limit_rows
from kdissect.report.timeline.exchange_columns import connection_ends, connection_rows, make_timeline_table
from kdissect.report.timeline.signal_tables import REPLICA_STATES, SHARES, SHUTDOWNS, VOTERS
from kdissect.report.timeline.timeline_tables import GROUP_STEPS, TRANSACTION_STEPS
from kdissect.tables.array_batch import ArrayBatch

Tables: TypeAlias = Mapping[str, pa.RecordBatch | pa.Table]
Columns: TypeAlias = dict[str, AnyColumn]

EVENTS = {"group_events": GROUP_STEPS, "transaction_events": TRANSACTION_STEPS}
"""The tables of events that are counted, by the name of the table that they come from."""

WITH_ENDS = (*EVENTS, "share_acknowledgements")
"""Tables whose rows get the host of their client from `ends`."""

SECOND = 10**9


def count_events(tables: Tables) -> dict[str, ArrayBatch]:
    """Return the rows of GROUP_STEPS and TRANSACTION_STEPS, as far as their tables have rows.

    The client's host is that of `ends`.
    """
    found = {name: part for name, part in EVENTS.items() if name in tables and tables[name].num_rows}
    if not found:
        return {}
    ends = connection_ends(tables)
    return {part.name: _events(part, TableColumns(tables[name]), ends) for name, part in found.items()}


def _events(part: PartialTable, events: TableColumns, ends: TableColumns) -> ArrayBatch:
    counts = connection_rows(ends, events.ints("connection"))
    columns: Columns = {name: events.column(name) for name in events.table.schema.names}
    columns["client_host"] = ends.text("client_host").take(counts)
    columns["events"] = np.ones(events.rows, np.int64)
    return limit_rows(part, make_timeline_table(part, columns))


def count_side_tables(tables: Tables) -> dict[str, ArrayBatch]:
    """Return the rows of the tables of signals whose sources are there, and have rows."""
    found = {}
    for source, (part, columns_of) in SIDE_SOURCES.items():
        if source in tables and tables[source].num_rows:
            told = TableColumns(tables[source])
            columns = {"messages": np.ones(told.rows, np.int64)} | columns_of(told, tables)
            found[part.name] = limit_rows(part, make_timeline_table(part, columns))
    return found


def _replica_states(told: TableColumns, _tables: Tables) -> Columns:
    columns: Columns = {name: told.column(name) for name in told.table.schema.names}
    return columns | {"order_ns": told.column("first_ns")}


def _shares(told: TableColumns, tables: Tables) -> Columns:
    ends = connection_ends(tables)
    columns: Columns = {name: told.column(name) for name in told.table.schema.names}
    columns["client_host"] = ends.text("client_host").take(connection_rows(ends, told.ints("connection")))
    columns["second"] = told.ints("time_ns") // SECOND
    return columns | {name: told.column("time_ns") for name in ("first_ns", "last_ns", "order_ns")}


def _shutdowns(told: TableColumns, _tables: Tables) -> Columns:
    columns: Columns = {name: told.column("time_ns") for name in ("first_ns", "last_ns")}
    return columns | {"node_id": told.column("node_id"), "second": told.ints("time_ns") // SECOND}


def _voters(told: TableColumns, _tables: Tables) -> Columns:
    return {name: told.column(name) for name in ("node_id", "connection")}


SIDE_SOURCES = {
    "replica_sets": (REPLICA_STATES, _replica_states),
    "share_acknowledgements": (SHARES, _shares),
    "shutdown_requests": (SHUTDOWNS, _shutdowns),
    "addressed_voters": (VOTERS, _voters),
}
"""Tables on request, the table of signals that each is counted in, and what makes its columns."""
