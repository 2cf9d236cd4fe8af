"""Compiled readers of big-endian integers and varints in a byte array.

The readers of fixed sizes do not check bounds: the caller has checked that the bytes are there. The varint
reader checks them, since only it finds the size.
"""

from typing import Any

import numpy as np

from kdissect.jit.decorators import jit_flat
from kdissect.jit.words import big_16, big_32, big_64

ENDS_EARLY, TOO_LONG = -1, -2  # what stands in place of the next position when a varint cannot be read


@jit_flat
def int8_at(data: Any, offset: int) -> Any:
    """Return a signed byte."""
    return int((np.int64(data[offset]) ^ 0x80) - 0x80)


@jit_flat
def int16_at(data: Any, offset: int) -> Any:
    """Return 2 bytes as a signed integer."""
    return big_16(data, offset)


@jit_flat
def uint16_at(data: Any, offset: int) -> Any:
    """Return 2 bytes as an unsigned integer."""
    return big_16(data, offset) & 0xFFFF


@jit_flat
def int32_at(data: Any, offset: int) -> Any:
    """Return 4 bytes as a signed integer."""
    return big_32(data, offset)


@jit_flat
def int64_at(data: Any, offset: int) -> Any:
    """Return 8 bytes as a signed integer."""
    return big_64(data, offset)


@jit_flat
def uvarint_at(data: Any, offset: int, stop: int) -> Any:
    """Return an unsigned varint of at most 32 bits and the position behind it, or why there is none."""
    value = 0
    for index in range(5):
        if offset + index >= stop:
            return 0, ENDS_EARLY
        byte = int(np.int64(data[offset + index]))
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                return 0, TOO_LONG
            return value, offset + index + 1
    return 0, TOO_LONG
