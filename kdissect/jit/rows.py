"""RowTable of named integers, which compiled loops and plain Python share.

A row type is a class whose annotations are its fields, each an int64 or another row type:

    @row_type
    class Chunk(Row):
        position: int  # in its stream
        length: int  # bytes

A table of rows is a structured NumPy array where loops are compiled: Numba reads and writes
`chunks[node].length` there as fast as a number in a plain array. NumPy itself takes a microsecond for that,
so where loops run as plain Python (`KDISSECT_JIT=0`) a table is a list of ctypes structures over the memory
of the same array. Both read alike:

    chunks[node].length     a field, to be read or assigned
    chunks[node] = other    a copy of all fields

Only ints may be assigned, not NumPy's scalars: ctypes refuses them. Whole columns are for code outside of
loops, which takes them from the array: `array_of(chunks)["length"]`.
"""

import ctypes
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from kdissect.jit import kernel_cache

Records = NDArray[np.void]
"""A structured array, as `array_of` returns it."""

COMPILED = os.environ.get(kernel_cache.SWITCH) != "0"

if TYPE_CHECKING:

    class Row:
        """The base of all row types."""

else:
    Row = ctypes.Structure

R = TypeVar("R", bound=Row)


def row_type(kind: type[R]) -> type[R]:
    """Return a class as a row type: its annotations become its fields, in their order."""
    fields = [(name, ctypes.c_int64 if of is int else of) for name, of in kind.__annotations__.items()]
    kind._fields_ = fields  # type: ignore[attr-defined] # the attribute of ctypes.Structure
    return kind


def dtype_of(kind: type[Row]) -> np.dtype[np.void]:
    """Return the structured dtype of a row type."""
    fields = [(name, np.int64 if of is int else dtype_of(of)) for name, of in kind.__annotations__.items()]
    return np.dtype((np.record, fields))


class RowTable(list[R], Generic[R]):
    """A table of rows where loops run as plain Python.

    An array stands in its place when they are compiled.
    """

    def __init__(self, kind: type[R], array: Records) -> None:
        structures = cast("Any", kind) * len(array)
        self._structures = structures.from_buffer(array) if len(array) else []
        self.array = array
        super().__init__(self._structures)

    def __setitem__(self, index: Any, row: Any) -> None:
        self._structures[index] = row


def table_of(kind: type[R], array: Records) -> RowTable[R]:
    """Return the table over a structured array, which holds the rows."""
    return RowTable(kind, array) if not COMPILED else cast("RowTable[R]", array)


def new_table(kind: type[R], count: int) -> RowTable[R]:
    """Return a table of `count` rows of zeros."""
    return table_of(kind, np.zeros(count, dtype_of(kind)))


def grown_table(kind: type[R], table: RowTable[R], count: int) -> RowTable[R]:
    """Return a table of `count` rows that begins with those of another one; the others are zeros."""
    array = np.zeros(count, dtype_of(kind))
    integers_of(array)[: len(table)] = integers_of(array_of(table))
    return table_of(kind, array)


def integers_of(array: Records) -> NDArray[np.int64]:
    """Return a contiguous array of rows as plain integers, shape (rows, fields).

    NumPy copies those much faster.
    """
    return array.view(np.int64).reshape(len(array), array.dtype.itemsize // 8)


def array_of(table: RowTable[R]) -> Records:
    """Return the structured array that holds a table's rows.

    A value that is written there is written in the table.
    """
    return cast("Records", table) if COMPILED else table.array


def take_records(array: Records, rows: NDArray[np.int64]) -> Records:
    """Return some rows of a contiguous array, copied as plain integers."""
    return _records(integers_of(array)[rows], array.dtype)


def join_records(parts: Sequence[Records]) -> Records:
    """Return the rows of one or more contiguous arrays of one type, copied as plain integers."""
    return _records(np.concatenate([integers_of(part) for part in parts]), parts[0].dtype)


def _records(integers: NDArray[np.int64], dtype: np.dtype[np.void]) -> Records:
    return integers.reshape(-1).view(dtype)


def rows_of(kind: type[R], array: Records) -> list[R]:
    """Return the rows of a contiguous array for code outside of loops.

    Their fields are read much faster than NumPy's. They lie in the memory of the array, so they change with
    it.
    """
    return list(RowTable(kind, array))


def row_size(kind: type[Row]) -> int:
    """Return how many bytes a row takes."""
    return ctypes.sizeof(cast("Any", kind))
