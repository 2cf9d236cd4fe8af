"""When a compiled loop pays for a column of numbers, and how arrays are handed to it.

Loading a loop from its cache takes three milliseconds, and calling it some microseconds. NumPy is as fast for
few rows, and where loops are not compiled it is much faster. So figures and columns have both ways, and tests
hold them to each other.

A process that has had many rows has loaded most loops, and loads the others within some batches. From then on
they pay for fewer rows: a batch of mixed traffic has 2,000 to 7,000 exchanges, and half of these batches went
the plain way, which took 430 ns of 2,100 an exchange.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kdissect.jit.rows import COMPILED

MANY_ROWS = 1 << 12
ROWS_ONCE_LOADED = 1 << 7

Number = TypeVar("Number", bound=np.generic)


class _Bound:
    """How many rows are many for this process, from now on."""

    rows = MANY_ROWS


def are_many(rows: int) -> bool:
    """Return whether so many rows are worth a compiled loop."""
    if not COMPILED or rows < _Bound.rows:
        return False
    if rows >= MANY_ROWS:
        _Bound.rows = ROWS_ONCE_LOADED
    return True


def read_only(array: NDArray[Number]) -> NDArray[Number]:
    """Return an array as loops take it: writable or not are two types to the compiler, and one is enough."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
