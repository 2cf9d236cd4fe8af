"""Batches of a table as arrays of NumPy: what figures are counted from.

Columns are made of numbers, and figures need numbers. As columns of Arrow they were written twice, with a bit
for each value that is present, and read back. An `ArrayBatch` keeps the numbers. It has what tasks and side
tables use of a RecordBatch, and makes rows or columns of Arrow when somebody asks for them.

`join_batches` joins batches without copying: a column is joined when it is first asked for. Rows that
`filter` or `choose` take are taken of each column when it is first asked for, too (see `LateColumns`): tables
have many columns.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kdissect.array_types import Bools, Int64s
from kdissect.jit.decorators import jit_flat
from kdissect.jit.many_rows import are_many, read_only
from kdissect.tables.coded_text import CodedText, NumberColumn, code_text
from kdissect.tables.column_values import int_values, valid_mask

ArrayColumn: TypeAlias = NumberColumn | CodedText | Bools
"""Whole numbers, texts, or flags of which none is null."""


class LateColumns(dict[str, list[ArrayColumn]]):
    """Parts of columns by name, each made when it is first asked for.

    `sources` have what the columns are made of. That of a column that is kept goes: both would take twice the
    memory. Columns without sources can be made once only.
    """

    def __init__(
        self, make: Callable[[str], list[ArrayColumn]], sources: dict[str, Any] | None = None
    ) -> None:
        super().__init__()
        self._make, self._sources = make, sources

    def __missing__(self, name: str) -> list[ArrayColumn]:
        self[name] = parts = self._make(name)
        if self._sources is not None:
            self._sources.pop(name)
        return parts

    def unkept(self, name: str) -> list[ArrayColumn]:
        """Return the parts of a column, and keep none that can be made again."""
        return self[name] if name in self or self._sources is None else self._make(name)


class ArrayBatch:
    """Some rows of a table: the parts of each column, by its name."""

    def __init__(self, parts: dict[str, list[ArrayColumn]], schema: pa.Schema, rows: int) -> None:
        self.parts, self.schema, self.num_rows = parts, schema, rows

    def column(self, name: str) -> ArrayColumn:
        """Return a column."""
        parts = self.parts[name]
        if len(parts) > 1:
            parts[:] = [join_columns(parts)]
        return parts[0]

    def unkept(self, name: str) -> ArrayColumn:
        """Return a column that is read once: it takes no memory afterwards, if it can be made again."""
        if not isinstance(self.parts, LateColumns):
            return self.column(name)
        parts = self.parts.unkept(name)
        return join_columns(parts) if len(parts) > 1 else parts[0]

    def __getitem__(self, name: str) -> pa.Array:
        """Return a column as Arrow has it."""
        return arrow_column(self.column(name))

    def select(self, names: Sequence[str]) -> "ArrayBatch":
        """Return some columns."""
        schema = pa.schema([self.schema.field(name) for name in names])
        return ArrayBatch({name: self.parts[name] for name in names}, schema, self.num_rows)

    def take(self, rows: pa.Array) -> pa.RecordBatch:
        """Return some rows as Arrow has them."""
        places = rows.to_numpy()
        arrays = [arrow_column(self.column(name).take(places)) for name in self.schema.names]
        return pa.record_batch(arrays, schema=self.schema)

    def slice(self, first: int, count: int) -> pa.RecordBatch:
        """Return rows that follow each other as Arrow has them."""
        return self.take(pa.array(np.arange(first, first + count)))

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return all rows as Python has them."""
        names = self.schema.names
        columns = [list_column(self.column(name)) for name in names]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def filter(self, mask: pa.Array) -> "ArrayBatch":
        """Return the rows of a mask."""
        return self.choose(np.flatnonzero(mask.to_numpy(zero_copy_only=False)))

    def choose(self, rows: Int64s) -> "ArrayBatch":
        """Return some rows as a batch."""
        return self._late(lambda name: [self.column(name).take(rows)], len(rows))

    def choose_few(self, rows: Int64s) -> "ArrayBatch":
        """Return few of many rows as a batch: this one keeps no column for them."""
        return self._late(lambda name: [self.unkept(name).take(rows)], len(rows))

    def _late(self, make: Callable[[str], list[ArrayColumn]], rows: int) -> "ArrayBatch":
        return ArrayBatch(LateColumns(make), self.schema, rows)


def array_batch(
    columns: Mapping[str, pa.Array | ArrayColumn] | pa.RecordBatch, schema: pa.Schema
) -> ArrayBatch:
    """Return columns of a table, some of which Arrow may have, as a batch."""
    parts = {name: [array_column(columns[name])] for name in schema.names}
    return ArrayBatch(parts, schema, len(parts[schema.names[0]][0]))


def give_rows(batch: ArrayBatch, rows: Int64s) -> ArrayBatch:
    """Return some rows of a batch that nobody else has: it gives up each column that is asked for."""

    def make(name: str) -> list[ArrayColumn]:
        column = batch.column(name)
        del batch.parts[name]
        return [column.take(rows)]

    return ArrayBatch(LateColumns(make), batch.schema, len(rows))


