"""Large records of a pcap file are read as far as somebody looks at them.

Half of the bytes of mixed traffic lie in a few packets of 16 to 64 KB. The index needs their record headers,
and pass one the heads of their protocols, so the rest is skipped. Index and pass one of mixed.pcap (4.0 GB)
took 0.64 and 1.00 s of processor time when all was read, and take 0.50 and 0.88; those of bulk.pcap (4.2 GB,
packets of 38 KB) 0.55 and 0.67, and 0.19 and 0.27.
"""

import os

import numpy as np

from kdissect.array_types import Bytes
from kdissect.capture.formats.record_table import u32
from kdissect.jit.decorators import jit_flat, read_file

LARGE_RECORDS = 1536  # bytes: records of this size, on average, may have some that are worth skipping
FIRST_READ, LONGEST_READ = 4 << 10, 64 << 10  # bytes: reads behind a skipped part begin small
PROBED_AHEAD = 8 << 20  # bytes: the system reads less than that ahead of a reader
LENGTH_AT = 8  # of the captured bytes, in a record header
LENGTH_STOP = 12


def skips_pay(descriptor: int, offset: int, stop: int) -> bool:
    """Return whether the system has the file in memory, by a byte of it behind what it reads ahead by itself.

    A disk is better read as a whole: the system reads ahead of those who skip nothing.
    """
    if not hasattr(os, "RWF_NOWAIT"):
        return False
    try:
        return os.preadv(descriptor, [bytearray(1)], min(stop - 1, offset + PROBED_AHEAD), os.RWF_NOWAIT) == 1
    except OSError:
        return False


@jit_flat
def fill_heads(
    descriptor: int, offset: int, buffer: Bytes, wanted: int, record_header: int, head: int, big_endian: bool
) -> int:
    """Read a part of a pcap file from `offset` on, where a record begins, as far as it is needed.

    Among the first `wanted` bytes of `buffer`, record headers and the first `head` bytes of each packet are
    those of the file, and others may be anything. Return how many may be used: fewer if the file ends.
    """
    at = filled = 0
    size = FIRST_READ
    while at < wanted:
        stop = min(at + record_header + head, wanted)
        while filled < stop:
            size = FIRST_READ if at > filled else min(2 * size, LONGEST_READ)
            filled = max(at, filled)
            got = read_file(descriptor, buffer, filled, min(size, wanted - filled), offset + filled)
            if got <= 0:
                return filled
            filled += got
        if at + LENGTH_STOP > wanted:
            break
        at += record_header + u32(buffer, at + LENGTH_AT, big_endian)
    return wanted


def call_all() -> None:
    """Call every loop once, so that it is compiled and kept."""
    fill_heads(-1, 0, np.empty(1, np.uint8), 0, 16, 0, False)
