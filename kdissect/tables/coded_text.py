"""Columns as NumPy has them: whole numbers, and texts as the numbers of distinct texts.

A capture has few client ids, topics and hosts, and millions of rows that name them. Figures take rows of such
a column, group by it and compare it many times. A number costs half a nanosecond each time, a text twenty and
more. Texts are looked at again when a row of figures is written.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kdissect.array_types import Bools, Int64s
from kdissect.tables.arrow_columns import int_column
from kdissect.tables.column_values import code_values, valid_mask

FEW_TEXTS = 64
"""A column may have so many texts more than rows: most tables of figures have a dozen rows, and leaving out
texts takes 0.1 ms a column. So many texts are searched by Python."""

_NO_TEXTS = pa.array([], pa.string())


def any_absent(rows: Int64s) -> bool:
    """Return whether one of some rows is -1. For few rows `rows.min()` takes twice as long."""
    return len(rows) > 0 and bool(np.minimum.reduce(rows) < 0)


@dataclass(frozen=True, slots=True)
class CodedText:
    """A column of texts: `numbers` has one row each, -1 for null, and `texts` each distinct text once."""

    numbers: Int64s
    texts: pa.Array

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, rows: Int64s) -> "CodedText":
        """Return some rows; row -1 is null."""
        if not len(self.numbers):
            return CodedText(np.full(len(rows), -1, np.int64), self.texts)
        taken = self.numbers.take(rows)
        if any_absent(rows):
            taken[rows < 0] = -1
        return CodedText(taken, self.texts)

    def equals(self, text: str) -> Bools:
        """Return the mask of rows with a text."""
        mask: Bools = self.numbers == self.number_of(text)
        return mask

    def number_of(self, text: str) -> int:
        """Return the number of a text, -2 if it has none."""
        if len(self.texts) <= FEW_TEXTS:  # a call of Arrow takes 50 us
            texts: list[str] = self.texts.to_pylist()
            return texts.index(text) if text in texts else -2
        number: int = pc.index(self.texts, text).as_py()
        return number if number >= 0 else -2

    def arrow(self) -> pa.Array:
        """Return the texts of all rows."""
        return self.texts.take(pa.array(self.numbers, mask=self.numbers < 0))

    def tolist(self) -> list[str | None]:
        """Return the texts of all rows as Python has them."""
        texts: list[str | None] = [*self.texts.to_pylist(), None]  # number -1 finds the last place
        return [texts[number] for number in self.numbers.tolist()]

    def by_appearance(self) -> "CodedText":
        """Return the same rows, texts numbered in the order in which rows first have them."""
        rows = np.flatnonzero(self.numbers >= 0)[::-1]
        first = np.full(len(self.texts) + 1, len(self.numbers))
        first[self.numbers[rows]] = rows  # the last that is written stays
        order = np.argsort(first[:-1], kind="stable")[: np.count_nonzero(first < len(self.numbers))]
        number = np.full(len(first), -1)
        number[order] = np.arange(len(order))
        return CodedText(number[self.numbers], self.texts.take(pa.array(order)))

    def compact(self) -> "CodedText":
        """Return the same rows, with few texts that none of them has."""
        return self if len(self.texts) <= len(self.numbers) + FEW_TEXTS else code_text(self.arrow())

    def ranks(self) -> Int64s:
        """Return a number for each row that is the higher, the later its text comes in the alphabet.

        Null comes last.
        """
        order = pc.array_sort_indices(self.texts).to_numpy()
        rank = np.empty(len(order) + 1, np.int64)
        rank[order], rank[-1] = np.arange(len(order)), len(order)
        return rank[self.numbers]


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """A column of whole numbers, or of flags: 0 where a row is not `present`. `kind` is its type in tables.

    Figures group by it, compare it and take rows of it, for which Arrow takes several times as long.
    """

    values: Int64s
    present: npt.NDArray[np.bool_]
    kind: pa.DataType

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Int64s) -> "NumberColumn":
        """Return some rows; row -1 is null."""
        if not len(self.values):
            return NumberColumn(np.zeros(len(rows), np.int64), np.zeros(len(rows), bool), self.kind)
        values, present = self.values.take(rows), self.present.take(rows)
        if any_absent(rows):
            is_row = rows >= 0
            values *= is_row
            present &= is_row
        return NumberColumn(values, present, self.kind)

    def tolist(self) -> list[int | None]:
        """Return the numbers of all rows as Python has them; flags are true or false."""
        values = self.values.astype(bool) if pa.types.is_boolean(self.kind) else self.values
        if self.present.all():
            return values.tolist()
        nullable = values.astype(object)
        nullable[~self.present] = None
        return nullable.tolist()

    def arrow(self) -> pa.Array:
        """Return the numbers of all rows."""
        if pa.types.is_boolean(self.kind):
            return pa.array(self.values.astype(bool), mask=~self.present)
        return int_column(self.values, self.present, self.kind)


def code_text(column: pa.Array | pa.ChunkedArray) -> CodedText:
    """Return a column of texts or dictionary codes as numbers. A dictionary must have each text once."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries()
        chunks = encoded.chunks or [pa.array([], encoded.type)]
    else:
        chunks = [encoded]
    numbers = code_values([chunk.indices for chunk in chunks], valid_mask(encoded))
    return CodedText(numbers, chunks[0].dictionary)


def null_column(count: int, kind: pa.DataType) -> CodedText | NumberColumn:
    """Return a column of which all rows are null."""
    if kind == pa.string():
        return CodedText(np.full(count, -1, np.int64), _NO_TEXTS)
    return NumberColumn(np.zeros(count, np.int64), np.zeros(count, bool), kind)


def repeat_text(text: str, count: int) -> CodedText:
    """Return a column that has one text in every row."""
    return CodedText(np.zeros(count, np.int64), _one_text(text))


@lru_cache(maxsize=256)
def _one_text(text: str) -> pa.Array:
    return pa.array([text], pa.string())
