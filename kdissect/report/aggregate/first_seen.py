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
    NOWHERE,
    Coded,
    Columns,
    Groups,
    Mask,
    added,
    coded,
    grouped,
    narrow,
    nullable,
    timed,
)
from kdissect.report.aggregate.histogram import Ints
from kdissect.report.aggregate.partial_tables import (
    SIGHTINGS,
    Column,
    picked,
    rollup,
)
from kdissect.tables.schemas import INT16

NUMBERS = r"[0-9]+"
"""Lengths, offsets and indexes vary from fault to fault of the same shape; `#` stands for each in its name."""


KINDS = {name: pa.scalar(name) for name in ("unanswered", "orphan", "throttled", "slowest", "fault", "error")}


def sight(exchanges: Columns, partitions: Columns, located: Ints) -> pa.Table:
    """Give the SIGHTINGS part."""
    found = [*_plain(exchanges), *_faults(exchanges), *_top_errors(exchanges, partitions, located)]
    found += _partition_errors(exchanges, partitions, located)
    return rollup(SIGHTINGS, pa.concat_tables(found))


def _plain(exchanges: Columns) -> Iterator[pa.Table]:
    api = grouped(*api_codes(exchanges))
    latency, sound = timed(exchanges)
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
        seen = Seen(kind, rows, replace(api, of=api.of[rows]), order[rows], time[rows])
        yield _sightings(seen, exchanges, {"exchanges": np.ones(len(rows), bool)})


def _faults(exchanges: Columns) -> Iterator[pa.Table]:
    rows = np.flatnonzero(exchanges.known("fault"))
    fault = picked(exchanges.plain("fault"), rows)
    shape = pc.replace_substring_regex(fault, NUMBERS, "#")
    time = exchanges.either("request_first_ns", "response_first_ns")[rows]
    key, version = (Coded(column.numbers[rows], column.bound) for column in api_codes(exchanges))
    seen = Seen("fault", rows, grouped(key, version, coded(shape)), time, time)
    yield _sightings(seen, exchanges, {"exchanges": np.ones(len(rows), bool), "name": shape, "detail": fault})


def _top_errors(exchanges: Columns, partitions: Columns, located: Ints) -> Iterator[pa.Table]:
    """Errors of exchanges that no partition of theirs repeats."""
    rows, parts = (np.flatnonzero(table.ints("error_code") != 0) for table in (exchanges, partitions))
    repeated = _marks(located[parts], partitions.ints("error_code")[parts])
    rows = rows[np.isin(_marks(rows, exchanges.ints("error_code")[rows]), repeated, invert=True)]
    code = exchanges.ints("error_code")[rows]
    time = exchanges.either("response_first_ns", "request_first_ns")[rows]
    name = picked(exchanges.plain("error_name"), rows)
    seen = Seen(
        "error", rows, grouped(narrow(exchanges.ints("api_key")[rows]), narrow(code), coded(name)), time, time
    )
    columns: dict[str, Column] = {"exchanges": np.ones(len(rows), bool), "code": code, "name": name}
    yield _sightings(seen, exchanges, columns | {"api_version": pa.nulls(len(rows), INT16)})


def _partition_errors(exchanges: Columns, partitions: Columns, located: Ints) -> Iterator[pa.Table]:
    parts = np.flatnonzero(partitions.ints("error_code") != 0)
    rows, code = located[parts], partitions.ints("error_code")[parts]
    once = np.zeros(len(parts), bool)
    once[np.unique(_marks(rows, code), return_index=True)[1]] = True
    there = rows >= 0
    time = np.full(len(parts), NOWHERE.max)
    time[there] = exchanges.either("response_first_ns", "request_first_ns")[rows[there]]
    name = picked(partitions.plain("error_name"), parts)
    seen = Seen(
        "error",
        rows,
        grouped(narrow(partitions.ints("api_key")[parts]), narrow(code), coded(name)),
        time,
        time,
    )
    columns: dict[str, Column] = {
        "exchanges": once & there,
        "partitions": np.ones(len(parts), bool),
        "code": code,
        "name": name,
        "api_version": pa.nulls(len(parts), INT16),
        **{
            column: picked(partitions.plain(column), parts)
            for column in ("api_key", "topic", "topic_id", "partition")
        },
    }
    yield _sightings(seen, exchanges, columns)


def _marks(rows: Ints, code: Ints) -> Ints:
    """Give one number per exchange and 16-bit error code."""
    return (rows << 16) + code


class Seen(NamedTuple):
    """Sightings of one kind: rows of exchanges (-1 for none), their groups, what decides the first, and when."""

    kind: str
    rows: Ints
    groups: Groups
    order: Ints
    time: Ints


def _sightings(seen: Seen, exchanges: Columns, columns: dict[str, Column]) -> pa.Table:
    """Keep of each group the rows that may come first, and give one of them the counts of the whole group.

    `display_width` stand beside the sightings and in for those of the exchange.
    """
    best = np.full(seen.groups.count, NOWHERE.max)
    np.minimum.at(best, seen.groups.of, seen.order)
    kept = np.flatnonzero(seen.order == best[seen.groups.of])
    groups, leaders = np.unique(seen.groups.of[kept], return_index=True)
    there = seen.rows[kept] >= 0
    index = nullable(seen.rows[kept], there)
    made: dict[str, Column] = {
        "kind": pa.repeat(KINDS[seen.kind], len(kept)),
        "order_ns": nullable(seen.order[kept], there),
        "time_ns": nullable(seen.time[kept], there),
    }
    for field in SIGHTINGS.schema:
        if field.name in SIGHTINGS.sums:
            total = np.zeros(len(kept), np.int64)
            total[leaders] = added(seen.groups, columns.get(field.name, np.zeros(len(seen.rows), bool)))[
                groups
            ]
            made[field.name] = total
        elif field.name in columns:
            made[field.name] = picked(columns[field.name], kept)
        elif field.name in exchanges.table.schema.names and field.name not in made:
            made[field.name] = exchanges.plain(field.name).take(index)
        elif field.name not in made:
            made[field.name] = pa.nulls(len(kept), field.type)
    return pa.table({name: made[name] for name in SIGHTINGS.schema.names}).cast(SIGHTINGS.schema)
