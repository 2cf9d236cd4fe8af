"""Activity by step of time: exchanges by API, client, broker, connection and cell of latency, and errors."""

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from kdissect.array_types import Bools, Int64s
from kdissect.report.aggregate.grouping import Codes, TableColumns, encode, group_rows
from kdissect.report.aggregate.sound_latency import (
    MAX_LATENCY_NS,
    counted_latencies,
    latency_buckets,
    sound_latencies,
)
from kdissect.report.timeline.exchange_columns import ExchangeColumns, make_timeline_table
from kdissect.report.timeline.timeline_tables import (
    ACTIVITY,
    CELL_BITS,
    CLIENT,
    FAILURES,
    ORDER,
    SERVER,
)
from kdissect.tables.array_batch import ArrayBatch
from kdissect.tables.column_values import every_row

NO_CELL = -1
MEASURES = ("cell", *ACTIVITY.sums, *ACTIVITY.highest)
"""Columns that `activity_measures` returns."""

KEYS = ("step", "api_key", *CLIENT, *SERVER, "connection")


def count_activity(source: ExchangeColumns) -> ArrayBatch:
    """Return the rows of ACTIVITY."""
    own = activity_measures(source)
    return make_timeline_table(
        ACTIVITY, {name: source.columns[name] for name in (*KEYS, "idle_wait", *ORDER)} | own
    )


def activity_measures(
    source: ExchangeColumns, names: Iterable[str] = MEASURES
) -> "dict[str, Int64s | Bools]":
    """Return what is counted of each exchange, and the cell of its latency. Several tables need it."""
    return {name: _measure(source.exchanges, name) for name in names}


def _measure(exchanges: TableColumns, name: str) -> "Int64s | Bools":
    return exchanges.derived("activity", name, make=lambda: (_MAKERS[name](exchanges),))[0]


def _cells(exchanges: TableColumns) -> Int64s:
    sound = sound_latencies(exchanges)[1]
    return np.where(sound, latency_buckets(exchanges) >> CELL_BITS, NO_CELL)


def _span(exchanges: TableColumns, side: str) -> Int64s:
    """Return the ns from the first to the last byte of a request or response, 0 where they cannot be."""
    span = exchanges.ints(f"{side}_last_ns") - exchanges.ints(f"{side}_first_ns")
    there: Bools = exchanges.present(f"{side}_first_ns") & (span >= 0) & (span < MAX_LATENCY_NS)
    return span * there


def _throttle(exchanges: TableColumns) -> Int64s:
    throttle: Int64s = np.maximum(exchanges.ints("throttle_ms"), 0)
    return throttle


_MAKERS: "dict[str, Callable[[TableColumns], Int64s | Bools]]" = {
    "cell": _cells,
    "exchanges": lambda exchanges: every_row(exchanges.rows),
    "latency_ns": counted_latencies,
    "upload_ns": lambda exchanges: _span(exchanges, "request"),
    "transfer_ns": lambda exchanges: _span(exchanges, "response"),
    "request_bytes": lambda exchanges: exchanges.ints("request_bytes"),
    "response_bytes": lambda exchanges: exchanges.ints("response_bytes"),
    "error_responses": lambda exchanges: exchanges.ints("error_code") != 0,
    "unanswered": lambda exchanges: exchanges.equals("status", "unanswered"),
    "throttled": lambda exchanges: _throttle(exchanges) > 0,
    "throttle_ms": _throttle,
    "latency_max_ns": counted_latencies,
}


def count_failures(source: ExchangeColumns, partitions: TableColumns, exchange_rows: Int64s) -> ArrayBatch:
    """Return the rows of FAILURES."""
    own = np.flatnonzero(source.exchanges.ints("error_code") != 0)
    parts = np.flatnonzero((partitions.ints("error_code") != 0) & (exchange_rows >= 0))
    rows = np.concatenate([own, exchange_rows[parts]])
    codes = np.concatenate([source.exchanges.ints("error_code")[own], partitions.ints("error_code")[parts]])
    pairs = group_rows(Codes(rows, source.exchanges.rows), encode(pa.array(codes)))
    rows, codes = rows[pairs.first], codes[pairs.first]
    columns = source.at(rows, (*KEYS, *ORDER))
    return make_timeline_table(FAILURES, columns | {"code": codes, "exchanges": np.ones(len(rows), np.int64)})
