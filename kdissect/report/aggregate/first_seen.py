"""Where things were first seen: errors, faults, requests without answer, answers without request, throttling, the slowest.

For each kind of thing and each of its groups there is a count and one place: time, capture file, packet numbers,
connection, client and topic of the first sighting (for `slowest`: of the longest latency). Ties are broken by the other
columns of the place, so the choice does not depend on the order of arrival.

An error is counted once per exchange that carries it, at the top or in any partition, and once per partition row.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kdissect.report.aggregate.calls import api_codes
from kdissect.report.aggregate.grouping import (
    INT64_RANGE,
    Codes,
    Mask,
    RowGroups,
    TableColumns,
    encode,
    encode_range,
    group_rows,
    nullable_ints,
    sound_latencies,
    sum_by_group,
)
from kdissect.report.aggregate.histogram import Ints
from kdissect.report.aggregate.partial_tables import (
    FIRST_SEEN,
    AnyColumn,
    roll_up,
    take_rows,
)
from kdissect.tables.schemas import INT16

NUMBERS = r"[0-9]+"
"""Lengths, offsets and indexes vary from fault to fault of the same shape; `#` stands for each in its name."""


KINDS = {name: pa.scalar(name) for name in ("unanswered", "orphan", "throttled", "slowest", "fault", "error")}


def find_first_seen(exchanges: TableColumns, partitions: TableColumns, located: Ints) -> pa.Table:
    """Give the SIGHTINGS part."""
    found = [*_plain(exchanges), *_faults(exchanges), *_top_errors(exchanges, partitions, located)]
    found += _partition_errors(exchanges, partitions, located)
    return roll_up(FIRST_SEEN, pa.concat_tables(found))


def _plain(exchanges: TableColumns) -> Iterator[pa.Table]:
    api = group_rows(*api_codes(exchanges))
    latency, sound = sound_latencies(exchanges)
    begin = exchanges.either("request_first_ns", "response_first_ns")
    answer = exchanges.either("response_first_ns", "request_first_ns")
    kinds: tuple[tuple[str, Mask, Ints, Ints], ...] = (
        ("unanswered", exchanges.equals("status", "unanswered"), begin, begin),
        ("orphan", exchanges.equals("status", "orphan_response"), answer, answer),
        ("throttled", exchanges.ints("throttle_ms") > 0, answer, answer),
        ("slowest", sound & ~exchanges.truths("idle_wait"), -latency, begin),
    )
    for kind, mask, order, time in kinds:
        rows = np.flatnonzero(mask)
        seen = Occurrences(kind, rows, replace(api, of=api.of[rows]), order[rows], time[rows])
        yield _sightings(seen, exchanges, {"exchanges": np.ones(len(rows), bool)})


def _faults(exchanges: TableColumns) -> Iterator[pa.Table]:
    rows = np.flatnonzero(exchanges.known("fault"))
    fault = take_rows(exchanges.plain("fault"), rows)
    shape = pc.replace_substring_regex(fault, NUMBERS, "#")
    time = exchanges.either("request_first_ns", "response_first_ns")[rows]
    key, version = (Codes(column.numbers[rows], column.bound) for column in api_codes(exchanges))
    seen = Occurrences("fault", rows, group_rows(key, version, encode(shape)), time, time)
    yield _sightings(seen, exchanges, {"exchanges": np.ones(len(rows), bool), "name": shape, "detail": fault})


def _top_errors(exchanges: TableColumns, partitions: TableColumns, located: Ints) -> Iterator[pa.Table]:
    """Errors of exchanges that no partition of theirs repeats."""
    rows, parts = (np.flatnonzero(table.ints("error_code") != 0) for table in (exchanges, partitions))
    repeated = _marks(located[parts], partitions.ints("error_code")[parts])
    rows = rows[np.isin(_marks(rows, exchanges.ints("error_code")[rows]), repeated, invert=True)]
    code = exchanges.ints("error_code")[rows]
    time = exchanges.either("response_first_ns", "request_first_ns")[rows]
    name = take_rows(exchanges.plain("error_name"), rows)
    seen = Occurrences(
        "error",
        rows,
        group_rows(encode_range(exchanges.ints("api_key")[rows]), encode_range(code), encode(name)),
        time,
        time,
    )
    columns: dict[str, AnyColumn] = {"exchanges": np.ones(len(rows), bool), "code": code, "name": name}
    yield _sightings(seen, exchanges, columns | {"api_version": pa.nulls(len(rows), INT16)})


def _partition_errors(exchanges: TableColumns, partitions: TableColumns, located: Ints) -> Iterator[pa.Table]:
    parts = np.flatnonzero(partitions.ints("error_code") != 0)
    rows, code = located[parts], partitions.ints("error_code")[parts]
    once = np.zeros(len(parts), bool)
    once[np.unique(_marks(rows, code), return_index=True)[1]] = True
    there = rows >= 0
    time = np.full(len(parts), INT64_RANGE.max)
    time[there] = exchanges.either("response_first_ns", "request_first_ns")[rows[there]]
    name = take_rows(partitions.plain("error_name"), parts)
    seen = Occurrences(
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
            column: take_rows(partitions.plain(column), parts)
            for column in ("api_key", "topic", "topic_id", "partition")
        },
    }
    yield _sightings(seen, exchanges, columns)


def _marks(rows: Ints, code: Ints) -> Ints:
    """Give one number per exchange and 16-bit error code."""
    return (rows << 16) + code


class Occurrences(NamedTuple):
    """Sightings of one kind: rows of exchanges (-1 for none), their groups, what decides the first, and when."""

    kind: str
    rows: Ints
    groups: RowGroups
    order: Ints
    time: Ints


def _sightings(seen: Occurrences, exchanges: TableColumns, columns: dict[str, AnyColumn]) -> pa.Table:
    """Keep of each group the rows that may come first, and give one of them the counts of the whole group.

    `columns` stand beside the sightings and in for those of the exchange.
    """
    best = np.full(seen.groups.count, INT64_RANGE.max)
    np.minimum.at(best, seen.groups.of, seen.order)
    kept = np.flatnonzero(seen.order == best[seen.groups.of])
    groups, leaders = np.unique(seen.groups.of[kept], return_index=True)
    there = seen.rows[kept] >= 0
    index = nullable_ints(seen.rows[kept], there)
    made: dict[str, AnyColumn] = {
        "kind": pa.repeat(KINDS[seen.kind], len(kept)),
        "order_ns": nullable_ints(seen.order[kept], there),
        "time_ns": nullable_ints(seen.time[kept], there),
    }
    for field in FIRST_SEEN.schema:
        if field.name in FIRST_SEEN.sums:
            total = np.zeros(len(kept), np.int64)
            total[leaders] = sum_by_group(
                seen.groups, columns.get(field.name, np.zeros(len(seen.rows), bool))
            )[groups]
            made[field.name] = total
        elif field.name in columns:
            made[field.name] = take_rows(columns[field.name], kept)
        elif field.name in exchanges.table.schema.names and field.name not in made:
            made[field.name] = exchanges.plain(field.name).take(index)
        elif field.name not in made:
            made[field.name] = pa.nulls(len(kept), field.type)
    return pa.table({name: made[name] for name in FIRST_SEEN.schema.names}).cast(FIRST_SEEN.schema)
