"""Tables that are counted without exchanges: events of groups and transactions, replicas, and what is rare.

Their rows are few. Batches of them are gathered before they are counted, since each costs milliseconds of
calls, however few its rows are.
"""

from collections.abc import Mapping

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

EVENTS = {"group_events": GROUP_STEPS, "transaction_events": TRANSACTION_STEPS}
"""The tables of events that are counted, by the name of the table that they come from."""

WITH_ENDS = (*EVENTS, "share_acknowledgements")
"""Tables whose rows get the host of their client from `ends`."""

SECOND = 10**9


def count_events(tables: Mapping[str, pa.RecordBatch | pa.Table]) -> dict[str, ArrayBatch]:
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
    columns: dict[str, AnyColumn] = {name: events.column(name) for name in events.table.schema.names}
    columns["client_host"] = ends.text("client_host").take(counts)
    columns["events"] = np.ones(events.rows, np.int64)
    return limit_rows(part, make_timeline_table(part, columns))


def count_replica_states(tables: Mapping[str, pa.RecordBatch | pa.Table]) -> dict[str, ArrayBatch]:
    """Return the rows of REPLICA_STATES, if there are `replica_sets`."""
    if "replica_sets" not in tables or not tables["replica_sets"].num_rows:
        return {}
    told = TableColumns(tables["replica_sets"])
    columns: dict[str, AnyColumn] = {name: told.column(name) for name in told.table.schema.names}
    columns["order_ns"] = told.column("first_ns")
    return {REPLICA_STATES.name: limit_rows(REPLICA_STATES, make_timeline_table(REPLICA_STATES, columns))}


def count_shares(tables: Mapping[str, pa.RecordBatch | pa.Table]) -> dict[str, ArrayBatch]:
    """Return the rows of SHARES, if there are `share_acknowledgements`."""
    if "share_acknowledgements" not in tables or not tables["share_acknowledgements"].num_rows:
        return {}
    told = TableColumns(tables["share_acknowledgements"])
    ends = connection_ends(tables)
    columns: dict[str, AnyColumn] = {name: told.column(name) for name in told.table.schema.names}
    columns["client_host"] = ends.text("client_host").take(connection_rows(ends, told.ints("connection")))
    columns["second"] = told.ints("time_ns") // SECOND
    columns |= {name: told.column("time_ns") for name in ("first_ns", "last_ns", "order_ns")}
    columns["messages"] = np.ones(told.rows, np.int64)
    return {SHARES.name: limit_rows(SHARES, make_timeline_table(SHARES, columns))}


def count_shutdowns(tables: Mapping[str, pa.RecordBatch | pa.Table]) -> dict[str, ArrayBatch]:
    """Return the rows of SHUTDOWNS, if there are `shutdown_requests`."""
    if "shutdown_requests" not in tables or not tables["shutdown_requests"].num_rows:
        return {}
    asked = TableColumns(tables["shutdown_requests"])
    columns: dict[str, AnyColumn] = {name: asked.column("time_ns") for name in ("first_ns", "last_ns")}
    columns |= {"node_id": asked.column("node_id"), "second": asked.ints("time_ns") // SECOND}
    columns["messages"] = np.ones(asked.rows, np.int64)
    return {SHUTDOWNS.name: limit_rows(SHUTDOWNS, make_timeline_table(SHUTDOWNS, columns))}


def count_voters(tables: Mapping[str, pa.RecordBatch | pa.Table]) -> dict[str, ArrayBatch]:
    """Return the rows of VOTERS, if there are `addressed_voters`."""
    if "addressed_voters" not in tables or not tables["addressed_voters"].num_rows:
        return {}
    called = TableColumns(tables["addressed_voters"])
    columns: dict[str, AnyColumn] = {name: called.column(name) for name in ("node_id", "connection")}
    columns["messages"] = np.ones(called.rows, np.int64)
    return {VOTERS.name: limit_rows(VOTERS, make_timeline_table(VOTERS, columns))}


def count_side_tables(tables: Mapping[str, pa.RecordBatch | pa.Table]) -> dict[str, ArrayBatch]:
    """Return the rows of all tables of signals that are counted from tables on request alone."""
    counts = (count_replica_states, count_shares, count_shutdowns, count_voters)
    return {name: rows for count in counts for name, rows in count(tables).items()}
