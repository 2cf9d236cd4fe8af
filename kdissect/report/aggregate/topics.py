"""Volumes by topic, client, codec and API; partitions of topics; latencies of exchanges that name a topic.

A row of partitions names its exchange by (connection, ordinal). That exchange must be in the same batch of
tables, since only exchanges have client and latency. An exchange that names a topic in eight partitions
counts once for that topic.
"""

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.report.aggregate.column_rows import AnyColumn, take_rows
from kdissect.report.aggregate.grouping import (
    Codes,
    RowGroups,
    TableColumns,
    coarser,
    encode_range,
    group_codes,
    group_rows,
)
from kdissect.report.aggregate.partial_rows import Measure, make_table
from kdissect.report.aggregate.partial_tables import (
    TOPIC_CALLS,
    TOPIC_FLOWS,
    TOPIC_LATENCIES,
    TOPIC_PARTITIONS,
)
from kdissect.report.aggregate.partition_classes import PLACE, PartitionClasses, partition_classes
from kdissect.report.aggregate.sound_latency import counted_latencies, latency_buckets, sound_latencies
from kdissect.tables.array_batch import ArrayBatch
from kdissect.tables.column_values import every_row
from kdissect.tables.exchange_keys import ExchangeKeys, find_exchanges

TOPIC = ("topic", "topic_id")
AMOUNTS = ("records", "batches", "record_bytes", "sampled_bytes", "sampled_lz4_bytes")


def rows_of_exchanges(partitions: TableColumns, exchanges: TableColumns) -> Int64s:
    """Return for each row of partitions the row of its exchange, or -1."""
    keys, known = (
        ExchangeKeys(rows.ints("connection"), rows.ints("ordinal"), rows.present("ordinal"))
        for rows in (partitions, exchanges)
    )
    return find_exchanges(keys, known)


def count_topics(
    partitions: TableColumns, exchanges: TableColumns, exchange_rows: Int64s
) -> dict[str, ArrayBatch]:
    """Return the rows of TOPIC_FLOWS, TOPIC_PARTITIONS, TOPIC_CALLS and TOPIC_LATENCIES by table name."""
    named = partitions.present("topic") | partitions.present("topic_id")
    partitions, exchange_rows = partitions.filter(named), exchange_rows[named]
    classes = partition_classes(partitions, exchanges, exchange_rows)
    partition = coarser(classes.groups, group_codes(classes.group(PLACE)))
    seen = _taken(partitions, partition.first, PLACE)
    return {
        TOPIC_FLOWS.name: _flows(partitions, exchanges, exchange_rows, classes),
        TOPIC_PARTITIONS.name: make_table(
            TOPIC_PARTITIONS, partition, seen, {"mentions": every_row(len(exchange_rows))}
        ),
        **_timings(partitions, exchanges, exchange_rows, classes),
    }


def _flows(
    partitions: TableColumns, exchanges: TableColumns, exchange_rows: Int64s, classes: PartitionClasses
) -> ArrayBatch:
    there = exchange_rows >= 0
    own = (*TOPIC, "api_key", "connection", "codec")
    flows = coarser(classes.groups, group_codes(classes.group(own, ("connection", "client_id", "group_id"))))
    taken = _taken(partitions, flows.first, own)
    for name in ("client_id", "group_id"):
        taken[name] = exchanges.text(name).take(exchange_rows[flows.first])
    sent = exchanges.coalesce("request_first_ns", "response_first_ns")
    when = sent.take(exchange_rows) if exchanges.rows else np.zeros(len(exchange_rows), np.int64)
    measures: dict[str, Measure] = {
        "mentions": every_row(len(exchange_rows)),
        "errors": partitions.ints("error_code") != 0,
        **{name: np.maximum(partitions.ints(name), 0) for name in AMOUNTS},
        "first_ns": (when, there),
        "last_ns": (when, there),
    }
    return make_table(TOPIC_FLOWS, flows, taken, measures)


def _timings(
    partitions: TableColumns, exchanges: TableColumns, exchange_rows: Int64s, classes: PartitionClasses
) -> dict[str, ArrayBatch]:
    """Return calls and latencies by topic, each pair of exchange and topic counted once."""
    rows = _pairs(exchange_rows, coarser(classes.groups, group_codes(classes.group(TOPIC))), exchanges.rows)
    exchange = exchange_rows[rows]
    latency, sound = sound_latencies(exchanges)
    latency, sound = latency[exchange], sound[exchange]
    own = (*TOPIC, "api_key")
    calls = classes.grouped(rows, classes.group(own, ("connection", "client_id", "idle_wait")))
    by_client = _taken(partitions, rows[calls.first], own)
    by_client |= _taken(exchanges, exchange[calls.first], ("connection", "client_id"))
    idle = exchanges.bools("idle_wait")
    by_client["idle_wait"] = idle[exchange[calls.first]]
    measures: dict[str, Measure] = {
        "exchanges": every_row(len(rows)),
        "unanswered": exchanges.equals("status", "unanswered")[exchange],
        "throttled": exchanges.ints("throttle_ms")[exchange] > 0,
        "timed": sound,
        "latency_ns": counted_latencies(exchanges)[exchange],
        "latency_min_ns": (latency, sound),
        "latency_max_ns": (latency, sound),
    }
    kept = np.flatnonzero(sound)
    bucket = latency_buckets(exchanges)[exchange[kept]]
    buckets = classes.grouped(rows[kept], classes.group(own, ("idle_wait",)), encode_range(bucket))
    first = kept[buckets.first]
    by_bucket = _taken(partitions, rows[first], own)
    by_bucket |= {"idle_wait": idle[exchange[first]], "bucket": bucket[buckets.first]}
    counts = {"count": every_row(len(kept))}
    return {
        TOPIC_CALLS.name: make_table(TOPIC_CALLS, calls, by_client, measures),
        TOPIC_LATENCIES.name: make_table(TOPIC_LATENCIES, buckets, by_bucket, counts),
    }


def _pairs(exchange_rows: Int64s, topic: RowGroups, exchanges: int) -> Int64s:
    """Return a row for each pair of exchange and topic."""
    inside = np.flatnonzero((exchange_rows >= 0) & _changes(exchange_rows, topic.of))
    exchange = exchange_rows[inside]
    if (exchange[1:] > exchange[:-1]).all():
        return inside
    return inside[group_rows(Codes(exchange, exchanges), Codes(topic.of[inside], topic.count)).first]


def _changes(*columns: Int64s) -> Bools:
    """Return the mask of rows that differ from the row before."""
    changed = np.zeros(len(columns[0]), bool)
    changed[:1] = True
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return changed


def _taken(source: TableColumns, rows: Int64s, names: tuple[str, ...]) -> dict[str, AnyColumn]:
    return {name: take_rows(source.column(name), rows) for name in names}
