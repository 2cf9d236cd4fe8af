"""What becomes of a CRC-32C when a few bytes in front of many others change, without looking at the others.

A CRC is linear over GF(2): the checksum of the changed data differs from the old one by the remainder of the
difference, moved behind by as many zero bits as there are bits behind it, which is a multiplication by a
power of x modulo the polynomial (RFC 3720, appendix B.4; bits are reversed, so x^0 is the highest). A
checksum that was wrong stays wrong by the same difference.
"""

from functools import cache, lru_cache
from typing import Any

import numpy as np

from kdissect.jit.decorators import jit_flat
from kdissect.protocol.records.crc32c import (
    CASTAGNOLI,
    MASK,
    crc32c,
)

ONE = 1 << 31  # x^0
MOST_BITS = 36  # of a length in bits


def patched_crc32c(checksum: int, before: bytes, after: bytes, behind: int) -> int:
    """Return the checksum after `before` became `after`, of the same length, with `behind` bytes behind."""
    old, new = np.frombuffer(before, np.uint8), np.frombuffer(after, np.uint8)
    return int(_patched(checksum, old, new, _power_of_x(8 * behind)))


@jit_flat
def _patched(checksum: Any, old: Any, new: Any, power: Any) -> Any:
    difference = crc32c(old, 0, len(old)) ^ crc32c(new, 0, len(new))
    return checksum ^ _multiply(power, difference)


@jit_flat
def _multiply(left: Any, right: Any) -> Any:
    """Multiply two polynomials modulo Castagnoli's."""
    product = 0
    while left:
        if left & ONE:
            product ^= right
        left = left << 1 & MASK
        right = right >> 1 ^ (CASTAGNOLI if right & 1 else 0)
    return product


@lru_cache(4096)  # batches of the same size come again and again
def _power_of_x(exponent: int) -> int:
    power = ONE
    for square in _squares():
        if exponent & 1:
            power = int(_multiply(square, power))
        exponent >>= 1
        if not exponent:
            break
    return power


@cache
def _squares() -> tuple[int, ...]:
    """Return x^1, x^2, x^4, x^8 and so on."""
    squares = [ONE >> 1]
    for _ in range(MOST_BITS - 1):
        squares.append(int(_multiply(squares[-1], squares[-1])))
    return tuple(squares)
