"""When a compiled loop pays for a column of numbers, and how arrays are handed to it.

Loading a loop from its cache takes ten milliseconds, and calling it a microsecond. NumPy is as fast for few
rows, and where loops are not compiled it is much faster. So figures and columns have both ways, and tests
hold them to each other.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kdissect.jit.rows import COMPILED

MANY_ROWS = 1 << 12

Number = TypeVar("Number", bound=np.generic)


def are_many(rows: int) -> bool:
    """Return whether so many rows are worth a compiled loop."""
    return COMPILED and rows >= MANY_ROWS


def read_only(array: NDArray[Number]) -> NDArray[Number]:
    """Return an array as loops take it: writable or not are two types to the compiler, and one is enough."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
