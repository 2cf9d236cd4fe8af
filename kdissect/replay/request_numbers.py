"""A number for each captured request, by its index: for what a pass learns of requests as it goes.

The column grows with the largest index. Its memory comes from the system as zeros, so requests about which
nothing was learnt take none.
"""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


class RequestNumbers:
    """Numbers of one type, 0 for requests without one."""

    __slots__ = ("_column", "values")

    def __init__(self, kind: DTypeLike) -> None:
        self._column: NDArray[Any] = np.zeros(0, kind)
        self.values = memoryview(
            self._column.data
        )  # as far as there is room; gives numbers sooner than an array

    def __getitem__(self, index: int) -> int:
        number: int = self.values[index] if index < len(self.values) else 0
        return number

    def __setitem__(self, index: int, number: int) -> None:
        self.room(index)[index] = number

    def __len__(self) -> int:
        """Return for how many requests there is room."""
        return len(self.values)

    def room(self, index: int) -> memoryview:
        """Return the numbers, which have room for that of a request."""
        if index >= len(self.values):
            self._make_room(index + 1)
        return self.values

    def column(self, count: int = 0) -> NDArray[Any]:
        """Return all numbers, of `count` requests at least. Changes of the array are those of the numbers."""
        if count > len(self.values):
            self._make_room(count)
        return self._column

    def _make_room(self, count: int) -> None:
        column = np.zeros(max(count, 2 * len(self._column)), self._column.dtype)
        column[: len(self._column)] = self._column
        self._column, self.values = column, memoryview(column.data)

    def __getstate__(self) -> tuple[NDArray[Any]]:
        return (self._column,)

    def __setstate__(self, state: tuple[NDArray[Any]]) -> None:
        (self._column,) = state
        self.values = memoryview(self._column.data)
