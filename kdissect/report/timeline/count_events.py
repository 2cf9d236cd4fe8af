"""Events of groups and of transactions as rows that add up: the tables of both with the client's host."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from kdissect.report.aggregate.column_rows import AnyColumn
from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.aggregate.partial_tables import PartialTable
from kdissect.report.timeline.exchange_columns import connection_rows, make_timeline_table
from kdissect.report.timeline.timeline_tables import GROUP_STEPS, TRANSACTION_STEPS

EVENTS = {"group_events": GROUP_STEPS, "transaction_events": TRANSACTION_STEPS}
"""The tables of events that are counted, by the name of the table that they come from."""


def count_events(tables: Mapping[str, pa.RecordBatch | pa.Table], ends: TableColumns) -> dict[str, pa.Table]:
    """Return the rows of GROUP_STEPS and TRANSACTION_STEPS, as far as their tables are there."""
    return {
        part.name: _events(part, TableColumns(tables[name]), ends)
        for name, part in EVENTS.items()
        if name in tables
    }


def _events(part: PartialTable, events: TableColumns, ends: TableColumns) -> pa.Table:
    counts = connection_rows(ends, events.ints("connection"))
    columns: dict[str, AnyColumn] = {name: events.column(name) for name in events.table.schema.names}
    columns["client_host"] = ends.text("client_host").take(counts)
    return make_timeline_table(part, columns | {"events": np.ones(events.rows, np.int64)})
