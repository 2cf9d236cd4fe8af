"""Bytes are compared at any offset and length, and each of them counts."""

from typing import Any

import numpy as np
import pytest

from kdissect.jit.decorators import jit_flat
from kdissect.jit.same_bytes import same_bytes


@jit_flat
def compare(one: Any, begin: int, other: Any, start: int, count: int) -> bool:
    """Call the loop that only other loops may call."""
    return same_bytes(one, begin, other, start, count)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 16, 23])
@pytest.mark.parametrize(("begin", "start"), [(0, 0), (3, 8), (8, 1)])
def test_every_byte_counts_and_no_other(count: int, begin: int, start: int) -> None:
    one, other = np.full(40, 1, np.uint8), np.full(40, 2, np.uint8)
    one[begin : begin + count] = other[start : start + count] = np.arange(count)
    assert compare(one, begin, other, start, count)
    for place in range(count):
        other[start + place] += 1
        assert not compare(one, begin, other, start, count)
        other[start + place] -= 1
