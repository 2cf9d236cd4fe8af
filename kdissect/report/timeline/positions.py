"""How far readers, committers and writers are in each partition: the last offset of each step of time.

A Fetch request names the offset that it wants, and the response the high watermark. An OffsetCommit names the
offset up to which a group is done, an OffsetFetch response the one from which it continues, or -1 where the
coordinator knows none. A Produce response names the offset of its records. Lag is the distance between them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.protocol.api_keys import OFFSET_COMMITS, ApiKey
from kdissect.protocol.api_mask import in_apis
from kdissect.report.aggregate.column_rows import ColumnRows
from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.aggregate.partial_rows import join_rows, no_rows
from kdissect.report.aggregate.partial_tables import PartialTable
from kdissect.report.timeline.exchange_columns import (
    ExchangeColumns,
    make_timeline_table,
    partition_columns,
)
from kdissect.report.timeline.timeline_tables import CLIENT, WHERE
from kdissect.tables.array_batch import ArrayBatch
from kdissect.tables.coded_text import repeat_text

MOST_OFFSET = np.int64(1) << 62  # captured bytes may claim any


class PositionKind(NamedTuple):
    """One kind of offset, and the APIs that it comes from."""

    name: str
    apis: tuple[int, ...]


KINDS = (
    PositionKind("written", (ApiKey.PRODUCE,)),
    PositionKind("fetched", (ApiKey.FETCH,)),
    PositionKind("committed", (*OFFSET_COMMITS, ApiKey.OFFSET_FETCH)),
)
ABSENT = PositionKind("absent", (ApiKey.OFFSET_FETCH,))
"""No offset is committed: the response has NO_OFFSET."""

NO_OFFSET = -1


def find_positions(
    part: PartialTable,
    source: ExchangeColumns,
    partitions: TableColumns,
    exchange_rows: Int64s,
    kinds: Sequence[PositionKind] = KINDS,
) -> ArrayBatch:
    """Return the rows of a table like POSITIONS, with the kinds of offsets that it has."""
    api, offset, end = (partitions.ints(name) for name in ("api_key", "offset", "high_watermark"))
    answered = source.exchanges.present("response_first_ns")
    sound = (exchange_rows >= 0) & (partitions.ints("error_code") == 0) & partitions.present("offset")
    sound &= answered[np.maximum(exchange_rows, 0)] if source.exchanges.rows else False
    absent = sound & (offset == NO_OFFSET)
    sound &= (offset >= 0) & (offset < MOST_OFFSET)
    has_end = partitions.present("high_watermark") & (end >= 0) & (end < MOST_OFFSET)
    written = offset + np.clip(partitions.ints("records"), 0, 1 << 40)
    tables = [
        _rows(
            part,
            kind,
            source,
            partitions,
            exchange_rows,
            _wanted(kind, api, absent if kind is ABSENT else sound, has_end),
            written,
        )
        for kind in kinds
    ]
    return join_rows(part, tables)


def _wanted(kind: PositionKind, api: Int64s, sound: Bools, has_end: Bools) -> Int64s:
    wanted = sound & in_apis(api, kind.apis)
    return np.flatnonzero(wanted & has_end if kind.name == "fetched" else wanted)


def _rows(
    part: PartialTable,
    kind: PositionKind,
    source: ExchangeColumns,
    partitions: TableColumns,
    exchange_rows: Int64s,
    rows: Int64s,
    written: Int64s,
) -> ArrayBatch:
    if not len(rows):
        return no_rows(part)
    exchange = exchange_rows[rows]
    who = () if kind.name == "written" else ("group_id", *CLIENT)
    places = (name for name, _ in WHERE if name in part.order)
    columns = partition_columns(source, partitions, exchange_rows, rows, ("step", *who, *places))
    columns["offset"] = ColumnRows(partitions.column("offset"), rows)
    columns |= {"order_ns": -source.begin[exchange], "exchanges": np.ones(len(rows), np.int64)}
    columns["kind"] = repeat_text(kind.name, len(rows))
    if kind.name == "written":
        columns["end_offset"] = written[rows]
    if kind.name == "fetched":
        columns["end_offset"] = ColumnRows(partitions.column("high_watermark"), rows)
    return make_timeline_table(part, columns)
