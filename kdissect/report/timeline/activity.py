"""Activity by step of time: exchanges by API, client, broker, connection and cell of latency, and errors."""

import numpy as np
import pyarrow as pa

from kdissect.report.aggregate.grouping import (
    MAX_LATENCY_NS,
    Codes,
    Mask,
    TableColumns,
    encode,
    group_rows,
    sound_latencies,
)
from kdissect.report.aggregate.histogram import Ints, bucket_of
from kdissect.report.timeline.exchange_columns import ExchangeColumns, make_timeline_table
from kdissect.report.timeline.timeline_tables import (
    ACTIVITY,
    CELL_BITS,
    CLIENT,
    FAILURES,
    ORDER,
    SERVER,
)

NO_CELL = -1
MEASURES = ("cell", *ACTIVITY.sums, *ACTIVITY.highest)
"""Columns that `activity_measures` returns."""

KEYS = ("step", "api_key", *CLIENT, *SERVER, "connection")


def count_activity(source: ExchangeColumns) -> pa.Table:
    """Return the rows of ACTIVITY."""
    own = activity_measures(source)
    return make_timeline_table(
        ACTIVITY, {name: source.columns[name] for name in (*KEYS, "idle_wait", *ORDER)} | own
    )


def activity_measures(source: ExchangeColumns) -> "dict[str, Ints | Mask]":
    """Return what is counted of each exchange, and the cell of its latency. Several tables need it."""
    exchanges = source.exchanges
    arrays = exchanges.derived("activity", make=lambda: tuple(_measures(exchanges).values()))
    return dict(zip(MEASURES, arrays, strict=True))


def _measures(exchanges: TableColumns) -> "dict[str, Ints | Mask]":
    latency, sound = sound_latencies(exchanges)
    cell = np.full(exchanges.rows, NO_CELL, np.int64)
    cell[sound] = bucket_of(latency[sound]) >> CELL_BITS
    throttle = np.maximum(exchanges.ints("throttle_ms"), 0)
    return {
        "cell": cell,
        "exchanges": np.ones(exchanges.rows, np.int64),
        "latency_ns": np.where(sound, latency, 0),
        "upload_ns": _span(exchanges, "request"),
        "transfer_ns": _span(exchanges, "response"),
        "request_bytes": exchanges.ints("request_bytes"),
        "response_bytes": exchanges.ints("response_bytes"),
        "error_responses": exchanges.ints("error_code") != 0,
        "unanswered": exchanges.equals("status", "unanswered"),
        "throttled": throttle > 0,
        "throttle_ms": throttle,
        "latency_max_ns": np.where(sound, latency, 0),
    }


def _span(exchanges: TableColumns, side: str) -> Ints:
    """Return the ns from the first to the last byte of a request or response, 0 where they cannot be."""
    span = exchanges.ints(f"{side}_last_ns") - exchanges.ints(f"{side}_first_ns")
    there: Mask = exchanges.present(f"{side}_first_ns") & (span >= 0) & (span < MAX_LATENCY_NS)
    return np.where(there, span, 0)


def count_failures(source: ExchangeColumns, partitions: TableColumns, exchange_rows: Ints) -> pa.Table:
    """Return the rows of FAILURES."""
    own = np.flatnonzero(source.exchanges.ints("error_code") != 0)
    parts = np.flatnonzero((partitions.ints("error_code") != 0) & (exchange_rows >= 0))
    rows = np.concatenate([own, exchange_rows[parts]])
    codes = np.concatenate([source.exchanges.ints("error_code")[own], partitions.ints("error_code")[parts]])
    pairs = group_rows(Codes(rows, source.exchanges.rows), encode(pa.array(codes)))
    rows, codes = rows[pairs.first], codes[pairs.first]
    columns = source.at(rows, (*KEYS, *ORDER))
    return make_timeline_table(FAILURES, columns | {"code": codes, "exchanges": np.ones(len(rows), np.int64)})
