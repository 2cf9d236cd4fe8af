"""Counts, bytes and latencies of exchanges by connection, client id, API, version, group, status and wait.

Every step works on whole columns. A latency that cannot be is counted as untimed and left out of all other
figures: it is negative or of days, since the clock stepped or packets of several interfaces were merged.
"""

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.report.aggregate.column_rows import AnyColumn, take_rows
from kdissect.report.aggregate.grouping import (
    MAX_LATENCY_NS,
    Codes,
    RowGroups,
    TableColumns,
    counted_latencies,
    encode,
    encode_range,
    encode_runs,
    group_codes,
    group_rows,
    latency_buckets,
    sound_latencies,
)
from kdissect.report.aggregate.partial_tables import CALLS, LATENCIES, Measure, make_table
from kdissect.tables.array_batch import ArrayBatch


def group_by_client(exchanges: TableColumns) -> RowGroups:
    """Return exchanges grouped by connection and client id."""
    return group_rows(encode_runs(exchanges.ints("connection")), encode(exchanges.column("client_id")))


def api_codes(exchanges: TableColumns) -> tuple[Codes, Codes]:
    """Return the codes of API key and API version; both are null for a response without a request."""
    key, version = (
        encode_range(exchanges.ints(name), exchanges.present(name)) for name in ("api_key", "api_version")
    )
    return key, version


def count_calls(exchanges: TableColumns, clients: RowGroups) -> dict[str, ArrayBatch]:
    """Return the rows of CALLS and LATENCIES by table name."""
    idle = exchanges.bools("idle_wait")
    keys: dict[str, AnyColumn] = {"idle_wait": idle}
    for name in ("connection", "client_id", "api_key", "api_name", "api_version", "group_id", "status"):
        keys[name] = exchanges.column(name)
    group_id = encode(exchanges.column("group_id"))
    kinds = group_rows(
        group_codes(clients), *api_codes(exchanges), group_id, encode_range(idle.astype(np.int64))
    )
    calls = group_rows(group_codes(kinds), encode(exchanges.column("status")))
    taken = {name: take_rows(keys[name], calls.first) for name, _ in CALLS.keys}

    latency, sound = sound_latencies(exchanges)
    rows = np.flatnonzero(sound)
    bucket = latency_buckets(exchanges)[rows]
    buckets = group_rows(Codes(kinds.of[rows], kinds.count), encode_range(bucket))
    by_bucket = {
        name: take_rows(keys[name], rows[buckets.first]) for name, _ in LATENCIES.keys if name != "bucket"
    }
    by_bucket["bucket"] = bucket[buckets.first]
    return {
        CALLS.name: make_table(CALLS, calls, taken, _measures(exchanges, latency, sound)),
        LATENCIES.name: make_table(LATENCIES, buckets, by_bucket, {"count": np.ones(len(rows), bool)}),
    }


def _measures(exchanges: TableColumns, latency: Int64s, sound: Bools) -> dict[str, Measure]:
    has_request, has_response = exchanges.present("request_first_ns"), exchanges.present("response_first_ns")
    transfer = exchanges.ints("response_last_ns") - exchanges.ints("response_first_ns")
    moved = has_response & (transfer >= 0) & (transfer < MAX_LATENCY_NS)
    throttle = np.maximum(exchanges.ints("throttle_ms"), 0)
    in_flight = exchanges.ints("in_flight")
    acks, has_acks = exchanges.ints("acks"), exchanges.present("acks")
    first_ns = exchanges.coalesce("request_first_ns", "response_first_ns")
    last_ns = exchanges.coalesce("response_last_ns", "request_last_ns")
    return {
        "exchanges": np.ones(exchanges.rows, bool),
        "error_responses": exchanges.ints("error_code") != 0,
        "errors": exchanges.ints("error_count"),
        "faults": exchanges.present("fault"),
        "request_bytes": exchanges.ints("request_bytes"),
        "response_bytes": exchanges.ints("response_bytes"),
        "throttled": throttle > 0,
        "throttle_ms": throttle,
        "pipelined": in_flight > 1,
        "acks_none": has_acks & (acks == 0),
        "acks_leader": has_acks & (acks == 1),
        "acks_all": has_acks & (acks == -1),
        "timed": sound,
        "untimed": exchanges.present("latency_ns") & ~sound,
        "latency_ns": counted_latencies(exchanges),
        "transfer_ns": transfer * moved,
        "first_ns": (first_ns, has_request | has_response),
        "last_ns": (last_ns, has_request | has_response),
        "latency_min_ns": (latency, sound),
        "latency_max_ns": (latency, sound),
        "transfer_max_ns": (transfer, moved),
        "throttle_max_ms": throttle,
        "in_flight_max": in_flight,
    }
