"""Columns of the public tables as NumPy arrays, and grouping by several of them at once.

Each key column becomes small numbers (`Codes`), the columns are folded into one number for each row, and
those are renumbered without gaps (`RowGroups`). Values are then added up by group. This costs a few
nanoseconds for each row and column.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kdissect.array_types import Bools, Int64s
from kdissect.jit.many_rows import are_many, read_only
from kdissect.report.aggregate import group_loops as loops
from kdissect.tables.array_batch import ArrayBatch, ArrayColumn
from kdissect.tables.coded_text import CodedText, NumberColumn, code_text
from kdissect.tables.column_values import combine_chunks, every_row, int_values, run_starts, valid_mask

R = TypeVar("R")

DIRECT_LIMIT = 1 << 12
"""Numbers up to this, or up to four times the rows, are renumbered by an array instead of a hash table."""


FEW_KEYS = 128
"""So many numbers are renumbered by Python's own hash table: 30 take 5 us, and 19 by Arrow's."""


class Codes(NamedTuple):
    """A column as numbers from -1 (null) to bound - 1."""

    numbers: Int64s
    bound: int


@dataclass(frozen=True, slots=True)
class RowGroups:
    """The group of each row, the number of groups, and the first row of each group.

    Groups of whole columns (`group_rows`) are in the order of their first rows.
    """

    of: Int64s
    count: int
    first: Int64s


class TableColumns:
    """A table whose columns are converted to arrays when they are first used."""

    def __init__(self, table: pa.Table | pa.RecordBatch | ArrayBatch) -> None:
        self.table: pa.Table = table
        self._arrays = table if isinstance(table, ArrayBatch) else None  # they need no conversion
        self.rows: int = table.num_rows
        self._plain: dict[str, pa.Array] = {}
        self._coded: dict[str, CodedText] = {}
        self._ints: dict[str, Int64s] = {}
        self._known: dict[str, Bools] = {}
        self._derived: dict[tuple[str, ...], tuple[npt.NDArray[Any], ...]] = {}
        self._made: dict[str, Any] = {}

    def derived(
        self, *key: str, make: Callable[[], tuple[npt.NDArray[Any], ...]]
    ) -> tuple[npt.NDArray[Any], ...]:
        """Return arrays that several figures need, made once: nobody can write to them."""
        if key not in self._derived:
            self._derived[key] = make()
            for array in self._derived[key]:
                array.flags.writeable = False
        return self._derived[key]

    def once(self, name: str, make: Callable[[], R]) -> R:
        """Return what several figures need, made once. It must not know this table.

        The memory of tables that refer to themselves stays until the garbage collector runs.
        """
        if name not in self._made:
            self._made[name] = make()
        made: R = self._made[name]
        return made

    def arrow(self, name: str) -> pa.Array:
        """Return a column as one Arrow array."""
        if name not in self._plain:
            self._plain[name] = combine_chunks(self.table[name])
        return self._plain[name]

    def text(self, name: str) -> CodedText:
        """Return a text column as numbers."""
        if name not in self._coded:
            own = self._own(name)
            self._coded[name] = own if isinstance(own, CodedText) else code_text(self.table[name])
        return self._coded[name]

    def _own(self, name: str) -> ArrayColumn | None:
        return None if self._arrays is None else self._arrays.column(name)

    def column(self, name: str) -> pa.Array | CodedText | NumberColumn:
        """Return a column to take rows of: texts as numbers, flags and what is rare as Arrow has them."""
        own = self._own(name)
        if isinstance(own, CodedText | NumberColumn):
            return own
        kind = self.table.schema.field(name).type
        if pa.types.is_integer(kind):
            return NumberColumn(self.ints(name), self.present(name), kind)
        is_text = pa.types.is_string(kind) or pa.types.is_dictionary(kind)
        return self.text(name) if is_text else self.arrow(name)

    def unkept(self, name: str) -> pa.Array | CodedText | NumberColumn:
        """Return a column as `column` does, for who reads it once (see `ArrayBatch.unkept`)."""
        own = None if self._arrays is None else self._arrays.unkept(name)
        return own if isinstance(own, CodedText | NumberColumn) else self.column(name)

    def plain(self, name: str, rows: Int64s) -> pa.Array:
        """Return some rows of a column, texts as texts."""
        column = self.column(name)
        is_coded = isinstance(column, CodedText | NumberColumn)
        return column.take(rows).arrow() if is_coded else column.take(pa.array(rows))

    def present(self, name: str) -> Bools:
        """Return the mask of rows where a column is not null."""
        if name not in self._known:
            own = self._own(name)
            if isinstance(own, CodedText):
                known = own.numbers >= 0
            elif isinstance(own, NumberColumn):
                known = own.present
            else:
                known = valid_mask(self.table[name])
            self._known[name] = known
        return self._known[name]

    def ints(self, name: str) -> Int64s:
        """Return a whole-number column as int64, 0 for null."""
        if name not in self._ints:
            own = self._own(name)
            self._ints[name] = (
                own.values
                if isinstance(own, NumberColumn)
                else int_values(self.table[name], self.present(name))
            )
        return self._ints[name]

    def bools(self, name: str) -> Bools:
        """Return a boolean column, false for null."""
        own = self._own(name)
        if isinstance(own, np.ndarray):
            return own
        if isinstance(own, NumberColumn):
            return own.values.astype(bool)
        return self.derived("bools", name, make=lambda: (true_mask(self.arrow(name)),))[0]

    def equals(self, name: str, text: str) -> Bools:
        """Return the mask of rows where a text column has this text."""
        coded = self.text(name)

        def compare() -> tuple[Bools]:
            return (coded.equals(text),)

        return self.derived("equals", name, text, make=compare)[0]

    def filter(self, mask: Bools) -> "TableColumns":
        """Return the rows where `mask` is true."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def take(self, rows: Int64s) -> "TableColumns":
        """Return some rows. Columns of arrays are taken when they are first used."""
        return TableColumns(
            self.table.take(pa.array(rows)) if self._arrays is None else self._arrays.choose(rows)
        )

    def take_few(self, rows: Int64s) -> "TableColumns":
        """Return few of many rows: of the others, no column is kept in memory."""
        return self.take(rows) if self._arrays is None else TableColumns(self._arrays.choose_few(rows))

    def values(self, name: str) -> list[Any]:
        """Return a column as Python has it."""
        own = self._own(name)
        values: list[Any] = self.arrow(name).to_pylist() if own is None else own.tolist()
        return values

    def dicts(self, *names: str) -> list[dict[str, Any]]:
        """Return all rows as Python has them, with some columns or all."""
        names = names or tuple(self.table.schema.names)
        rows = zip(*map(self.values, names), strict=True)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def coalesce(self, wanted: str, otherwise: str) -> Int64s:
        """Return a whole-number column with another one in place of null."""
        return self.derived(
            "coalesce",
            wanted,
            otherwise,
            make=lambda: (self._either(wanted, otherwise),),
        )[0]

    def _either(self, wanted: str, otherwise: str) -> Int64s:
        present = self.present(wanted)
        if present.all():
            return self.ints(wanted)
        return np.where(present, self.ints(wanted), self.ints(otherwise))


