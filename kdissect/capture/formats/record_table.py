"""The record table: packet records in the same form for every capture format.

The kernels of `pcap` and `pcapng` fill it, the index counts it, and the scan reads the packets that it names.
"""

import numpy as np

from kdissect.array_types import Bytes
from kdissect.capture.index.splits import LATEST_NS
from kdissect.jit.decorators import jit_inner

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

# The state of a reader.
(
    POSITION,  # file offset of the first byte that was not read
    COUNT,  # rows filled
    OUTCOME,  # record_reader.ReadOutcome
    CLOCK_NS,  # time of the last packet, for records without a time
    WALK_FIELDS,
) = range(5)

END, MORE, FULL, CUT, DAMAGED, BLOCK = range(6)

MOST_RECORD_BYTES = 64 << 20  # a longer record means that the file is damaged


@jit_inner
def u8(data: Bytes, at: int) -> int:
    """Return a byte.

    An unsigned index avoids the check for negative ones, and lets the compiler join reads.
    """
    return int(np.int64(data[np.uint64(at)]))


@jit_inner
def u16(data: Bytes, at: int, big_endian: bool) -> int:
    """Return two bytes as an unsigned integer."""
    a: int = u8(data, at)
    b: int = u8(data, at + 1)
    return a << 8 | b if big_endian else b << 8 | a


@jit_inner
def u32(data: Bytes, at: int, big_endian: bool) -> int:
    """Return four bytes as an unsigned integer."""
    a: int = u8(data, at)
    b: int = u8(data, at + 1)
    c: int = u8(data, at + 2)
    d: int = u8(data, at + 3)
    return a << 24 | b << 16 | c << 8 | d if big_endian else d << 24 | c << 16 | b << 8 | a


@jit_inner
def folded(value: int, salt: int) -> int:
    """Return a 32-bit hash of a number below 2**32 and a small salt.

    It does not protect against forged collisions.
    """
    product = ((value ^ salt << 24) & 0xFFFFFFFF) * 0x5851F42D
    return (product ^ product >> 29) & 0xFFFFFFFF


@jit_inner
def within_range(time_ns: int) -> int:
    """Return a time limited to 1970 to 2116, so that differences of times never overflow."""
    return min(max(time_ns, 0), LATEST_NS)
