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
    encode,
    encode_range,
    encode_runs,
    group_codes,
    group_rows,
    latency_buckets,
    sound_latencies,
)
from kdissect.report.aggregate.partial_tables import (
    TOPIC_CALLS,
    TOPIC_FLOWS,
    TOPIC_LATENCIES,
    TOPIC_PARTITIONS,
    Measure,
    make_table,
)
from kdissect.tables.array_batch import ArrayBatch
from kdissect.tables.exchange_keys import ExchangeKeys, find_exchanges

AMOUNTS = ("records", "batches", "record_bytes", "sampled_bytes", "sampled_lz4_bytes")


def rows_of_exchanges(partitions: TableColumns, exchanges: TableColumns) -> Int64s:
    """Return for each row of partitions the row of its exchange, or -1."""
    keys, known = (
        ExchangeKeys(rows.ints("connection"), rows.ints("ordinal"), rows.present("ordinal"))
        for rows in (partitions, exchanges)
    )
    return find_exchanges(keys, known)


def count_topics(
    partitions: TableColumns, exchanges: TableColumns, exchange_rows: Int64s, clients: RowGroups
) -> dict[str, ArrayBatch]:
    """Return the rows of TOPIC_FLOWS, TOPIC_PARTITIONS, TOPIC_CALLS and TOPIC_LATENCIES by table name."""
    named = partitions.present("topic") | partitions.present("topic_id")
    partitions, exchange_rows = partitions.filter(named), exchange_rows[named]
    topic = group_rows(encode(partitions.column("topic")), encode(partitions.column("topic_id")))
    partition = group_rows(
        group_codes(topic), encode_range(partitions.ints("partition"), partitions.present("partition"))
    )
    seen = _taken(partitions, partition.first, ("topic", "topic_id", "partition"))
    return {
        TOPIC_FLOWS.name: _flows(partitions, exchanges, exchange_rows, clients, topic),
        TOPIC_PARTITIONS.name: make_table(
            TOPIC_PARTITIONS, partition, seen, {"mentions": np.ones(len(exchange_rows), bool)}
        ),
        **_timings(partitions, exchanges, exchange_rows, clients, topic),
    }


def _flows(
    partitions: TableColumns,
    exchanges: TableColumns,
    exchange_rows: Int64s,
    clients: RowGroups,
    topic: RowGroups,
) -> ArrayBatch:
    there = exchange_rows >= 0
    client = Codes(
        np.where(there, clients.of[exchange_rows], -1) if exchanges.rows else exchange_rows, clients.count
    )
    connection, api = encode_runs(partitions.ints("connection")), encode_range(partitions.ints("api_key"))
    group_id = exchanges.text("group_id").take(exchange_rows)
    flows = group_rows(
        group_codes(topic), client, connection, api, encode(group_id), encode(partitions.column("codec"))
    )
    taken = _taken(partitions, flows.first, ("topic", "topic_id", "api_key", "connection", "codec"))
    taken["client_id"] = exchanges.text("client_id").take(exchange_rows[flows.first])
    taken["group_id"] = group_id.take(flows.first)
    sent = exchanges.coalesce("request_first_ns", "response_first_ns")
    when = sent[exchange_rows] if exchanges.rows else np.zeros(len(exchange_rows), np.int64)
    measures: dict[str, Measure] = {
        "mentions": np.ones(len(exchange_rows), bool),
        "errors": partitions.ints("error_code") != 0,
        **{name: np.maximum(partitions.ints(name), 0) for name in AMOUNTS},
        "first_ns": (when, there),
        "last_ns": (when, there),
    }
    return make_table(TOPIC_FLOWS, flows, taken, measures)


def _timings(
    partitions: TableColumns,
    exchanges: TableColumns,
    exchange_rows: Int64s,
    clients: RowGroups,
    topic: RowGroups,
) -> dict[str, ArrayBatch]:
    """Return calls and latencies by topic, each pair of exchange and topic counted once."""
    inside = np.flatnonzero((exchange_rows >= 0) & _changes(exchange_rows, topic.of))
    pairs = group_rows(Codes(exchange_rows[inside], exchanges.rows), Codes(topic.of[inside], topic.count))
    rows = inside[pairs.first]
    exchange = exchange_rows[rows]
    latency, sound = sound_latencies(exchanges)
    latency, sound = latency[exchange], sound[exchange]
    idle = exchanges.bools("idle_wait")[exchange]
    api, wait = encode_range(partitions.ints("api_key")[rows]), encode_range(idle.astype(np.int64))
    kind = group_rows(Codes(topic.of[rows], topic.count), api, wait)
    calls = group_rows(group_codes(kind), Codes(clients.of[exchange], clients.count))
    by_client = _taken(partitions, rows[calls.first], ("topic", "topic_id", "api_key"))
    by_client |= _taken(exchanges, exchange[calls.first], ("connection", "client_id"))
    by_client["idle_wait"] = idle[calls.first]
    measures: dict[str, Measure] = {
        "exchanges": np.ones(len(rows), bool),
        "timed": sound,
        "latency_ns": latency * sound,
        "latency_min_ns": (latency, sound),
        "latency_max_ns": (latency, sound),
    }
    kept = np.flatnonzero(sound)
    bucket = latency_buckets(exchanges)[exchange[kept]]
    buckets = group_rows(Codes(kind.of[kept], kind.count), encode_range(bucket))
    first = kept[buckets.first]
    by_bucket = _taken(partitions, rows[first], ("topic", "topic_id", "api_key"))
    by_bucket |= {"idle_wait": idle[first], "bucket": bucket[buckets.first]}
    counts = {"count": np.ones(len(kept), bool)}
    return {
        TOPIC_CALLS.name: make_table(TOPIC_CALLS, calls, by_client, measures),
        TOPIC_LATENCIES.name: make_table(TOPIC_LATENCIES, buckets, by_bucket, counts),
    }


def _changes(*columns: Int64s) -> Bools:
    """Return the mask of rows that differ from the row before."""
    changed = np.zeros(len(columns[0]), bool)
    changed[:1] = True
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return changed


def _taken(source: TableColumns, rows: Int64s, names: tuple[str, ...]) -> dict[str, AnyColumn]:
    return {name: take_rows(source.column(name), rows) for name in names}