def true_mask(column: pa.Array) -> Bools:
    """Return a boolean column as a mask, false for null."""
    mask: Bools = (column.fill_null(fill_value=False) if column.null_count else column).to_numpy(
        zero_copy_only=False
    )
    return mask


def nullable_ints(values: Int64s, present: Bools) -> pa.Array:
    """Return an int64 column that is null where `present` is false."""
    return pa.array(values, mask=~present)


def encode(column: pa.Array | CodedText | NumberColumn) -> Codes:
    """Return the distinct values of a column as codes."""
    if isinstance(column, NumberColumn):
        return encode_numbers(column.values, column.present)
    coded = column if isinstance(column, CodedText) else code_text(column)
    return Codes(coded.numbers, len(coded.texts))


def encode_runs(values: Int64s) -> Codes:
    """Return codes of a column in which equal values mostly follow each other."""
    if not len(values):
        return Codes(values, 0)
    starts = run_starts(values)
    if len(starts) == 1:
        return Codes(np.zeros(len(values), np.int64), 1)
    heads = _encode_known(values[starts])
    return Codes(np.repeat(heads.numbers, np.diff(starts, append=len(values))), heads.bound)


def encode_range(values: Int64s, present: Bools | None = None) -> Codes:
    """Return codes of numbers in a narrow range: the distance from the lowest, -1 where not `present`."""
    if not len(values):
        return Codes(values, 0)
    if are_many(len(values)):
        distance = np.empty(len(values), np.int64)
        there = every_row(len(values)) if present is None else read_only(present)
        lowest, highest = loops.encode_distances(read_only(values), there, distance)
        return Codes(distance, highest - lowest + 1)
    lowest, highest = int(values.min()), int(values.max())
    distance = values - lowest
    return Codes(distance if present is None else (distance + 1) * present - 1, highest - lowest + 1)


def encode_numbers(values: Int64s, present: Bools) -> Codes:
    """Return codes of any numbers: by their range if it is narrow, else by a hash table."""
    if len(values) and int(values.max()) - int(values.min()) < max(DIRECT_LIMIT, 4 * len(values)):
        return encode_range(values, None if present.all() else present)
    known = _encode_known(values)
    return known if present.all() else Codes(np.where(present, known.numbers, -1), known.bound)


