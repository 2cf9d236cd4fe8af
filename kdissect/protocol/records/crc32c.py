"""Checksums of records: CRC-32C over record batches (magic 2), CRC-32 over the messages of old message sets.

CRC-32C (Castagnoli, RFC 3720 appendix B.4) is computed eight bytes at a time by tables. A batch's checksum
covers everything behind the checksum itself, attributes first; a message's covers its magic byte and all that
follows.
"""

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdissect.jit.decorators import jit_flat
from kdissect.protocol.integers import int32_at, uint32_at

CASTAGNOLI = 0x82F63B78  # the polynomial, bits reversed
MASK = 0xFFFFFFFF
LENGTH_OFFSET, PREFIX, MAGIC_OFFSET = 8, 12, 16  # from the first byte of the batch or message
CRC_OFFSET, COVERED_OFFSET = {0: 12, 1: 12, 2: 17}, {0: 16, 1: 16, 2: 21}  # by magic


def _tables() -> NDArray[np.int64]:
    tables = np.zeros((8, 256), np.int64)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (CASTAGNOLI if value & 1 else 0)
        tables[0, byte] = value
    for ahead in range(1, 8):
        tables[ahead] = tables[ahead - 1] >> 8 ^ tables[0, tables[ahead - 1] & 0xFF]
    return tables


TABLES = _tables()


@jit_flat
def crc32c(data: Any, start: int, stop: int) -> Any:
    """Compute the CRC-32C of data[start:stop] (a uint8 array)."""
    value = np.int64(MASK)
    at = start
    while at + 8 <= stop:
        low = value ^ (
            np.int64(data[at])
            | np.int64(data[at + 1]) << 8
            | np.int64(data[at + 2]) << 16
            | np.int64(data[at + 3]) << 24
        )
        value = (
            TABLES[7, low & 0xFF]
            ^ TABLES[6, low >> 8 & 0xFF]
            ^ TABLES[5, low >> 16 & 0xFF]
            ^ TABLES[4, low >> 24]
            ^ TABLES[3, np.int64(data[at + 4])]
            ^ TABLES[2, np.int64(data[at + 5])]
            ^ TABLES[1, np.int64(data[at + 6])]
            ^ TABLES[0, np.int64(data[at + 7])]
        )
        at += 8
    while at < stop:
        value = TABLES[0, (value ^ np.int64(data[at])) & 0xFF] ^ value >> 8
        at += 1
    return value ^ MASK


def checksum_holds(data: NDArray[np.uint8], start: int, stop: int) -> bool | None:
    """Return whether the batch or message at data[start:stop] has the checksum it carries.

    None if it is not all there.
    """
    if stop - start < PREFIX + 9:
        return None
    magic = int(data[start + MAGIC_OFFSET])
    end = start + PREFIX + int(int32_at(data, start + LENGTH_OFFSET))
    if magic not in CRC_OFFSET or not start + COVERED_OFFSET[magic] <= end <= stop:
        return None
    covered = start + COVERED_OFFSET[magic]
    computed = crc32c(data, covered, end) if magic == 2 else zlib.crc32(data[covered:end].tobytes())
    return int(computed) == int(uint32_at(data, start + CRC_OFFSET[magic]))
