"""Columns of figures on their way from a task: whole numbers as distances from the lowest one, in few bytes.

A task has a hundred thousand rows of twenty whole numbers, most of which differ by less than 2^32. As columns
of eight bytes they were compressed: for the rows of the pace of signals that took 29 ms, and takes 5 as
distances, which are not compressed and hardly longer. The driver makes numbers of them when it asks for a
column.
"""

import numpy as np
import pyarrow as pa

from kdissect.array_types import Bools, Int64s
from kdissect.report.aggregate.grouping import true_mask
from kdissect.tables.array_batch import ArrayColumn
from kdissect.tables.arrow_columns import int_column
from kdissect.tables.coded_text import CodedText, NumberColumn, code_text
from kdissect.tables.column import INT64, TEXT
from kdissect.tables.column_values import combine_chunks, int_values, valid_mask

LOWEST = b"lowest"
"""The key of the lowest number among what Arrow says of a column."""

_NARROW = ((1 << 8, pa.uint8()), (1 << 16, pa.uint16()), (1 << 32, pa.uint32()))
"""How many numbers there are of each narrow type."""


def pack_column(name: str, column: ArrayColumn) -> tuple[pa.Field, pa.Array]:
    """Return a column of Arrow that `unpack_column` understands, and its field."""
    if isinstance(column, CodedText):
        kind = _narrowest(len(column.texts))
        codes = int_column(column.numbers, column.numbers >= 0, kind)
        packed = pa.DictionaryArray.from_arrays(codes, column.texts, safe=False)
        return pa.field(name, packed.type), packed
    if isinstance(column, np.ndarray):
        return pa.field(name, pa.bool_()), pa.array(column)
    lowest, numbers = _distances(column.values, column.present)
    kind = _narrowest(numbers)
    if kind == INT64:
        return pa.field(name, kind), int_column(column.values, column.present, kind)
    distances = column.values - lowest if lowest else column.values
    return pa.field(name, kind, metadata={LOWEST: b"%d" % lowest}), int_column(
        distances, column.present, kind
    )


def unpack_column(
    column: pa.Array | pa.ChunkedArray, field: pa.Field, kind: pa.DataType
) -> CodedText | NumberColumn:
    """Return a column of Arrow, packed or not, as arrays of a type; flags, which may be null, as numbers."""
    column = combine_chunks(column)
    if kind == TEXT:
        return code_text(column)
    present = valid_mask(column)
    if pa.types.is_boolean(column.type):
        return NumberColumn(true_mask(column).astype(np.int64), present, kind)
    values = int_values(column, present)
    lowest = int((field.metadata or {}).get(LOWEST, 0))
    if lowest:
        values = values + lowest if present.all() else (values + lowest) * present
    return NumberColumn(values, present, kind)


def _distances(values: Int64s, present: Bools) -> tuple[int, int]:
    """Return the lowest number that is present, and how many there may be from it to the highest."""
    known = values if present.all() else values[present]
    if not len(known):
        return 0, 1
    lowest = int(known.min())
    return lowest, int(known.max()) - lowest + 1


def _narrowest(numbers: int) -> pa.DataType:
    """Return the type of fewest bytes that has so many numbers."""
    return next((kind for most, kind in _NARROW if numbers <= most), INT64)
