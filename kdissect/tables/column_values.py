"""Columns of Arrow as arrays of NumPy: whole numbers, where they are present, and codes of texts.

In come columns of one or several chunks, out goes one array, into which each chunk is written once. Arrow's
`fill_null` and `is_valid` take four times as long with the same memory, and joining converted chunks copies
all rows once more.
"""

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kdissect.array_types import Bools, Int64s

SHARED_ROWS = 1 << 17
"""Masks of all rows are parts of shared ones up to this length."""


def combine_chunks(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, without copying if it is one already."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def every_row(count: int) -> Bools:
    """Return the mask of all of `count` rows; nobody can write to it.

    A batch of figures needs a hundred and more, mostly of the same lengths. They share their memory, which
    is written once.
    """
    return (
        _all_true(1 << count.bit_length())[:count] if count < SHARED_ROWS else _locked(np.ones(count, bool))
    )


@cache
def _all_true(count: int) -> Bools:
    return _locked(np.ones(count, bool))


def _locked(mask: Bools) -> Bools:
    mask.flags.writeable = False
    return mask


def run_starts(values: NDArray[Any]) -> Int64s:
    """Return the rows whose value is not that of the row before: each begins a run of equal values."""
    begins = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=begins[1:])
    return np.flatnonzero(begins)


def valid_mask(column: pa.Array | pa.ChunkedArray) -> Bools:
    """Return the mask of values that are not null; nobody can write to that of a column without null."""
    if not column.null_count:
        return every_row(len(column))
    present, at = np.empty(len(column), bool), 0
    for chunk in _chunks(column):
        _fill_valid(chunk, present[at : at + len(chunk)])
        at += len(chunk)
    return present


def _fill_valid(array: pa.Array, present: Bools) -> None:
    if array.null_count in (0, len(array)):
        present[:] = array.null_count == 0
        return
    bits = np.frombuffer(array.buffers()[0], np.uint8)
    count = array.offset + len(array)
    present[:] = np.unpackbits(bits, count=count, bitorder="little")[array.offset :].view(bool)


def int_values(column: pa.Array | pa.ChunkedArray, present: Bools) -> Int64s:
    """Return a whole-number column as int64, 0 where it is not `present` (its `valid_mask`).

    An int64 column of one chunk without null is not copied, and nobody can write to it.
    """
    chunks = _chunks(column)
    if len(chunks) == 1 and not column.null_count:
        alone: Int64s = chunks[0].to_numpy().astype(np.int64, copy=False)
        return alone
    values, at = np.empty(len(column), np.int64), 0
    for chunk in chunks:
        into = slice(at, at + len(chunk))
        if not chunk.null_count:
            values[into] = chunk.to_numpy()
        elif chunk.null_count == len(chunk):
            values[into] = 0
        else:
            np.multiply(_with_nulls(chunk), present[into], out=values[into])
        at += len(chunk)
    return values


def code_values(chunks: list[pa.Array], present: Bools) -> Int64s:
    """Return the indices of arrays as int64, -1 where they are not `present`."""
    indices = pa.chunked_array(chunks)
    values = int_values(indices, present)
    if indices.null_count:
        values += present.view(np.int8) - np.int8(1)
    return values


def _with_nulls(array: pa.Array) -> Int64s:
    """Return the values of an array; those that are null may be any."""
    of_all: Int64s = pa.Array.from_buffers(
        array.type, len(array), [None, array.buffers()[1]], 0, array.offset
    ).to_numpy()
    return of_all


def _chunks(column: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]
