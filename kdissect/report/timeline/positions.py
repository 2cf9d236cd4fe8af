"""How far readers, committers and writers are in each partition: the last offset of each step of time.

A Fetch request names the offset that it wants, and the response the high watermark. An OffsetCommit names the
offset up to which a group is done, an OffsetFetch response the one from which it continues, or -1 where the
coordinator knows none. A Produce response names the offset of its records. Lag is the distance between them.
"""

from collections.abc import Sequence

import numpy as np

from kdissect.array_types import Int64s
from kdissect.report.aggregate.chosen_partitions import chosen_partitions
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
from kdissect.tables.column_values import every_row

OF_PAGE = ("written", "fetched", "committed")
"""The kinds of offsets that the page shows; names are those of `ChosenPartitions`."""

KINDS = (*OF_PAGE, "absent")
"""All kinds. Absent: no offset is committed."""


def find_positions(
    part: PartialTable,
    source: ExchangeColumns,
    partitions: TableColumns,
    exchange_rows: Int64s,
    kinds: Sequence[str] = OF_PAGE,
) -> ArrayBatch:
    """Return the rows of a table like POSITIONS, with some kinds of offsets."""
    chosen = chosen_partitions(partitions, source.exchanges, exchange_rows)._asdict()
    tables = [_rows(part, kind, source, partitions, exchange_rows, chosen[kind]) for kind in kinds]
    return join_rows(part, tables)


def _rows(
    part: PartialTable,
    kind: str,
    source: ExchangeColumns,
    partitions: TableColumns,
    exchange_rows: Int64s,
    rows: Int64s,
) -> ArrayBatch:
    if not len(rows):
        return no_rows(part)
    exchange = exchange_rows[rows]
    who = () if kind == "written" else ("group_id", *CLIENT)
    places = (name for name, _ in WHERE if name in part.order)
    columns = partition_columns(source, partitions, exchange_rows, rows, ("step", *who, *places))
    columns["offset"] = ColumnRows(partitions.column("offset"), rows)
    columns |= {"order_ns": -source.begin[exchange], "exchanges": every_row(len(rows))}
    columns["kind"] = repeat_text(kind, len(rows))
    if kind == "written":
        records = np.clip(partitions.ints("records")[rows], 0, 1 << 40)
        columns["end_offset"] = partitions.ints("offset")[rows] + records
    if kind == "fetched":
        columns["end_offset"] = ColumnRows(partitions.column("high_watermark"), rows)
    return make_timeline_table(part, columns)
