"""Sums, extremes and first rows by group."""

from collections.abc import Callable, Iterable
from itertools import chain

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.jit.many_rows import are_many, read_only
from kdissect.report.aggregate import group_loops as loops
from kdissect.report.aggregate.group_loops import HIGHEST, LOWEST
from kdissect.report.aggregate.grouping import RowGroups
from kdissect.tables.array_batch import number_column
from kdissect.tables.coded_text import NumberColumn
from kdissect.tables.column import INT64
from kdissect.tables.column_values import every_row

Loop = Callable[..., None]


def sum_by_group(groups: RowGroups, values: Int64s | Bools) -> Int64s:
    """Return the sum of values for each group; a mask is counted."""
    sums = np.zeros(groups.count, np.int64)
    if are_many(len(values)):
        add = loops.count_rows if values.dtype == bool else loops.add_rows
        add(read_only(groups.of), read_only(values), sums)
        return sums
    if values.dtype == bool:
        return np.bincount(groups.of[values], minlength=groups.count).astype(np.int64)
    np.add.at(sums, groups.of, values)
    return sums


def lowest_by_group(groups: RowGroups, values: Int64s, present: Bools) -> NumberColumn:
    """Return the lowest present value of each group, null if there is none."""
    extremes = lowest_values(groups, values, present)
    return number_column(extremes, extremes < HIGHEST, INT64)


def highest_by_group(groups: RowGroups, values: Int64s, present: Bools) -> NumberColumn:
    """Return the highest present value of each group, null if there is none."""
    extremes = highest_values(groups, values, present)
    return number_column(extremes, extremes > LOWEST, INT64)


def lowest_values(groups: RowGroups, values: Int64s, present: Bools | None = None) -> Int64s:
    """Return the lowest value of each group among those that are present, `HIGHEST` if there is none."""
    return _extremes(groups, values, present, HIGHEST, np.minimum, loops.lower_rows)


def highest_values(groups: RowGroups, values: Int64s, present: Bools | None = None) -> Int64s:
    """Return the highest value of each group among those that are present, `LOWEST` if there is none."""
    return _extremes(groups, values, present, LOWEST, np.maximum, loops.raise_rows)


def _extremes(
    groups: RowGroups, values: Int64s, present: Bools | None, nothing: int, plain: np.ufunc, loop: Loop
) -> Int64s:
    """Return an extreme of each group, by a compiled loop or the plain way; `nothing` stands for no value."""
    extremes = np.full(groups.count, nothing)
    if are_many(len(values)):
        present = every_row(len(values)) if present is None else present
        loop(*(read_only(column) for column in (groups.of, values, present)), extremes)
    else:
        plain.at(extremes, groups.of, values if present is None else np.where(present, values, nothing))
    return extremes


def first_rows(groups: RowGroups, order: Iterable[Int64s]) -> Int64s:
    """Return the row of each group that comes first in the order of some columns, ascending.

    Rows are compared by the next column only where the columns before it are equal; the rows that remain are
    few. Sorting a table takes ten times as long.
    """
    columns = iter(order)
    if are_many(len(groups.of)):
        column = next(columns, groups.of)
        first, is_tied = _first_lowest(groups, column)
        if not is_tied:
            return first
        columns = chain([column], columns)
    rows, of = np.arange(len(groups.of)), groups.of
    for column in columns:
        rows, of = _lowest_rows(rows, of, column if len(rows) == len(column) else column[rows], groups.count)
        if len(rows) == groups.count:
            break  # the next column, which would have to be made, decides nothing
    first = np.full(groups.count, len(groups.of), np.int64)
    np.minimum.at(first, of, rows)
    return first


def _first_lowest(groups: RowGroups, values: Int64s) -> tuple[Int64s, bool]:
    """Return the first row of the lowest value of each group, and whether a group has several such rows.

    Times mostly differ, so that one pass is enough, which takes a third of the time of `_lowest_rows`.
    """
    lowest, first = np.full(groups.count, HIGHEST), np.full(groups.count, len(groups.of), np.int64)
    tied = np.zeros(groups.count, bool)
    loops.find_lowest(read_only(groups.of), read_only(values), lowest, first, tied)
    return first, bool(tied.any())


def _lowest_rows(rows: Int64s, of: Int64s, values: Int64s, count: int) -> tuple[Int64s, Int64s]:
    """Return the rows that have the lowest value of their group, and their groups."""
    lowest = np.full(count, HIGHEST)
    if are_many(len(rows)):
        kept_rows, kept_of = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        columns = (read_only(column) for column in (rows, of, values))
        kept = loops.keep_lowest(*columns, lowest, kept_rows, kept_of)
        return kept_rows[:kept], kept_of[:kept]
    np.minimum.at(lowest, of, values)
    is_kept = values == lowest[of]
    return rows[is_kept], of[is_kept]
