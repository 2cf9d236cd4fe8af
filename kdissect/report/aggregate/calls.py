"""Counts, bytes and latencies of exchanges by connection, client id, API, version, group, status and wait.

Every step works on whole columns. A latency that cannot be is counted as untimed and left out of all other
figures: it is negative or of days, since the clock stepped or packets of several interfaces were merged.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.jit.many_rows import are_many, read_only
from kdissect.report.aggregate import call_loops as loops
from kdissect.report.aggregate.column_rows import AnyColumn, PlainColumn, take_rows
from kdissect.report.aggregate.grouping import (
    Codes,
    RowGroups,
    TableColumns,
    coarser,
    encode,
    encode_range,
    encode_runs,
    group_rows,
)
from kdissect.report.aggregate.partial_rows import (
    Measure,
    column_codes,
    make_table,
    measured,
    part_table,
    whole_numbers,
)
from kdissect.report.aggregate.partial_tables import CALLS, LATENCIES
from kdissect.report.aggregate.sound_latency import (
    MAX_LATENCY_NS,
    counted_latencies,
    latency_buckets,
    sound_latencies,
)
from kdissect.tables.array_batch import ArrayBatch
from kdissect.tables.column_values import every_row

KIND = ("connection", "client_id", "api_key", "api_version", "group_id", "idle_wait")
"""Columns by which most tables about exchanges are counted, beside the status of CALLS."""


def exchange_classes(exchanges: TableColumns) -> RowGroups:
    """Return exchanges grouped by `KIND` and status: the rows of CALLS.

    There are few classes for many exchanges. Grouping by some of these columns goes over the classes, and
    takes one number for each exchange. Each table went over all columns of all exchanges, which took half of
    the time for PACE and REPLIES.
    """
    return exchanges.once("classes", lambda: _classes(exchanges))


def _classes(exchanges: TableColumns) -> RowGroups:
    texts = (encode(exchanges.column(name)) for name in ("client_id", "group_id", "status"))
    idle = encode_range(exchanges.bools("idle_wait").astype(np.int64))
    return group_rows(encode_runs(exchanges.ints("connection")), *texts, *api_codes(exchanges), idle)


def class_columns(exchanges: TableColumns) -> Mapping[str, PlainColumn]:
    """Return the columns by which exchanges have classes, one row for each class."""
    return exchanges.once("class columns", lambda: _class_columns(exchanges))


def _class_columns(exchanges: TableColumns) -> dict[str, PlainColumn]:
    first = exchange_classes(exchanges).first
    columns: dict[str, AnyColumn] = {name: exchanges.column(name) for name in (*KIND, "status")}
    columns["idle_wait"] = exchanges.bools("idle_wait")
    return {name: take_rows(column, first) for name, column in columns.items()}


def group_classes(exchanges: TableColumns, names: Iterable[str]) -> RowGroups:
    """Return exchanges grouped by some columns of their classes."""
    columns = class_columns(exchanges)
    return coarser(exchange_classes(exchanges), *(column_codes(columns[name]) for name in names))


def group_by_client(exchanges: TableColumns) -> RowGroups:
    """Return exchanges grouped by connection and client id."""
    return exchanges.once("clients", lambda: group_classes(exchanges, KIND[:2]))


def api_codes(exchanges: TableColumns) -> tuple[Codes, Codes]:
    """Return the codes of API key and API version; both are null for a response without a request."""
    key, version = (
        encode_range(exchanges.ints(name), exchanges.present(name)) for name in ("api_key", "api_version")
    )
    return key, version


def count_calls(exchanges: TableColumns) -> dict[str, ArrayBatch]:
    """Return the rows of CALLS and LATENCIES by table name."""
    calls, kinds = exchange_classes(exchanges), group_classes(exchanges, KIND)
    taken: dict[str, AnyColumn] = dict(class_columns(exchanges))
    taken["api_name"] = take_rows(exchanges.column("api_name"), calls.first)

    rows = np.flatnonzero(sound_latencies(exchanges)[1])
    bucket = latency_buckets(exchanges)[rows]
    buckets = group_rows(Codes(kinds.of[rows], kinds.count), encode_range(bucket))
    by_bucket = {name: take_rows(taken[name], calls.of[rows[buckets.first]]) for name in KIND}
    by_bucket["bucket"] = bucket[buckets.first]
    return {
        CALLS.name: part_table(CALLS, {**taken, **class_counts(exchanges)}),
        LATENCIES.name: make_table(LATENCIES, buckets, by_bucket, {"count": every_row(len(rows))}),
    }


def class_counts(exchanges: TableColumns) -> Mapping[str, AnyColumn]:
    """Return the columns of CALLS that are counted, one row for each class of exchanges.

    They tell other tables which classes have what those look for.
    """
    return exchanges.once("class counts", lambda: _class_counts(exchanges))


def classes_with(exchanges: TableColumns, count: str) -> Bools:
    """Return the mask of classes of which a column of CALLS is above 0: only they have such exchanges."""
    return whole_numbers(class_counts(exchanges)[count])[0] > 0


def _class_counts(exchanges: TableColumns) -> dict[str, AnyColumn]:
    classes, (latency, sound) = exchange_classes(exchanges), sound_latencies(exchanges)
    if not are_many(exchanges.rows):
        return measured(CALLS, classes, _measures(exchanges, latency, sound).__getitem__)
    counts = loops.new_counts(classes.count)
    loops.add_up_calls(
        *map(
            read_only,
            (
                classes.of,
                *map(exchanges.ints, ("request_bytes", "response_bytes", "error_code", "error_count")),
                exchanges.present("fault"),
                *map(exchanges.ints, ("throttle_ms", "in_flight", "acks")),
                exchanges.present("acks"),
            ),
        ),
        counts,
    )
    loops.add_up_times(
        *map(
            read_only,
            (
                classes.of,
                latency,
                sound,
                exchanges.present("latency_ns"),
                exchanges.coalesce("request_first_ns", "response_first_ns"),
                exchanges.coalesce("response_last_ns", "request_last_ns"),
                *map(exchanges.present, ("request_first_ns", "response_first_ns")),
                *map(exchanges.ints, ("response_first_ns", "response_last_ns")),
            ),
        ),
        counts,
    )
    return dict(loops.count_columns(counts))


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
        "exchanges": every_row(exchanges.rows),
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
