"""A split: an exact byte range of one capture file, with everything needed to read it alone.

The index cuts files into splits, and a task reads one split alone. A split begins at the header of its first
packet record and ends behind its last one. A record is never cut, and a split never holds records of two byte
orders or of two pcapng sections. A reader starts a little before the split, to recognise copies and fragments
of recent packets. Splits are small and picklable, since they travel to the workers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

BINARY_RESOLUTION = 0x80  # high bit of if_tsresol: the rest is a negative power of 2, not of 10 (pcapng, 4.2)
NO_CLOCK = -1  # the time of the previous packet where that is unknown: no packet has it
LATEST_NS = (1 << 62) - 1  # times are kept within 0 .. 2116 so that any difference of two fits an int64


class CaptureFormat(StrEnum):
    """The format of a capture file."""

    PCAP = "pcap"
    PCAPNG = "pcapng"


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A part of a file: all records that begin at `start` or later, and before `limit`."""

    path: str
    name: str
    size: int  # of the file
    format: CaptureFormat
    record_header: int
    start: int
    limit: int
    split_bytes: int
    chunk_bytes: int


@dataclass(frozen=True, slots=True)
class Interface:
    """Statements of a capture about an interface (one in a pcap file, any number in pcapng)."""

    link_type: int
    snap_length: int  # longest packet kept, 0: no limit
    resolution: int = 6  # as if_tsresol: 6 is microseconds, 9 nanoseconds, 0x80 | n is 2^-n seconds
    offset_s: int = 0  # seconds to add to every timestamp (if_tsoffset)
    defined_at: int = 0  # file offset of its description; packets before it cannot mean it


# Columns of the kernels' interface table, one row per interface.
(
    LINK,
    SNAP,
    MULTIPLY,  # nanoseconds = ticks * MULTIPLY // DIVIDE, for at most MOST_TICKS …
    DIVIDE,
    MOST_TICKS,
    SHIFT,  # … or seconds = ticks / 2**SHIFT when it is not -1
    ADD_NS,
    DEFINED_AT,
    INTERFACE_FIELDS,
) = range(9)


def interface_row(interface: Interface) -> tuple[int, ...]:
    """Return the row of an interface for kernels: LINK … DEFINED_AT."""
    power = interface.resolution & ~BINARY_RESOLUTION
    multiply, divide, shift = 1, 1, -1
    if interface.resolution & BINARY_RESOLUTION:
        shift = min(power, 63)
    elif power <= 9:
        multiply = 10 ** (9 - power)
    else:
        divide = 10 ** min(power - 9, 18)
    most_ticks = LATEST_NS // multiply if divide == 1 else (1 << 63) - 1
    add_ns = max(-LATEST_NS, min(LATEST_NS, interface.offset_s * 1_000_000_000))
    link_type, snap_length = interface.link_type, interface.snap_length
    return link_type, snap_length, multiply, divide, most_ticks, shift, add_ns, interface.defined_at


def interface_table(interfaces: tuple[Interface, ...]) -> NDArray[np.int64]:
    """Return one row (LINK … DEFINED_AT) for each interface."""
    rows = [interface_row(interface) for interface in interfaces]
    return np.array(rows, dtype=np.int64).reshape(len(rows), INTERFACE_FIELDS)


@dataclass(frozen=True, slots=True)
class Split:
    """One byte range of one capture file. `first_packet` is 1-based, as Wireshark counts."""

    index: int  # ordinal among all splits: files by the time of their first packet, then by place in the file
    path: str  # where a worker reads it
    name: str  # name of the file for the user
    start: int  # file offset of the header of the first record
    stop: int  # file offset after the last record
    first_packet: int
    packets: int
    format: CaptureFormat
    big_endian: bool
    record_header: int  # bytes before the packet in pcap: 16, or 24 in the "modified" format; 0 in pcapng
    interfaces: tuple[Interface, ...]
    time_before_ns: int  # before the first packet, for pcapng simple packets, which have no time
    recalled_packets: int = 0  # packets read before those of the split; see `dedup`
    recalled_bytes: int = 0  # distance from the first of them to `start`

    @property
    def recall_start(self) -> int:
        """File offset of the header of the first record to be read."""
        return self.start - self.recalled_bytes


EndsBefore: TypeAlias = Callable[[Split], bool]
"""Called before each split is read: whether reading ends there."""
