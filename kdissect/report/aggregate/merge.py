"""Partial summaries: what one batch of the public tables contributes to a report, and how contributions add up.

In come batches of connections, exchanges and partitions (and of the side tables names and brokers) wherever they were
made; out goes a `Partial`, a set of small Arrow tables (see `parts`). Partials of any batches merge in any order to the
same result. One rule binds the maker of batches: the partitions of an exchange come with it, in the same call.

With a grid of time a partial also tells the course of events (see `course`), for which `ends` must come with exchanges.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from kdissect.report.aggregate.calls import callers, count_calls
from kdissect.report.aggregate.finding_inputs import note
from kdissect.report.aggregate.first_seen import sight
from kdissect.report.aggregate.grouping import Columns
from kdissect.report.aggregate.lag import count_lags
from kdissect.report.aggregate.partial_tables import (
    BROKERS,
    FACTS,
    LAGS,
    NAMES,
    NOTABLE,
    PARTS,
    SIGHTINGS,
    Part,
    rollup,
)
from kdissect.report.aggregate.row_limits import bounded
from kdissect.report.aggregate.topics import count_topics, locate
from kdissect.report.timeline.count import course
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.timeline_tables import COURSE
from kdissect.tables.schemas import PARTITIONS, TEXT

PARTIAL = pa.schema([("part", TEXT), ("rows", pa.binary())])
"""A partial on the wire: one row per part, its table as an Arrow IPC stream."""


@dataclass(frozen=True, slots=True)
class Partial:
    """A mergeable summary: one table for each part that has rows."""

    parts: Mapping[str, pa.Table]

    def part(self, part: Part) -> pa.Table:
        """Give the rows of a part."""
        return self.parts.get(part.name, part.schema.empty_table())


EMPTY = Partial({})
ALL_PARTS = PARTS | COURSE


def summarise(tables: Mapping[str, pa.RecordBatch | pa.Table], grid: Grid | None = None) -> Partial:
    """Give the partial summary of batches of `connections`, `exchanges`, `partitions`, `names` and `brokers`; any may be absent.

    A grid asks for the course of events too, for which there may be `ends`, `group_events` and `transaction_events`.
    """
    parts = {}
    for part in (FACTS, NAMES, BROKERS):
        if part.name in tables:
            parts[part.name] = rollup(
                part, _as_table(tables[part.name]).select(part.schema.names).cast(part.schema)
            )
    if "exchanges" in tables:
        exchanges, partitions = (
            Columns(tables["exchanges"]),
            Columns(tables.get("partitions", PARTITIONS.empty_table())),
        )
        caller, located = callers(exchanges), locate(partitions, exchanges)
        parts |= count_calls(exchanges, caller)
        parts[SIGHTINGS.name] = sight(exchanges, partitions, located)
        parts[NOTABLE.name] = note(exchanges, partitions, located, caller)
        parts[LAGS.name] = count_lags(partitions, exchanges, located, caller)
        parts |= count_topics(partitions, exchanges, located, caller)
        if grid is not None:
            parts |= course(tables, exchanges, partitions, located, grid)
    return Partial({name: rows for name, rows in parts.items() if rows.num_rows})


def merge(partials: Iterable[Partial]) -> Partial:
    """Add partials up; associative, commutative, and `EMPTY` changes nothing."""
    gathered: dict[str, list[pa.Table]] = {}
    for partial in partials:
        for name, rows in partial.parts.items():
            gathered.setdefault(name, []).append(rows)
    return Partial({name: _together(ALL_PARTS[name], tables) for name, tables in gathered.items()})


def _together(part: Part, tables: list[pa.Table]) -> pa.Table:
    return tables[0] if len(tables) == 1 else bounded(part, rollup(part, pa.concat_tables(tables)))


def to_arrow(partial: Partial) -> pa.RecordBatch:
    """Give a partial as a batch of schema `PARTIAL`."""
    blobs = [_serialised(rows) for rows in partial.parts.values()]
    return pa.record_batch(
        [pa.array(list(partial.parts), TEXT), pa.array(blobs, pa.binary())], schema=PARTIAL
    )


def from_arrow(batches: Iterable[pa.RecordBatch]) -> Partial:
    """Merge the partials in batches of schema `PARTIAL`; rows may be in any order.

    One part after the other is unpacked: all of them at once would take several times what the merged partial does.
    """
    packed: dict[str, list[pa.Buffer]] = {}
    for batch in batches:
        for name, rows in zip(batch["part"].to_pylist(), batch["rows"], strict=True):
            packed.setdefault(name, []).append(rows.as_buffer())
    merged = {}
    for name in sorted(packed):
        merged[name] = _together(
            ALL_PARTS[name], [pa.ipc.open_stream(blob).read_all() for blob in packed.pop(name)]
        )
        pa.default_memory_pool().release_unused()
    return Partial(merged)


def _as_table(batch: pa.RecordBatch | pa.Table) -> pa.Table:
    return pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch


def _serialised(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_table(rows)
    blob: bytes = sink.getvalue().to_pybytes()
    return blob
