"""Partial tables about TCP: paths by steps of time, and the times at which a connection stood still.

A path is a pair of hosts, in one direction. Its rows carry the times of the first and
the last packet that they count, so that a change is dated to the packet, not to the step.
"""

from collections.abc import Mapping

import pyarrow as pa

from kdissect.report.aggregate.column_rows import AnyColumn
from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.aggregate.partial_rows import roll_up_columns
from kdissect.report.aggregate.partial_tables import PartialTable
from kdissect.report.aggregate.row_limits import limit_rows
from kdissect.tables.array_batch import ArrayBatch
from kdissect.tables.column import BOOL, INT64, TEXT
from kdissect.tables.column_values import every_row
from kdissect.tables.schemas import TCP_SPANS, TCP_STEPS

PATHS = PartialTable(
    "paths",
    keys=(
        ("begin_ns", INT64),
        ("client_host", TEXT),
        ("server_host", TEXT),
        ("to_server", BOOL),
    ),
    sums=("segments", "repeated", "attempt_repeats"),
    lowest=("first_ns", "ack_min_ns", "reply_min_ns", "repeated_first_ns"),
    highest=("last_ns", "ack_max_ns", "reply_max_ns", "largest_acked"),
    most=100_000,
    spare=(("client_host",),),
)
"""One direction between two hosts in one step of time; columns as in `streams.tcp.tracker_state.StepRow`."""

STANDSTILLS = PartialTable(
    "standstills",
    keys=tuple((field.name, field.type) for field in TCP_SPANS),
    sums=("spans",),
    most=20_000,
    earliest="begin_ns",
)
"""Times at which data of a connection was not acknowledged, or a receive window was closed.

The columns are those of `streams.tcp.tracker_state.SpanRow`.
"""

NETWORK_TABLES = {part.name: part for part in (PATHS, STANDSTILLS)}


MOST_STEPS = 3600
NS_PER_SECOND = 10**9


def tcp_step(span_ns: int) -> int:
    """Return the length of a step of PATHS for a capture of `span_ns`: whole seconds, an hour has 3,600."""
    return max(1, -(-span_ns // (MOST_STEPS * NS_PER_SECOND))) * NS_PER_SECOND


def count_network(tables: Mapping[str, pa.RecordBatch | pa.Table]) -> dict[str, ArrayBatch]:
    """Return the rows of these tables from batches of `tcp_steps` and `tcp_spans`, if they are there."""
    counts = {}
    for source, schema, part in (("tcp_steps", TCP_STEPS, PATHS), ("tcp_spans", TCP_SPANS, STANDSTILLS)):
        if source in tables and tables[source].num_rows:
            rows = TableColumns(tables[source])
            columns: dict[str, AnyColumn] = {
                name: rows.column(name) if name in schema.names else every_row(rows.rows)
                for name in part.schema.names
            }
            counts[part.name] = limit_rows(part, roll_up_columns(part, columns, rows.rows))
    return counts
