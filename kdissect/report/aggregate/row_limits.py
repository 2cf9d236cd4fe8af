"""How the tables of a partial report stay small: ranges that touch become one, light rows give up keys.

No count is lost: a row that gives up its keys joins the others that did. Some tables keep the first rows in
an order of their keys, so they keep the same for any division of the work. Others keep heavy rows, and which
rows are light is decided where rows meet. With more rows than such a table keeps, the division of the work
may therefore decide which of the light rows stay separate, but not their sums.
"""

import numpy as np
import pyarrow as pa

from kdissect.array_types import Bools, Int64s
from kdissect.report.aggregate.group_sums import sum_by_group
from kdissect.report.aggregate.grouping import Codes, RowGroups, TableColumns, encode, group_rows
from kdissect.report.aggregate.partial_rows import (
    array_rows,
    plain_rows,
    roll_up,
    roll_up_groups,
    sort_numbers,
)
from kdissect.report.aggregate.partial_tables import PartialTable
from kdissect.tables.array_batch import ArrayBatch, ArrayColumn, arrow_column
from kdissect.tables.coded_text import CodedText
from kdissect.tables.column_values import run_starts

ENDLESS = 1 << 30
"""Steps of a span without an end, more than any grid has."""

SCATTER = 0x9E37_79B1
"""Multiplied by this, the lower half of numbers that lie together lies apart: Knuth, vol. 3, section 6.4."""


def limit_rows(part: PartialTable, rows: pa.Table | ArrayBatch) -> ArrayBatch:
    """Return the rows of a table, with keys given up until there are no more rows than the table keeps."""
    if part.run[0]:
        rows = _in_runs(part, plain_rows(part, rows))
    rows = array_rows(part, rows)
    if not part.most:
        return rows
    if part.earliest:
        return _first_half(part, rows, tuple(name for name, _ in part.keys))
    spare = part.spare
    if part.longest[0]:
        rows, spare = _first_half(part, rows, spare[0]), spare[1:]
    for names in spare:
        if rows.num_rows > part.most:
            rows = _without(part, rows, names)
    return rows


def keeps_first_half(part: PartialTable) -> bool:
    """Return whether a table keeps the first rows in an order of its keys."""
    return bool(part.earliest or part.longest[0])


def is_spent(part: PartialTable, columns: TableColumns) -> Bools:
    """Return which rows of a table that keeps its first half have given up their keys."""
    return ~columns.present(part.earliest or part.spare[0][0])


def _without(part: PartialTable, table: ArrayBatch, names: tuple[str, ...]) -> ArrayBatch:
    """Return the table with `names` null but for the heaviest values, which have at most half of the rows."""
    columns = TableColumns(table)
    groups = group_rows(*(_codes_in_order(table.column(name)) for name in names))
    weight, rows = (
        sum_by_group(groups, columns.ints(part.sums[0])),
        np.bincount(groups.of, minlength=groups.count),
    )
    order = np.lexsort((np.arange(groups.count), -weight))
    kept = np.zeros(groups.count, bool)
    kept[order] = np.cumsum(rows[order]) <= part.most // 2
    return roll_up(part, _nulled(table, names, ~kept[groups.of]))


def _first_half(part: PartialTable, table: ArrayBatch, names: tuple[str, ...]) -> ArrayBatch:
    """Return the table with `names` null but for its first rows, as many as half of its limit.

    This is done if there are more rows than the limit, and whenever a row has done it before. The order is
    one of keys: a row that is among the first of all rows is so among any of them. So the result is the
    same for any division of the work.
    """
    columns = TableColumns(table)
    spent = is_spent(part, columns)
    if table.num_rows <= part.most and not spent.any():
        return table
    late = np.ones(table.num_rows, bool)
    late[_first_rows(part, columns, np.flatnonzero(~spent), part.most // 2)] = False
    return roll_up(part, _nulled(table, names, late))


def _first_rows(part: PartialTable, columns: TableColumns, rows: Int64s, most: int) -> Int64s:
    """Return the first of some rows by rank, then by keys. To sort all of them takes ten times as long."""
    if len(rows) <= most:
        return rows
    rank = _rank(part, columns)[rows]
    last = np.partition(rank, most - 1)[most - 1]
    before, equal = rows[rank < last], rows[rank == last]
    chosen = columns.take(equal)
    order = np.lexsort([key for name, _ in part.keys for key in sort_numbers(chosen.column(name))][::-1])
    return np.append(before, equal[order[: most - len(before)]])


def _rank(part: PartialTable, columns: TableColumns) -> Int64s:
    """Return numbers by which the earliest rows are first, or the longest spans, a sample of equal ones."""
    if part.earliest:
        return columns.ints(part.earliest)
    begin, end = part.longest
    length = np.where(columns.present(end), columns.ints(end) - columns.ints(begin), ENDLESS)
    return (columns.ints(part.spare[0][0]) * SCATTER & 0xFFFF_FFFF) - (length << 32)


def _codes_in_order(column: ArrayColumn) -> Codes:
    """Return codes in the order of rows, by which values that weigh the same are kept."""
    return encode(column.by_appearance() if isinstance(column, CodedText) else arrow_column(column))


def _nulled(table: ArrayBatch, names: tuple[str, ...], rows: Bools) -> ArrayBatch:
    """Return the table with some columns null in the rows of a mask."""
    kept = np.where(rows, -1, np.arange(table.num_rows))
    columns = {name: table.column(name) for name in table.schema.names}
    parts = {name: [column.take(kept) if name in names else column] for name, column in columns.items()}
    return ArrayBatch(parts, table.schema, table.num_rows)


def _in_runs(part: PartialTable, table: pa.Table) -> ArrayBatch:
    """Return the table with ranges of the same keys joined if they touch or overlap."""
    start, stop = part.run
    columns = TableColumns(table)
    same = group_rows(*(encode(columns.arrow(name)) for name, _ in part.keys if name != start))
    order = np.lexsort((columns.ints(start), same.of))
    runs = _runs(same.of[order], columns.ints(start)[order], columns.ints(stop)[order])
    first = run_starts(runs)
    ordered = TableColumns(table.take(pa.array(order)))
    taken = {name: ordered.column(name) for name in part.schema.names}
    return roll_up_groups(part, taken, RowGroups(runs, len(first), first), first)


def _runs(key: Int64s, start: Int64s, stop: Int64s) -> Int64s:
    """Return the number of the run of each range, ranges in order of (key, start).

    A new run begins with a new key, and after all earlier ranges of the key have ended.
    """
    if not len(key):
        return key
    # Each key's stops are lifted above those of the keys before, so that one running maximum serves all.
    lift = (int(stop.max()) + 1) * key
    reached = np.maximum.accumulate(lift + stop)
    fresh = np.r_[True, (key[1:] != key[:-1]) | ((lift + start)[1:] > reached[:-1])]
    return np.cumsum(fresh) - 1
