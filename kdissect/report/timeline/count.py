"""All tables of the timeline from batches of the public tables: who did what in which step of time."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.aggregate.histogram import Ints
from kdissect.report.aggregate.row_limits import limit_rows
from kdissect.report.timeline.activity import count_activity, count_failures
from kdissect.report.timeline.count_events import EVENTS, count_events
from kdissect.report.timeline.count_examples import count_examples
from kdissect.report.timeline.exchange_columns import (
    ExchangeColumns,
    exchange_columns,
    make_timeline_table,
)
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.positions import find_positions
from kdissect.report.timeline.producer_sequences import count_producers, find_sequences
from kdissect.report.timeline.timeline_tables import (
    ACTIVITY,
    CLIENT,
    FAILURES,
    GROUP_CLIENTS,
    ORDER,
    POSITIONS,
    PRODUCERS,
    SEQUENCES,
    TIMELINE_TABLES,
    TOPIC_ACTIVITY,
)
from kdissect.report.timeline.topic_activity import count_topic_activity
from kdissect.tables.schemas import ENDS

SOURCE_TABLES = ("ends", *EVENTS)
"""The optional tables that the timeline is counted from."""


def count_timeline(
    tables: Mapping[str, pa.RecordBatch | pa.Table],
    exchanges: TableColumns,
    partitions: TableColumns,
    exchange_rows: Ints,
    grid: Grid,
) -> dict[str, pa.Table]:
    """Return the tables of the timeline by name."""
    ends = TableColumns(tables.get("ends", ENDS.empty_table()))
    source = exchange_columns(exchanges, ends, grid)
    counts = {
        ACTIVITY.name: count_activity(source),
        FAILURES.name: count_failures(source, partitions, exchange_rows),
        GROUP_CLIENTS.name: _group_clients(source),
        TOPIC_ACTIVITY.name: count_topic_activity(source, partitions, exchange_rows),
        POSITIONS.name: find_positions(source, partitions, exchange_rows),
        PRODUCERS.name: count_producers(source, partitions, exchange_rows),
        SEQUENCES.name: find_sequences(source, partitions, exchange_rows),
    }
    counts |= count_events(tables, ends)
    limited = {name: limit_rows(TIMELINE_TABLES[name], rows) for name, rows in counts.items()}
    return limited | count_examples(source, partitions, exchange_rows, grid.start_ns)


def _group_clients(source: ExchangeColumns) -> pa.Table:
    exchanges = source.exchanges
    rows = np.flatnonzero(exchanges.present("group_id"))
    columns = source.at(rows, ("group_id", *CLIENT, "api_key", *ORDER))
    columns |= {
        "exchanges": np.ones(len(rows), np.int64),
        "error_responses": exchanges.ints("error_code")[rows] != 0,
    }
    return make_timeline_table(GROUP_CLIENTS, columns)
