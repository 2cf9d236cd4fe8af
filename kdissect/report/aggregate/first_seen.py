"""Locations where errors, faults, unanswered requests, orphan responses and throttling were first seen.

Each kind of thing and each of its groups has a count and one location: time, capture file, packet numbers,
connection, client and topic of the first occurrence (for `slowest`: of the longest latency). Ties are broken
by the other columns of the location, so the choice does not depend on the order of arrival.

An error is counted once for each exchange that carries it, at the top or in any partition, and once for each
partition.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kdissect.array_types import Int64s
from kdissect.report.aggregate.calls import (
    api_codes,
    class_columns,
    class_counts,
    classes_with,
    exchange_classes,
    group_classes,
)
from kdissect.report.aggregate.column_rows import AnyColumn, take_rows
from kdissect.report.aggregate.group_loops import HIGHEST, LOWEST
from kdissect.report.aggregate.group_sums import highest_values, lowest_values, sum_by_group
from kdissect.report.aggregate.grouping import (
    Codes,
    RowGroups,
    TableColumns,
    encode,
    encode_range,
    group_rows,
    nullable_ints,
)
from kdissect.report.aggregate.partial_rows import column_codes, join_leaders, part_table, whole_numbers
from kdissect.report.aggregate.partial_tables import FIRST_SEEN, table_fields
from kdissect.report.aggregate.sound_latency import sound_latencies
from kdissect.tables.array_batch import ArrayBatch
from kdissect.tables.coded_text import CodedText, NumberColumn, null_column, repeat_text
from kdissect.tables.column import INT16

API = ("api_key", "api_version")
NUMBERS = r"[0-9]+"
"""Lengths, offsets and indexes vary between faults of the same shape: `#` stands for each of them."""


def find_first_seen(exchanges: TableColumns, partitions: TableColumns, exchange_rows: Int64s) -> ArrayBatch:
    """Return the rows of FIRST_SEEN."""
    of_exchanges = [*_top_errors(exchanges, partitions, exchange_rows)]
    of_partitions = [*_partition_errors(exchanges, partitions, exchange_rows)]
    tables = [*_by_status(exchanges), *_faults(exchanges), *of_exchanges]
    return join_leaders(FIRST_SEEN, [*tables, *of_partitions], apart=not (of_exchanges and of_partitions))


def _by_status(exchanges: TableColumns) -> Iterator[ArrayBatch]:
    api, of_class = group_classes(exchanges, API), class_columns(exchanges)
    begin = exchanges.coalesce("request_first_ns", "response_first_ns")
    answer = exchanges.coalesce("response_first_ns", "request_first_ns")
    status = of_class["status"]
    assert isinstance(status, CodedText)
    kinds = (
        ("unanswered", status.equals("unanswered"), begin),
        ("orphan", status.equals("orphan_response"), answer),
        ("throttled", classes_with(exchanges, "throttled"), answer),
    )
    for kind, classes, time in kinds:
        if not classes.any():
            continue
        mask = classes.take(exchange_classes(exchanges).of)
        rows = np.flatnonzero(mask & (exchanges.ints("throttle_ms") > 0) if kind == "throttled" else mask)
        occurrences = Occurrences(kind, rows, replace(api, of=api.of[rows]), time[rows], time[rows])
        yield _first_of_each(occurrences, exchanges, {"exchanges": np.ones(len(rows), bool)})
    yield from _slowest(exchanges, begin)


def _slowest(exchanges: TableColumns, begin: Int64s) -> Iterator[ArrayBatch]:
    """Yield the exchanges that waited longest among those of their API, though not by design.

    The longest latency of each class is counted already. Only rows that have the longest one of their API are
    looked at; sums by row took 15 ns an exchange, and this takes 4.
    """
    classes, of_class = exchange_classes(exchanges), class_columns(exchanges)
    served = classes_with(exchanges, "timed") & (whole_numbers(of_class["idle_wait"])[0] == 0)
    if not served.any():
        return
    counts = class_counts(exchanges)
    (longest, _), (timed, _) = whole_numbers(counts["latency_max_ns"]), whole_numbers(counts["timed"])
    api = group_rows(*(column_codes(of_class[name]) for name in API))
    wanted = np.where(served, highest_values(api, longest, served)[api.of], LOWEST)
    latency, sound = sound_latencies(exchanges)
    rows = np.flatnonzero(sound & (latency == wanted.take(classes.of)))
    groups = replace(api, of=api.of[classes.of[rows]])
    found = Occurrences("slowest", rows, groups, -latency[rows], begin[rows])
    yield _first_of_each(found, exchanges, {}, {"exchanges": sum_by_group(api, timed * served)})


def _faults(exchanges: TableColumns) -> Iterator[ArrayBatch]:
    if not classes_with(exchanges, "faults").any():
        return
    rows = np.flatnonzero(exchanges.present("fault"))
    fault = exchanges.text("fault").take(rows).arrow()
    shape = pc.replace_substring_regex(fault, NUMBERS, "#")
    time = exchanges.coalesce("request_first_ns", "response_first_ns")[rows]
    key, version = (Codes(column.numbers[rows], column.bound) for column in api_codes(exchanges))
    occurrences = Occurrences("fault", rows, group_rows(key, version, encode(shape)), time, time)
    yield _first_of_each(
        occurrences, exchanges, {"exchanges": np.ones(len(rows), bool), "name": shape, "detail": fault}
    )


def _top_errors(
    exchanges: TableColumns, partitions: TableColumns, exchange_rows: Int64s
) -> Iterator[ArrayBatch]:
    """Yield the errors of exchanges that no partition of theirs repeats."""
    if not classes_with(exchanges, "error_responses").any():
        return
    rows, parts = (np.flatnonzero(table.ints("error_code") != 0) for table in (exchanges, partitions))
    repeated = _error_ids(exchange_rows[parts], partitions.ints("error_code")[parts])
    rows = rows[np.isin(_error_ids(rows, exchanges.ints("error_code")[rows]), repeated, invert=True)]
    code = exchanges.ints("error_code")[rows]
    time = exchanges.coalesce("response_first_ns", "request_first_ns")[rows]
    name = take_rows(exchanges.column("error_name"), rows)
    occurrences = Occurrences(
        "error",
        rows,
        group_rows(encode_range(exchanges.ints("api_key")[rows]), encode_range(code), encode(name)),
        time,
        time,
    )
    columns: dict[str, AnyColumn] = {"exchanges": np.ones(len(rows), bool), "code": code, "name": name}
    yield _first_of_each(occurrences, exchanges, columns | {"api_version": pa.nulls(len(rows), INT16)})


def _partition_errors(
    exchanges: TableColumns, partitions: TableColumns, exchange_rows: Int64s
) -> Iterator[ArrayBatch]:
    parts = np.flatnonzero(partitions.ints("error_code") != 0)
    if not len(parts):
        return
    rows, code = exchange_rows[parts], partitions.ints("error_code")[parts]
    once = np.zeros(len(parts), bool)
    once[np.unique(_error_ids(rows, code), return_index=True)[1]] = True
    there = rows >= 0
    time = np.full(len(parts), HIGHEST)
    time[there] = exchanges.coalesce("response_first_ns", "request_first_ns")[rows[there]]
    name = take_rows(partitions.column("error_name"), parts)
    occurrences = Occurrences(
        "error",
        rows,
        group_rows(encode_range(partitions.ints("api_key")[parts]), encode_range(code), encode(name)),
        time,
        time,
    )
    columns: dict[str, AnyColumn] = {
        "exchanges": once & there,
        "partitions": np.ones(len(parts), bool),
        "code": code,
        "name": name,
        "api_version": pa.nulls(len(parts), INT16),
        **{
            column: take_rows(partitions.column(column), parts)
            for column in ("api_key", "topic", "topic_id", "partition")
        },
    }
    yield _first_of_each(occurrences, exchanges, columns)


def _error_ids(rows: Int64s, code: Int64s) -> Int64s:
    """Return one number for each exchange and 16-bit error code."""
    return (rows << 16) + code


class Occurrences(NamedTuple):
    """Exchanges of one kind: rows (-1 for none), groups, the order that decides which is first, and times."""

    kind: str
    rows: Int64s
    groups: RowGroups
    order: Int64s
    time: Int64s


def _first_of_each(
    occurrences: Occurrences,
    exchanges: TableColumns,
    columns: dict[str, AnyColumn],
    totals: Mapping[str, Int64s] = MappingProxyType({}),
) -> ArrayBatch:
    """Keep of each group the rows that may come first, and give one of them the counts of the whole group.

    `columns` stand beside the sightings and in for those of the exchange. `totals` are counts by group.
    """
    best = lowest_values(occurrences.groups, occurrences.order)
    kept = np.flatnonzero(occurrences.order == best[occurrences.groups.of])
    groups, leaders = np.unique(occurrences.groups.of[kept], return_index=True)
    there = occurrences.rows[kept] >= 0
    rows = occurrences.rows[kept]
    index = nullable_ints(rows, there)
    made: dict[str, AnyColumn] = {
        "kind": repeat_text(occurrences.kind, len(kept)),
        "order_ns": nullable_ints(occurrences.order[kept], there),
        "time_ns": nullable_ints(occurrences.time[kept], there),
    }
    for name in FIRST_SEEN.sums:
        total = np.zeros(len(kept), np.int64)
        if name in totals:
            total[leaders] = totals[name][groups]
        elif name in columns:
            counted = columns[name]
            assert isinstance(counted, np.ndarray)
            total[leaders] = sum_by_group(occurrences.groups, counted)[groups]
        made[name] = total
    of_exchanges = frozenset(exchanges.table.schema.names)
    for name, kind, _ in table_fields(FIRST_SEEN):
        if name in made:
            continue
        if name in columns:
            made[name] = take_rows(columns[name], kept)
        elif name in of_exchanges:
            column = exchanges.column(name)
            made[name] = column.take(rows if isinstance(column, CodedText | NumberColumn) else index)
        else:
            made[name] = null_column(len(kept), kind)
    return part_table(FIRST_SEEN, made)
