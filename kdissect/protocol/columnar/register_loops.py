"""Compiled loops that take one column of registers for many rows.

In come tables with wide rows, and for each row of the result the row that it is taken from, -1 for none. One
pass takes the place of five with NumPy: a column took 5 to 10 ns a row and takes 1 to 2. `batch_reader`
calls the loops for many rows, and has the plain way for few.
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


def call_all() -> None:
    """Call every loop once, so that it is compiled and kept."""
    wide = np.zeros((2, 4), np.int64)[:, 1:]
    room, rows = np.zeros(2, np.int64), np.zeros(2, np.int64)
    rows.flags.writeable = False
    take_integers(wide, room, 0, rows, room, np.zeros(2, bool))
    take_spans(wide, room, 0, rows, room, room)