def join_batches(batches: Sequence[ArrayBatch]) -> ArrayBatch:
    """Return batches of one table as one, and take over their columns."""
    schema = batches[0].schema
    parts = {name: [part for batch in batches for part in batch.parts[name]] for name in schema.names}
    return ArrayBatch(parts, schema, sum(batch.num_rows for batch in batches))


def array_column(column: pa.Array | ArrayColumn) -> ArrayColumn:
    """Return a column as arrays."""
    if not isinstance(column, pa.Array):
        return column
    if pa.types.is_integer(column.type):
        present = valid_mask(column)
        return NumberColumn(int_values(column, present), present, column.type)
    if pa.types.is_boolean(column.type):
        flags: Bools = column.to_numpy(zero_copy_only=False)
        return flags
    return code_text(column)


def table_row(table: pa.RecordBatch | ArrayBatch, names: Sequence[str], row: int) -> dict[str, Any]:
    """Return some values of one row as Python has them."""
    return dict(zip(names, (value for (value,) in lists_at(table, names, np.array([row]))), strict=True))


def lists_at(table: pa.RecordBatch | ArrayBatch, names: Sequence[str], rows: Int64s) -> list[list[Any]]:
    """Return columns at some rows as Python has them. By way of Arrow, arrays take three times as long."""
    if isinstance(table, ArrayBatch):
        return [list_column(table.column(name).take(rows)) for name in names]
    return [column.to_pylist() for column in table.select(names).take(pa.array(rows)).columns]


def named_column(table: pa.RecordBatch | ArrayBatch, name: str) -> ArrayColumn:
    """Return a column of a table as arrays."""
    return array_column(table.column(name) if isinstance(table, ArrayBatch) else table[name])


def numbers_of(table: pa.RecordBatch | ArrayBatch, name: str) -> NumberColumn:
    """Return a column of whole numbers."""
    column = named_column(table, name)
    assert isinstance(column, NumberColumn)
    return column


def numbers_at(table: pa.RecordBatch | ArrayBatch, name: str, rows: Int64s) -> NumberColumn:
    """Return some rows of a column of whole numbers."""
    return numbers_of(table, name).take(rows)


def masked_rows(table: pa.RecordBatch | ArrayBatch, mask: Bools) -> pa.RecordBatch | ArrayBatch:
    """Return the rows of a mask."""
    if mask.all():
        return table
    return (
        table.choose(np.flatnonzero(mask)) if isinstance(table, ArrayBatch) else table.filter(pa.array(mask))
    )


def arrow_column(column: ArrayColumn) -> pa.Array:
    """Return a column as Arrow has it, texts as texts."""
    return pa.array(column) if isinstance(column, np.ndarray) else column.arrow()


def list_column(column: ArrayColumn) -> list[Any]:
    """Return the values of a column as Python has them. Arrow takes several times as long."""
    values: list[Any] = column.tolist()
    return values


def number_column(values: NDArray[np.generic], present: Bools, kind: pa.DataType) -> NumberColumn:
    """Return numbers as a column, 0 where not present. Others may reuse the memory of the numbers."""
    if not are_many(len(values)) or values.dtype != np.int64:
        return NumberColumn(np.where(present, values, 0).astype(np.int64, copy=False), present, kind)
    kept = np.empty(len(values), np.int64)
    keep_present(read_only(values), read_only(present), kept)
    return NumberColumn(kept, present, kind)


@jit_flat
def keep_present(values: Int64s, present: Bools, kept: Int64s) -> None:
    """Fill `kept` with the values that are present, 0 for others."""
    for row in range(len(values)):
        kept[row] = values[row] if present[row] else 0


def call_all() -> None:
    """Call the loop, so that it is compiled and kept."""
    keep_present(read_only(np.zeros(1, np.int64)), read_only(np.ones(1, np.bool_)), np.zeros(1, np.int64))


def join_columns(parts: Sequence[ArrayColumn]) -> ArrayColumn:
    """Return the rows of columns of one kind as one column."""
    one = parts[0]
    if isinstance(one, NumberColumn):
        values, present = (
            np.concatenate([getattr(part, field) for part in parts]) for field in ("values", "present")
        )
        return NumberColumn(values, present, one.kind)
    if isinstance(one, CodedText):
        return _joined_texts([part for part in parts if isinstance(part, CodedText)])
    flags: Bools = np.concatenate([part for part in parts if isinstance(part, np.ndarray)])
    return flags


def _joined_texts(parts: Sequence[CodedText]) -> CodedText:
    """Return texts with the numbers of one dictionary. Batches mostly have the same as those before them."""
    first = parts[0].texts
    if all(part.texts.equals(first) for part in parts):
        return CodedText(np.concatenate([part.numbers for part in parts]), first)
    together = pa.concat_arrays([part.texts for part in parts]).dictionary_encode()
    number_of = together.indices.to_numpy().astype(np.int64)
    numbers = np.empty(sum(len(part.numbers) for part in parts), np.int64)
    texts = rows = 0
    for part in parts:
        places = np.append(number_of[texts : texts + len(part.texts)], -1)  # number -1 finds the last one
        into = numbers[rows : rows + len(part.numbers)]
        places.take(part.numbers, out=into, mode="wrap")
        texts, rows = texts + len(part.texts), rows + len(part.numbers)
    return CodedText(numbers, together.dictionary)
