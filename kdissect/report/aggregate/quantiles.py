"""The one definition of a quantile: nearest rank.

The quantile p of n values in ascending order is the value at rank ceil(p n), counted from 1: the smallest
value that is not below a part p of all. It is always one of the values, and the median of 100 values is the
50th. Parts are given in thousandths and computed with integers, so that no rounding of binary fractions moves
a rank.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Count = TypeVar("Count", int, npt.NDArray[np.int64])


def nearest_rank(count: Count, per_mille: int) -> Count:
    """Return the rank, from 1, of a quantile of `count` values, or of each of several counts; 0 for none."""
    return (count * per_mille + 999) // 1000


def quantile(ordered: Sequence[int], per_mille: int) -> int:
    """Return a quantile of values in ascending order. Raise IndexError if there are none."""
    return ordered[max(nearest_rank(len(ordered), per_mille), 1) - 1]
