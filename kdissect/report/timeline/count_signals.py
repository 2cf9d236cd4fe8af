"""All tables of signals from batches of exchanges: their pace, the replies of servers, and long waits.

The load of clients goes by step of time and partition: records and bytes, and the offsets of fetches.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from kdissect.array_types import Int64s
from kdissect.report.aggregate.calls import class_columns, class_counts
from kdissect.report.aggregate.chosen_partitions import chosen_partitions
from kdissect.report.aggregate.column_rows import AnyColumn
from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.aggregate.partial_rows import no_rows, part_table, whole_numbers
from kdissect.report.aggregate.row_limits import limit_rows
from kdissect.report.aggregate.sound_latency import counted_latencies, latency_buckets, sound_latencies
from kdissect.report.timeline.activity import MEASURES, activity_measures
from kdissect.report.timeline.count_side_tables import EVENTS
from kdissect.report.timeline.exchange_columns import (
    ExchangeColumns,
    connection_ends,
    exchange_columns,
    make_timeline_table,
    partition_columns,
)
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.positions import KINDS, find_positions
from kdissect.report.timeline.signal_tables import (
    COMMITTED,
    LOAD,
    NO_PACE_CELL,
    PACE,
    PACE_CELL_BITS,
    READS,
    REPLIES,
    SIGNAL_GRID,
    SIGNAL_TABLES,
    WAITS,
)
from kdissect.report.timeline.timeline_tables import CLIENT, SERVER
from kdissect.tables.array_batch import ArrayBatch, number_column
from kdissect.tables.coded_text import CodedText
from kdissect.tables.column import INT32, INT64
from kdissect.tables.column_values import every_row

LONG_WAIT_NS = 100_000_000
"""A request that waits for this long, and not by design, is a row of WAITS."""

SIGNAL_SOURCES = (
    *("ends", "replica_sets", "share_acknowledgements", "shutdown_requests", "addressed_voters"),
    *EVENTS,
)
"""The optional tables that the tables of signals are counted from."""

FASTEST_NS = 200_000
"""Latencies below this count as this: what is below is noise of the clock and of the scheduler."""


def count_signals(
    tables: Mapping[str, pa.RecordBatch | pa.Table],
    exchanges: TableColumns,
    partitions: TableColumns,
    exchange_rows: Int64s,
    grid: Grid,
) -> dict[str, ArrayBatch]:
    """Return the tables of signals by name."""
    ends = connection_ends(tables)
    source = exchange_columns(exchanges, ends, grid)
    counts = {
        SIGNAL_GRID.name: part_table(
            SIGNAL_GRID,
            {
                name: np.array([value])
                for name, value in (*grid._asdict().items(), ("exchanges", exchanges.rows))
            },
        ),
        PACE.name: _pace(source),
        REPLIES.name: _replies(source, grid),
        WAITS.name: _waits(source, grid),
        LOAD.name: count_load(source, partitions, exchange_rows),
        READS.name: count_reads(source, partitions, exchange_rows),
        COMMITTED.name: find_positions(COMMITTED, source, partitions, exchange_rows, KINDS),
    }
    return {name: limit_rows(SIGNAL_TABLES[name], rows) for name, rows in counts.items()}


def _pace(source: ExchangeColumns) -> ArrayBatch:
    exchanges = source.exchanges
    timed = sound_latencies(exchanges)[1] & ~exchanges.bools("idle_wait")
    columns: dict[str, AnyColumn] = {
        **{name: source.columns[name] for name in ("step", "api_key", *SERVER, *CLIENT)},
        **activity_measures(source, [name for name in PACE.sums if name in MEASURES]),
        "cell": np.where(timed, latency_buckets(exchanges) >> PACE_CELL_BITS, NO_PACE_CELL),
        "first_ns": source.begin,
        "last_ns": source.begin,
        "held_ns": counted_latencies(exchanges),
    }
    return make_timeline_table(PACE, columns)


def _replies(source: ExchangeColumns, grid: Grid) -> ArrayBatch:
    exchanges = source.exchanges
    rows = np.flatnonzero(exchanges.present("response_first_ns"))
    first = exchanges.ints("response_first_ns")[rows]
    columns: dict[str, AnyColumn] = dict(source.at(rows, SERVER))
    columns |= {"step": grid.steps_of(first), "responses": every_row(len(rows)), "first_ns": first}
    columns["last_ns"] = np.maximum(exchanges.coalesce("response_last_ns", "response_first_ns")[rows], first)
    return make_timeline_table(REPLIES, columns)


def _waits(source: ExchangeColumns, grid: Grid) -> ArrayBatch:
    exchanges = source.exchanges
    if not _may_wait(exchanges):
        return no_rows(WAITS)
    latency, sound = sound_latencies(exchanges)
    waited = sound & (latency >= LONG_WAIT_NS) & ~exchanges.bools("idle_wait")
    open_ended = exchanges.equals("status", "unanswered")
    rows = np.flatnonzero(waited | open_ended)
    begin = exchanges.coalesce("request_last_ns", "request_first_ns")[rows]
    answered = waited[rows]
    end = exchanges.ints("response_first_ns")[rows]
    wait: Int64s = np.where(answered, latency[rows], 0)
    columns: dict[str, AnyColumn] = dict(source.at(rows, ("connection", *CLIENT, *SERVER, "api_key")))
    columns |= {"begin_step": grid.steps_of(begin), "exchanges": every_row(len(rows))}
    columns |= {"end_step": number_column(grid.steps_of(end), answered, INT32)}
    columns |= {"wait_ns": wait, "first_begin_ns": begin, "last_begin_ns": begin}
    columns["last_end_ns"] = number_column(end, answered, INT64)
    return make_timeline_table(WAITS, columns)


def _may_wait(exchanges: TableColumns) -> bool:
    """Return whether an exchange has no response or a long latency. Most batches have none."""
    longest, timed = whole_numbers(class_counts(exchanges)["latency_max_ns"])
    status = class_columns(exchanges)["status"]
    assert isinstance(status, CodedText)
    return bool((status.equals("unanswered") | (timed & (longest >= LONG_WAIT_NS))).any())


def count_load(source: ExchangeColumns, partitions: TableColumns, exchange_rows: Int64s) -> ArrayBatch:
    """Return the rows of LOAD."""
    rows = chosen_partitions(partitions, source.exchanges, exchange_rows).load
    columns = _columns(source, partitions, exchange_rows, rows, ("step", "api_key"))
    sizes = ("batches", "records", "record_bytes")
    columns |= {name: np.maximum(partitions.ints(name)[rows], 0) for name in sizes}
    latency, sound = sound_latencies(source.exchanges)
    timed = (sound & ~source.exchanges.bools("idle_wait"))[exchange_rows[rows]]
    octaves = 1000 * np.log2(np.maximum(latency[exchange_rows[rows]], FASTEST_NS))
    columns["timed"] = timed
    columns["octaves_1000"] = np.where(timed, np.rint(octaves), 0).astype(np.int64)
    return make_timeline_table(LOAD, columns)


def count_reads(source: ExchangeColumns, partitions: TableColumns, exchange_rows: Int64s) -> ArrayBatch:
    """Return the rows of READS."""
    rows = chosen_partitions(partitions, source.exchanges, exchange_rows).reads
    columns = _columns(source, partitions, exchange_rows, rows)
    columns["offset"] = partitions.ints("offset")[rows]
    return make_timeline_table(READS, columns)


def _columns(
    source: ExchangeColumns,
    partitions: TableColumns,
    exchange_rows: Int64s,
    rows: Int64s,
    names: tuple[str, ...] = (),
) -> dict[str, AnyColumn]:
    columns = partition_columns(source, partitions, exchange_rows, rows, (*CLIENT, *names))
    begin = source.begin[exchange_rows[rows]]
    columns |= {"first_ns": begin, "last_ns": begin}
    return columns | {"exchanges": every_row(len(rows))}
