"""Integers of several bytes are read at any offset, and bits are found."""

import struct
from typing import Any

import numpy as np
import pytest

from kdissect.jit.decorators import jit_flat
from kdissect.jit.words import big_16, big_32, big_64, lowest_bit

VALUES = [0, 1, -1, 0x0102030405060708, -(1 << 63), (1 << 63) - 1]


@jit_flat
def read_all(source: Any, at: int, values: Any) -> None:
    """Read the number at `at` in each size."""
    values[0] = big_16(source, at)
    values[1] = big_32(source, at)
    values[2] = big_64(source, at)


@jit_flat
def count_bits(value: int, numbers: Any) -> int:
    """Write the numbers of all bits that are set; return how many they are."""
    count = 0
    while value:
        numbers[count] = lowest_bit(value)
        value &= value - 1
        count += 1
    return count


@pytest.mark.parametrize("bits", [[], [0], [5, 9, 41], [62], list(range(63))])
def test_bits_are_found_from_the_lowest_on(bits: list[int]) -> None:
    numbers = np.zeros(64, np.int64)
    count = count_bits(sum(1 << bit for bit in bits), numbers)
    assert numbers[:count].tolist() == bits


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("at", [0, 1, 3, 8])
def test_integers_are_read_in_network_order(value: int, at: int) -> None:
    source = np.full(16, 7, np.uint8)
    struct.pack_into(">q", source, at, value)
    values = np.zeros(3, np.int64)
    read_all(source, at, values)
    raw = struct.pack(">q", value)
    sizes = {">h": 2, ">i": 4, ">q": 8}
    assert values.tolist() == [struct.unpack(layout, raw[:size])[0] for layout, size in sizes.items()]
