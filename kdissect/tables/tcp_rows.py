"""Rows about TCP: the tables TCP_STEPS and TCP_SPANS, and columns of the table `connections`.

In come what the tracker of pass two kept and which side of each connection is the client. That may be
learnt late, so rows are made at the end only. A row of TCP_STEPS takes several times the memory of what it is
made of, so these are made in parts.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from kdissect.array_types import Bools, Int64s
from kdissect.capture.index.splits import Split
from kdissect.jit.rows import Records
from kdissect.streams.flow_state import PACKET_BITS
from kdissect.streams.tcp.tcp_tracker import TcpTracker
from kdissect.streams.tcp.tracker_state import OUTCOME_NAMES, SPAN_NAMES
from kdissect.tables.array_batch import ArrayBatch, ArrayColumn, array_column, number_column
from kdissect.tables.arrow_columns import int_column, name_column
from kdissect.tables.coded_columns import table_batch
from kdissect.tables.coded_text import NumberColumn
from kdissect.tables.schemas import CONNECTIONS, TCP_SPANS, TCP_STEPS

STEPS_OF_BATCH = 1 << 14
PAIR = ("connection", "client_host", "server_host", "server_port")
COUNT_OF = {
    "ack_min_ns": "ack_count",
    "ack_max_ns": "ack_count",
    "reply_min_ns": "reply_count",
    "reply_max_ns": "reply_count",
    "repeated_first_ns": "repeated",
    "repeated_last_ns": "repeated",
}
"""Columns that are null where another one is 0."""


def tcp_connection_columns(tracker: TcpTracker, client: Int64s) -> Mapping[str, pa.Array]:
    """Return columns of `connections`; `client` is the side of the client of each of them."""
    facts, directions = tracker.connections()
    both = np.arange(len(client)) * 2
    ways = {"server": directions[both + client], "client": directions[both + 1 - client]}
    closed = facts["closed_ns"] > 0
    columns = {
        "closed_by": pa.array(np.where(facts["closed_by"] == client, "client", "server"), mask=~closed),
        "closed_ns": int_column(facts["closed_ns"], closed, pa.int64()),
    }
    for receiver, way in ways.items():
        count = way["ack_count"]
        columns |= {
            f"unacknowledged_bytes_to_{receiver}": pa.array(np.maximum(way["sent"] - way["acked"], 0)),
            f"{receiver}_acks": pa.array(count),
            f"{receiver}_ack_min_ns": int_column(way["ack_min_ns"], count > 0, pa.int64()),
            f"{receiver}_ack_mean_ns": int_column(
                way["ack_ns"] // np.maximum(count, 1), count > 0, pa.int64()
            ),
            f"{receiver}_ack_max_ns": int_column(way["ack_max_ns"], count > 0, pa.int64()),
        }
    return {name: column.cast(CONNECTIONS.field(name).type) for name, column in columns.items()}


def tcp_step_batches(
    tracker: TcpTracker, connections: pa.RecordBatch, client: Int64s, as_arrays: bool = False
) -> Iterator[pa.RecordBatch | ArrayBatch]:
    """Yield a row for each direction of a connection and step of time (TCP_STEPS); the tracker forgets them.

    `connections` are the rows of that table, and `client` says which side is the client of each. Rows are
    arrays if `as_arrays`.
    """
    pairs = {name: array_column(connections[name]) for name in PAIR}
    for steps in tracker.release_steps(STEPS_OF_BATCH):
        yield _step_rows(steps, tracker.step_ns, pairs, client, as_arrays)


def _step_rows(
    steps: Records, step_ns: int, pairs: Mapping[str, ArrayColumn], client: Int64s, as_arrays: bool
) -> pa.RecordBatch | ArrayBatch:
    direction = steps["direction"]
    columns: dict[str, ArrayColumn] = {name: column.take(direction >> 1) for name, column in pairs.items()}
    columns["to_server"] = _is_to_server(direction, client)
    everywhere = np.ones(len(steps), np.bool_)
    columns["begin_ns"] = NumberColumn(steps["step"] * step_ns, everywhere, pa.int64())
    for name in TCP_STEPS.names:
        if name not in columns:
            known = steps[COUNT_OF[name]] > 0 if name in COUNT_OF else everywhere
            known = steps["first_ns"] > 0 if name in ("first_ns", "last_ns") else known
            columns[name] = number_column(steps[name], known, TCP_STEPS.field(name).type)
    return table_batch(columns, TCP_STEPS, as_arrays)


def tcp_span_rows(
    tracker: TcpTracker, connections: pa.RecordBatch, client: Int64s, splits: Sequence[Split]
) -> pa.RecordBatch:
    """Return a row for each span of time in which a direction stood still (TCP_SPANS)."""
    spans = tracker.spans()
    columns = _directions(spans["direction"], connections, client)
    columns["kind"] = name_column(dict(enumerate(SPAN_NAMES)), spans["kind"])
    columns["outcome"] = name_column(dict(enumerate(OUTCOME_NAMES)), spans["outcome"])
    files = pa.array([split.name for split in splits], pa.string())
    columns["capture_file"] = files.take(pa.array(spans["packet"] >> PACKET_BITS))
    columns["packet"] = pa.array(spans["packet"] & (1 << PACKET_BITS) - 1)
    for name in TCP_SPANS.names:
        if name not in columns:
            columns[name] = pa.array(spans[name])
    return _batch(columns, TCP_SPANS)


def _directions(direction: Int64s, connections: pa.RecordBatch, client: Int64s) -> dict[str, pa.Array]:
    """Return the ends of each direction (2 * row of a connection + side), and which of them sends."""
    rows = direction >> 1
    columns = {name: connections[name].take(pa.array(rows)) for name in PAIR}
    return columns | {"to_server": pa.array(_is_to_server(direction, client))}


def _is_to_server(direction: Int64s, client: Int64s) -> Bools:
    to_server: Bools = direction & 1 == client[direction >> 1]
    return to_server


def _batch(columns: Mapping[str, pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    return pa.record_batch([columns[name].cast(schema.field(name).type) for name in schema.names], schema)
