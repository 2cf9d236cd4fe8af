"""Columns of the public tables as NumPy arrays, and grouping by several of them at once.

Grouping turns each key column into small numbers (`Codes`), folds the columns into one number per row, and renumbers
those densely (`RowGroups`); measures are then added up by group. That costs a few nanoseconds per row and column.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kdissect.report.aggregate.histogram import Ints

Mask = npt.NDArray[np.bool_]

MAX_LATENCY_NS = 1 << 48
"""Waits of three days and more are faults of the clock; below this, a sum of 32,768 of the longest still fits int64."""

DIRECT_LIMIT = 1 << 12
"""Numbers up to this, or up to four times the rows, are renumbered by a table instead of a hash."""


class Codes(NamedTuple):
    """A column as numbers -1 (null) .. bound-1."""

    numbers: Ints
    bound: int


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Which group each row belongs to, how many groups there are, and the first row of each."""

    of: Ints
    count: int
    first: Ints


class TableColumns:
    """A table whose columns are turned into NumPy arrays once, when asked for."""

    def __init__(self, table: pa.Table | pa.RecordBatch) -> None:
        self.table = table
        self.rows: int = table.num_rows
        self._plain: dict[str, pa.Array] = {}
        self._ints: dict[str, Ints] = {}
        self._known: dict[str, Mask] = {}

    def plain(self, name: str) -> pa.Array:
        """Give a column in one piece."""
        if name not in self._plain:
            self._plain[name] = combine_chunks(self.table[name])
        return self._plain[name]

    def known(self, name: str) -> Mask:
        """Tell where a column is not null."""
        if name not in self._known:
            column = self.plain(name)
            self._known[name] = valid_mask(column) if column.null_count else np.ones(self.rows, bool)
        return self._known[name]

    def ints(self, name: str) -> Ints:
        """Give a whole-number column as int64, 0 in place of null."""
        if name not in self._ints:
            self._ints[name] = int_values(self.plain(name))
        return self._ints[name]

    def truths(self, name: str) -> Mask:
        """Give a boolean column, null taken as false."""
        return true_mask(self.plain(name))

    def equals(self, name: str, text: str) -> Mask:
        """Tell where a text column has this text."""
        return true_mask(pc.equal(self.plain(name), text))

    def filtered(self, mask: Mask) -> "TableColumns":
        """Keep the rows where `mask` is true."""
        return self if mask.all() else TableColumns(self.table.filter(pa.array(mask)))

    def either(self, wanted: str, otherwise: str) -> Ints:
        """Give a whole-number column with another in place of null."""
        return np.where(self.known(wanted), self.ints(wanted), self.ints(otherwise))


def combine_chunks(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Give a column in one piece, without copying where it is in one already."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def int_values(column: pa.Array) -> Ints:
    """Give a whole-number column as int64, 0 in place of null."""
    filled: npt.NDArray[Any] = (column.fill_null(0) if column.null_count else column).to_numpy()
    return filled.astype(np.int64, copy=False)


def valid_mask(column: pa.Array) -> Mask:
    """Tell where a column is not null."""
    mask: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return mask


def true_mask(column: pa.Array) -> Mask:
    """Give a boolean column, null taken as false."""
    mask: Mask = (column.fill_null(fill_value=False) if column.null_count else column).to_numpy(
        zero_copy_only=False
    )
    return mask


def nullable_ints(values: Ints, present: Mask) -> pa.Array:
    """Give an int64 column that is null where `present` is false."""
    return pa.array(values, mask=~present)


def encode(column: pa.Array) -> Codes:
    """Number the distinct values of a column."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    indices = encoded.indices
    numbers: npt.NDArray[Any] = (indices.fill_null(-1) if indices.null_count else indices).to_numpy()
    return Codes(numbers.astype(np.int64), len(encoded.dictionary))


def encode_runs(values: Ints) -> Codes:
    """Number the distinct values of a column in which equal values mostly follow each other."""
    if not len(values):
        return Codes(values, 0)
    starts = np.flatnonzero(np.r_[True, values[1:] != values[:-1]])
    heads = encode(pa.array(values[starts]))
    return Codes(np.repeat(heads.numbers, np.diff(np.r_[starts, len(values)])), heads.bound)


def encode_range(values: Ints, present: Mask | None = None) -> Codes:
    """Number whole numbers of a narrow range by their distance from the lowest."""
    if not len(values):
        return Codes(values, 0)
    lowest, highest = int(values.min()), int(values.max())
    distance = values - lowest
    return Codes(distance if present is None else np.where(present, distance, -1), highest - lowest + 1)


def group_rows(*columns: Codes) -> RowGroups:
    """Group rows by all columns."""
    numbers, bound = columns[0].numbers + 1, columns[0].bound + 1
    for column in columns[1:]:
        if bound * (column.bound + 1) >= 1 << 62:
            numbers, bound = _dense(numbers, bound)
        numbers = numbers * (column.bound + 1) + column.numbers + 1
        bound *= column.bound + 1
    numbers, count = _dense(numbers, bound)
    first = np.full(count, len(numbers), np.int64)
    np.minimum.at(first, numbers, np.arange(len(numbers)))
    return RowGroups(numbers, count, first)


def _dense(numbers: Ints, bound: int) -> tuple[Ints, int]:
    """Renumber numbers 0 .. bound-1 so that none is left out."""
    if (numbers[1:] > numbers[:-1]).all():
        return np.arange(len(numbers)), len(numbers)
    if bound > max(DIRECT_LIMIT, 4 * len(numbers)):
        encoded = pa.array(numbers).dictionary_encode()
        return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)
    present = np.zeros(bound, bool)
    present[numbers] = True
    return (np.cumsum(present) - 1)[numbers], int(present.sum())


def group_codes(groups: RowGroups) -> Codes:
    """Use groups as a column of a finer grouping."""
    return Codes(groups.of, groups.count)


def sum_by_group(groups: RowGroups, values: Ints | Mask) -> Ints:
    """Add values up by group; a mask is counted."""
    if values.dtype == bool:
        return np.bincount(groups.of[values], minlength=groups.count).astype(np.int64)
    sums = np.zeros(groups.count, np.int64)
    np.add.at(sums, groups.of, values)
    return sums


INT64_RANGE = np.iinfo(np.int64)


def lowest_by_group(groups: RowGroups, values: Ints, present: Mask) -> pa.Array:
    """Give the lowest present value by group, null where there is none."""
    found = np.full(groups.count, INT64_RANGE.max)
    np.minimum.at(found, groups.of, np.where(present, values, INT64_RANGE.max))
    return nullable_ints(found, found < INT64_RANGE.max)


def highest_by_group(groups: RowGroups, values: Ints, present: Mask) -> pa.Array:
    """Give the highest present value by group, null where there is none."""
    found = np.full(groups.count, INT64_RANGE.min)
    np.maximum.at(found, groups.of, np.where(present, values, INT64_RANGE.min))
    return nullable_ints(found, found > INT64_RANGE.min)


def sound_latencies(exchanges: TableColumns) -> tuple[Ints, Mask]:
    """Give latencies and where they are sound: there, not negative, and shorter than `MAX_LATENCY_NS`."""
    latency = exchanges.ints("latency_ns")
    return latency, exchanges.known("latency_ns") & (latency >= 0) & (latency < MAX_LATENCY_NS)
