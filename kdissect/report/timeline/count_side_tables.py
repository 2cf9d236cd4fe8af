"""Tables that are counted without exchanges: events of groups and of transactions, and what replicas told.

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
from kdissect.report.timeline.exchange_columns import connection_rows, make_timeline_table
from kdissect.report.timeline.signal_tables import REPLICA_STATES
from kdissect.report.timeline.timeline_tables import GROUP_STEPS, TRANSACTION_STEPS
from kdissect.tables.schemas import ENDS

EVENTS = {"group_events": GROUP_STEPS, "transaction_events": TRANSACTION_STEPS}
"""The tables of events that are counted, by the name of the table that they come from."""


def count_events(tables: Mapping[str, pa.RecordBatch | pa.Table]) -> dict[str, pa.Table]:
    """Return the rows of GROUP_STEPS and TRANSACTION_STEPS, as far as their tables have rows.

    The client's host is that of `ends`.
    """
    found = {name: part for name, part in EVENTS.items() if name in tables and tables[name].num_rows}
    ends = TableColumns(tables.get("ends", ENDS.empty_table()))
    return {part.name: _events(part, TableColumns(tables[name]), ends) for name, part in found.items()}


def _events(part: PartialTable, events: TableColumns, ends: TableColumns) -> pa.Table:
    counts = connection_rows(ends, events.ints("connection"))
    columns: dict[str, AnyColumn] = {name: events.column(name) for name in events.table.schema.names}
    columns["client_host"] = ends.text("client_host").take(counts)
    columns["events"] = np.ones(events.rows, np.int64)
    return limit_rows(part, make_timeline_table(part, columns))


def count_replica_states(tables: Mapping[str, pa.RecordBatch | pa.Table]) -> dict[str, pa.Table]:
    """Return the rows of REPLICA_STATES, if there are `replica_sets`."""
    if "replica_sets" not in tables or not tables["replica_sets"].num_rows:
        return {}
    told = TableColumns(tables["replica_sets"])
    columns: dict[str, AnyColumn] = {name: told.column(name) for name in told.table.schema.names}
    columns["order_ns"] = told.column("first_ns")
    return {REPLICA_STATES.name: limit_rows(REPLICA_STATES, make_timeline_table(REPLICA_STATES, columns))}
