"""Exchanges by step of time, API, client, broker, connection and cell of latency; and by the errors that they carry."""

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
KEYS = ("step", "api_key", *CLIENT, *SERVER, "connection")


def count_activity(scene: ExchangeColumns) -> pa.Table:
    """Give the part MOMENTS."""
    own = activity_measures(scene)
    return make_timeline_table(
        ACTIVITY, {name: scene.columns[name] for name in (*KEYS, "idle_wait", *ORDER)} | own
    )


def activity_measures(scene: ExchangeColumns) -> "dict[str, Ints | Mask]":
    """Give what is counted of each exchange, and the cell of its latency."""
    exchanges = scene.exchanges
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
    """Give the time from first to last byte, 0 where it cannot be."""
    span = exchanges.ints(f"{side}_last_ns") - exchanges.ints(f"{side}_first_ns")
    there: Mask = exchanges.known(f"{side}_first_ns") & (span >= 0) & (span < MAX_LATENCY_NS)
    return np.where(there, span, 0)


def count_failures(scene: ExchangeColumns, partitions: TableColumns, located: Ints) -> pa.Table:
    """Give the part FAILURES."""
    own = np.flatnonzero(scene.exchanges.ints("error_code") != 0)
    parts = np.flatnonzero((partitions.ints("error_code") != 0) & (located >= 0))
    rows = np.concatenate([own, located[parts]])
    codes = np.concatenate([scene.exchanges.ints("error_code")[own], partitions.ints("error_code")[parts]])
    pairs = group_rows(Codes(rows, scene.exchanges.rows), encode(pa.array(codes)))
    rows, codes = rows[pairs.first], codes[pairs.first]
    columns = scene.at(rows, (*KEYS, *ORDER))
    return make_timeline_table(FAILURES, columns | {"code": codes, "exchanges": np.ones(len(rows), np.int64)})
