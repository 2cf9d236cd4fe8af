"""The pcap format: a file header that fixes byte order, resolution and link type, then one record per packet.

Four magic numbers, each in both byte orders: microseconds, nanoseconds, and two of the "modified" format
(Kuznetsov), whose record headers are 8 bytes longer. The length on the wire is only reported: some writers
get it wrong, even smaller than what they captured. Layout:
https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-04.html
"""

import struct
from typing import NamedTuple

from kdissect.array_types import Bytes, Int64s
from kdissect.capture.formats import record_table
from kdissect.capture.formats.record_table import u32, within_range
from kdissect.capture.index.splits import (
    LINK,
    MULTIPLY,
    SNAP,
    Interface,
)
from kdissect.jit.decorators import jit_flat

HEADER_BYTES = 24
LARGEST_USUAL = 262144  # MAXIMUM_SNAPLEN of libpcap, which writers observe whatever snaplen they declare


class PcapHeader(NamedTuple):
    """Settings of the file header for every record."""

    big_endian: bool
    record_header: int
    interface: Interface


def read_header(first: bytes) -> PcapHeader | None:
    """Return the header in the first 24 bytes of a file; None if they are not a pcap header."""
    variant = MAGICS.get(first[:4])
    if variant is None or len(first) < HEADER_BYTES:
        return None
    big_endian, resolution, record_header = variant
    snap_length, network = struct.unpack_from(">II" if big_endian else "<II", first, 16)
    # The upper half of the link type describes frame check sequences, which IP lengths exclude.
    return PcapHeader(big_endian, record_header, Interface(network & 0xFFFF, snap_length, resolution))


@jit_flat
def longest_packet(snap: int) -> int:
    """Return how many bytes a record may hold. A record that claims more is damaged."""
    return (
        max(snap, LARGEST_USUAL)
        if 0 < snap <= record_table.MOST_RECORD_BYTES
        else record_table.MOST_RECORD_BYTES
    )


@jit_flat
def read_records(
    data: Bytes,
    base: int,
    stop: int,
    limit: int,
    head: int,
    big_endian: bool,
    record_header: int,
    interfaces: Int64s,
    records: Int64s,
    state: Int64s,
) -> None:
    """Fill `records` with the records from state[POSITION] on; data[0] is byte `base` of the file.

    Bytes from `stop` on are not read, nor are records that begin at `limit` or later.
    """
    position, count, outcome = state[record_table.POSITION], 0, record_table.MORE
    link_type, multiply, snap = interfaces[0, LINK], interfaces[0, MULTIPLY], interfaces[0, SNAP]
    longest = longest_packet(snap)
    while True:
        if count == len(records):
            outcome = record_table.FULL
            break
        at = position - base
        if position >= limit:
            outcome = record_table.END
            break
        if stop - position < record_header:
            outcome = record_table.CUT
            break
        if at + record_header > len(data):
            break
        captured = u32(data, at + 8, big_endian)
        if captured > longest:
            outcome = record_table.DAMAGED
            break
        if stop - position < record_header + captured:
            outcome = record_table.CUT
            break
        if at + record_header + min(head, captured) > len(data):
            break
        ticks = u32(data, at + 4, big_endian)
        records[count, record_table.START] = position
        records[count, record_table.AT] = position + record_header
        records[count, record_table.CAPTURED] = captured
        records[count, record_table.ORIGINAL] = u32(data, at + 12, big_endian)
        records[count, record_table.TIME_NS] = within_range(
            u32(data, at, big_endian) * 1_000_000_000 + ticks * multiply
        )
        records[count, record_table.LINK_TYPE] = link_type
        position += record_header + captured
        records[count, record_table.STOP] = position
        count += 1
    if count:
        state[record_table.CLOCK_NS] = records[count - 1, record_table.TIME_NS]
    state[record_table.POSITION], state[record_table.COUNT] = position, count
    state[record_table.OUTCOME] = outcome


def _both_orders(magic: int, resolution: int, record_header: int) -> dict[bytes, tuple[bool, int, int]]:
    return {
        struct.pack("<I", magic): (False, resolution, record_header),
        struct.pack(">I", magic): (True, resolution, record_header),
    }


MAGICS = {
    **_both_orders(0xA1B2C3D4, 6, 16),
    **_both_orders(0xA1B23C4D, 9, 16),
    **_both_orders(0xA1B2CD34, 6, 24),
    **_both_orders(0xA1B23C34, 9, 24),
}