def _encode_known(values: Int64s) -> Codes:
    """Return codes of any numbers by a hash table: a compiled one for many, Python's own for few.

    Arrow's takes 60 ns a row for the numbers of 100,000 connections, and the compiled one 10.
    """
    if len(values) <= FEW_KEYS:
        return Codes(*_number_few(values))
    if not are_many(len(values)):
        return encode(pa.array(values))
    of, first = loops.number_keys(values, len(values), direct=False)
    return Codes(of, len(first))


def distinct_numbers(numbers: Int64s, bound: int) -> Int64s:
    """Return numbers from 0 to bound - 1 in order, each once. A hash table takes ten times as long."""
    present = np.zeros(bound, bool)
    present[numbers] = True
    return np.flatnonzero(present)


def one_group(rows: int) -> RowGroups:
    """Return rows that are all in one group."""
    return RowGroups(np.zeros(rows, np.int64), min(rows, 1), np.zeros(min(rows, 1), np.int64))


def group_rows(*columns: Codes) -> RowGroups:
    """Return the groups of rows that are equal in all columns."""
    numbers, bound = columns[0].numbers + 1, columns[0].bound + 1
    for column in columns[1:]:
        if bound * (column.bound + 1) >= 1 << 62:
            numbers, bound = _dense(numbers)
        numbers = _folded(numbers, column)
        bound *= column.bound + 1
    if are_many(len(numbers)):
        of, first = loops.number_keys(numbers, bound, _is_direct(bound, len(numbers)))
        return RowGroups(of, len(first), first)
    numbers, count = _dense(numbers)
    first = np.full(count, len(numbers), np.int64)
    np.minimum.at(first, numbers, np.arange(len(numbers)))
    return RowGroups(numbers, count, first)


def _folded(numbers: Int64s, column: Codes) -> Int64s:
    """Return one number for each row from a number and the code of one more column."""
    if not are_many(len(numbers)):
        return numbers * (column.bound + 1) + column.numbers + 1
    numbers = np.ascontiguousarray(numbers)
    loops.fold_codes(numbers, read_only(column.numbers), column.bound + 1)
    return numbers


def _is_direct(bound: int, rows: int) -> bool:
    return bound <= max(DIRECT_LIMIT, 4 * rows)


def _dense(numbers: Int64s) -> tuple[Int64s, int]:
    """Return numbers renumbered without gaps in the order of their first rows, and how many there are."""
    if (numbers[1:] > numbers[:-1]).all():
        return np.arange(len(numbers)), len(numbers)
    if len(numbers) <= FEW_KEYS:
        return _number_few(numbers)
    encoded = pa.array(numbers).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def _number_few(numbers: Int64s) -> tuple[Int64s, int]:
    number_of: dict[int, int] = {}
    of = [number_of.setdefault(key, len(number_of)) for key in numbers.tolist()]
    return np.array(of, np.int64), len(number_of)


def find_rows(numbers: Int64s, wanted: Int64s) -> Int64s:
    """Return the first row of each wanted number among `numbers`, -1 where there is none.

    Both are numbered together, by a hash table if they are many: 300,000 numbers among 100,000 took 36 ms by
    binary search, and take 6.
    """
    groups = group_rows(
        encode_numbers(np.concatenate([numbers, wanted]), every_row(len(numbers) + len(wanted)))
    )
    rows = groups.first.take(groups.of[len(numbers) :])
    return np.where(rows < len(numbers), rows, -1)


def map_distinct(
    function: Callable[..., R], *columns: pa.Array | CodedText | NumberColumn
) -> tuple[list[R], Int64s]:
    """Return what a function makes of each distinct row of some columns, and the number of each row's."""
    groups = group_rows(*map(encode, columns))
    firsts = (column.take(groups.first).tolist() for column in columns)
    return list(map(function, *firsts)), groups.of


def name_distinct(
    name: Callable[..., str | None], *columns: pa.Array | CodedText | NumberColumn
) -> CodedText:
    """Return the names that a function makes of some columns. Rows whose names are equal share a number."""
    names, of = map_distinct(name, *columns)
    coded = code_text(pa.array(names, pa.string()))
    return CodedText(coded.numbers[of], coded.texts)


def coarser(groups: RowGroups, *columns: Codes) -> RowGroups:
    """Return the groups of rows whose groups are equal in some columns, which have a row for each group.

    Groups must be in the order of their first rows, and so are those that are returned.
    """
    of_groups = group_rows(*columns)
    return RowGroups(of_groups.of.take(groups.of), of_groups.count, groups.first.take(of_groups.first))


def group_codes(groups: RowGroups) -> Codes:
    """Return groups as the codes of one column of a finer grouping."""
    return Codes(groups.of, groups.count)
