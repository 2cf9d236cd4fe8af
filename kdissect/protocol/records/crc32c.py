"""Checksums of records: CRC-32C over record batches (magic 2), CRC-32 over the messages of old message sets.

The checksum of a batch covers everything behind itself, from the attributes on. That of a message covers its
magic byte and all that follows.

`patched_crc32c` returns the checksum after a few bytes at the beginning have changed, without reading those
behind them. A CRC is linear over GF(2): the checksum of the changed data differs from the old one by the
remainder of the difference, shifted by as many zero bits as there are bits behind it. The shift is a
multiplication by a power of x modulo the polynomial (Castagnoli's, RFC 3720, appendix B.4; bits are reversed,
so x^0 is the highest). A checksum that was wrong stays wrong by the same difference.
"""

import zlib
from functools import cache, lru_cache
from struct import Struct
from typing import Any

from google_crc32c import value as crc32c

from kdissect.jit.decorators import jit_flat
from kdissect.protocol.records.batches import ATTRIBUTES_AT, CRC_AT, LENGTH_AT, MAGIC_AT, PREFIX_BYTES

__all__ = ["checksum_holds", "crc32c", "patched_crc32c"]

CRC_OFFSET = {0: PREFIX_BYTES, 1: PREFIX_BYTES, 2: CRC_AT}  # by magic
COVERED_OFFSET = {0: MAGIC_AT, 1: MAGIC_AT, 2: ATTRIBUTES_AT}
_LENGTH, _CHECKSUM = Struct(">i"), Struct(">I")

CASTAGNOLI = 0x82F63B78  # the polynomial, bits reversed
MASK = 0xFFFFFFFF
ONE = 1 << 31  # x^0
MOST_BITS = 36  # of a length in bits
FEW_BYTES = 1024


def checksum_holds(data: bytes, start: int, stop: int) -> bool | None:
    """Return whether the batch or message at data[start:stop] has the checksum that it carries.

    None if it is not all there, or of no known magic.
    """
    if stop - start < ATTRIBUTES_AT:
        return None
    magic = data[start + MAGIC_AT]
    end = start + PREFIX_BYTES + _LENGTH.unpack_from(data, start + LENGTH_AT)[0]
    if magic not in CRC_OFFSET or not start + COVERED_OFFSET[magic] <= end <= stop:
        return None
    covered = data[start + COVERED_OFFSET[magic] : end]
    computed = crc32c(covered) if magic == 2 else zlib.crc32(covered)
    return bool(computed == _CHECKSUM.unpack_from(data, start + CRC_OFFSET[magic])[0])


def patched_crc32c(checksum: int, before: bytes, after: bytes, behind: int) -> int:
    """Return the checksum after `before` became `after`, of the same length, with `behind` bytes behind."""
    if behind <= FEW_BYTES:  # then zeros in their place are read sooner than a product is made
        zeros = bytes(behind)
        return checksum ^ int(crc32c(before + zeros)) ^ int(crc32c(after + zeros))
    difference = crc32c(before) ^ crc32c(after)
    return checksum ^ int(_multiply(_power_of_x(8 * behind), difference))


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
