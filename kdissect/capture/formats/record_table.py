"""The record table: what a packet record says, in the same form for every capture format.

Kernels that walk over a file fill it, the survey counts it, the scan reads the packets behind it.
"""

import numpy as np
from numpy.typing import NDArray

from kdissect.capture.index.splits import LATEST_NS
from kdissect.jit.decorators import jit_inner

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]

# Columns of a record table, one row per packet. Positions are file offsets.
(
    START,  # of the record's header
    STOP,  # after the record, padding included
    AT,  # of the packet's first byte
    CAPTURED,  # packet bytes in the file
    ORIGINAL,  # packet bytes on the wire, as the capture tells
    TIME_NS,
    LINK_TYPE,  # -1: the interface was never described
    RECORD_COLUMNS,
) = range(8)

# The state of a walk.
(
    POSITION,  # file offset of the first byte not passed
    COUNT,  # rows filled
    OUTCOME,  # walk.Outcome
    CLOCK_NS,  # time of the last packet passed, for records that carry none
    WALK_FIELDS,
) = range(5)

END, MORE, FULL, CUT, DAMAGED, BLOCK = range(6)

MOST_RECORD_BYTES = 64 << 20  # a longer record is no record: the file is damaged there


@jit_inner
def u8(data: Bytes, at: int) -> int:
    """Read a byte. An unsigned index spares the check for negative ones, and lets the compiler join neighbours."""
    return int(np.int64(data[np.uint64(at)]))


@jit_inner
def u16(data: Bytes, at: int, big_endian: bool) -> int:
    """Read two bytes."""
    a: int = u8(data, at)
    b: int = u8(data, at + 1)
    return a << 8 | b if big_endian else b << 8 | a


@jit_inner
def u32(data: Bytes, at: int, big_endian: bool) -> int:
    """Read four bytes."""
    a: int = u8(data, at)
    b: int = u8(data, at + 1)
    c: int = u8(data, at + 2)
    d: int = u8(data, at + 3)
    return a << 24 | b << 16 | c << 8 | d if big_endian else d << 24 | c << 16 | b << 8 | a


@jit_inner
def folded(value: int, salt: int) -> int:
    """Mix a number below 2**32 with a small salt; 32 bits come out. Not against forgers: equal numbers meet everywhere."""
    product = ((value ^ salt << 24) & 0xFFFFFFFF) * 0x5851F42D
    return (product ^ product >> 29) & 0xFFFFFFFF


@jit_inner
def within_range(time_ns: int) -> int:
    """Keep a time between 1970 and 2116, so that differences of times never overflow."""
    return min(max(time_ns, 0), LATEST_NS)
