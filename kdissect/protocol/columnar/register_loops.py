"""Compiled loops that take one column of registers, or of numbers from two tables, for many rows.

In come tables with wide rows, and for each row of the result the row that it is taken from, -1 for none. One
pass takes the place of five with NumPy: a column took 5 to 10 ns a row and takes 1 to 2. `batch_reader` and
`tables.partitions` call the loops for many rows, and have the plain way for few.
"""

import numpy as np
from numpy.typing import NDArray

from kdissect.array_types import Int64s
from kdissect.jit.decorators import jit_flat


@jit_flat
def take_integers(
    values: Int64s, bits: Int64s, slot: int, rows: Int64s, taken: Int64s, present: NDArray[np.bool_]
) -> None:
    """Fill `taken` and `present` with a register of numbers, where nothing is present yet.

    `bits` has for each row of `values` one bit for each register that it has.
    """
    for index in range(len(rows)):
        row = rows[index]
        if row >= 0 and not present[index] and bits[row] >> slot & 1:
            taken[index] = values[row, slot]
            present[index] = True


@jit_flat
def take_spans(values: Int64s, bits: Int64s, slot: int, rows: Int64s, start: Int64s, length: Int64s) -> None:
    """Fill `start`, which is -1, and `length`, which is 0, with a register of spans."""
    for index in range(len(rows)):
        row = rows[index]
        if row >= 0 and bits[row] >> slot & 1:
            start[index] = values[row, slot]
            length[index] = values[row, slot + 1]


@jit_flat
def take_either(
    one: Int64s, one_rows: Int64s, other: Int64s, other_rows: Int64s, least: int, taken: Int64s
) -> None:
    """Fill `taken` with a column of one table, or of another one, -1 without both.

    The other one is taken if there is no row of the first, or if the number there is below `least`.
    """
    for index in range(len(taken)):
        row, value = one_rows[index], np.int64(-1)
        if row >= 0:
            value = one[row]
        if row < 0 or value < least:
            row = other_rows[index]
            value = other[row] if row >= 0 else np.int64(-1)
        taken[index] = value


def call_all() -> None:
    """Call every loop once, so that it is compiled and kept."""
    wide = np.zeros((2, 4), np.int64)[:, 1:]
    room, rows = np.zeros(2, np.int64), np.zeros(2, np.int64)
    rows.flags.writeable = False
    take_integers(wide, room, 0, rows, room, np.zeros(2, bool))
    take_spans(wide, room, 0, rows, room, room)
    for column in (wide[:, 0], room):  # of keys, which have rows, and of a walk, which has columns
        take_either(column, rows, column, rows, 0, room)
