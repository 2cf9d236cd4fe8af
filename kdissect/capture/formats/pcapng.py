"""The pcapng format: sections, each with a byte order of its own, made of blocks.

A section header block opens a section and forgets the interfaces before it; interface description blocks
number the interfaces of the section; packets come in enhanced, simple and obsolete packet blocks. Blocks that
change how others are read, or that the index needs (statistics, secrets), are read in Python; all others are
skipped. Layout: https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from kdissect.array_types import Bytes, Int64s
from kdissect.capture.formats import record_table
from kdissect.capture.formats.record_table import u16, u32, within_range
from kdissect.capture.index import splits
from kdissect.capture.index.splits import (
    Interface,
)
from kdissect.jit.decorators import jit_flat, jit_inner

SECTION_MAGIC = b"\x0a\x0d\x0d\x0a"
SECTION, INTERFACE, PACKET, SIMPLE_PACKET, NAMES, STATISTICS, ENHANCED_PACKET, SECRETS = (
    0x0A0D0D0A,
    1,
    2,
    3,
    4,
    5,
    6,
    10,
)
CUSTOM = 0xBAD  # and the same with its second highest bit set
BLOCK_HEADER = 8
BLOCK_OVERHEAD = 12  # type, length, body, length again
SECTION_BYTES = 28  # of a section header block without options
PACKET_HEADER = 28  # before the packet's bytes in an enhanced or obsolete packet block
SIMPLE_HEADER = 12
PACKET_READ = -1  # beside the outcomes of the record table: go on
FRACTION_BITS = 33  # more would overflow when multiplied by 10^9; the dropped part is less than a nanosecond


class PcapngBlock(NamedTuple):
    """A block that the index reads: its kind, its file offsets, its byte order and its body."""

    kind: int
    start: int
    stop: int
    big_endian: bool
    body: bytes

    def unpack(self, layout: str, at: int = 0) -> tuple[int, ...]:
        """Return integers in the byte order of the section; zeros if the body is too short."""
        form = struct.Struct((">" if self.big_endian else "<") + layout)
        return form.unpack(self.body[at : at + form.size].ljust(form.size, b"\0"))

    def options(self, at: int) -> Iterator[tuple[int, bytes]]:
        """Return the complete options from body[at] on as pairs of code and value."""
        while at + 4 <= len(self.body):
            code, length = self.unpack("HH", at)
            if code == 0 or at + 4 + length > len(self.body):
                return
            yield code, self.body[at + 4 : at + 4 + length]
            at += 4 + (length + 3 & ~3)


class InterfaceStatistics(NamedTuple):
    """Packets lost on an interface, as the capture reports: by the interface, and by the operating system."""

    interface: int
    interface_drops: int
    system_drops: int


class SecretsBlock(NamedTuple):
    """Place of decryption secrets in the file; kind 0x544c534b is a TLS key log."""

    kind: int
    offset: int
    length: int


def section_order(first: bytes) -> bool | None:
    """Return whether the section that begins with `first` is big-endian; None if it is no section header."""
    if len(first) < SECTION_BYTES or first[:4] != SECTION_MAGIC:
        return None
    orders = {b"\x1a\x2b\x3c\x4d": True, b"\x4d\x3c\x2b\x1a": False}
    big_endian = orders.get(first[8:12])
    if big_endian is None:
        return None
    length, major = struct.unpack_from(">I4xH" if big_endian else "<I4xH", first, 4)
    return big_endian if major == 1 and SECTION_BYTES <= length <= record_table.MOST_RECORD_BYTES else None


def read_interface(block: PcapngBlock) -> Interface:
    """Return the interface of an interface description block."""
    link_type, _, snap_length = block.unpack("HHI")
    resolution, offset_s = 6, 0
    for code, value in block.options(8):
        if code == 9 and len(value) == 1:
            resolution = value[0]
        elif code == 14 and len(value) == 8:
            offset_s = int.from_bytes(value, "big" if block.big_endian else "little", signed=True)
    return Interface(link_type, snap_length, resolution, offset_s, block.start)


def read_statistics(block: PcapngBlock) -> InterfaceStatistics:
    """Return the statistics of an interface statistics block."""
    counts = {
        code: int.from_bytes(value, "big" if block.big_endian else "little")
        for code, value in block.options(12)
        if len(value) == 8
    }
    return InterfaceStatistics(block.unpack("I")[0], counts.get(5, 0), counts.get(7, 0))


def read_secrets(block: PcapngBlock) -> SecretsBlock:
    """Return where the secrets of a decryption secrets block lie."""
    kind, length = block.unpack("II")
    begin = block.start + BLOCK_HEADER + 8
    return SecretsBlock(kind, begin, max(0, min(length, block.stop - 4 - begin)))


@jit_inner
def _binary_time_ns(high: int, low: int, shift: int) -> int:
    if shift >= 32:
        seconds = high >> (shift - 32)
        fraction = (high & ((1 << (shift - 32)) - 1)) << 32 | low
    elif high >> shift:
        return splits.LATEST_NS
    else:
        seconds = high << (32 - shift) | low >> shift
        fraction = low & ((1 << shift) - 1)
    if shift > FRACTION_BITS:
        fraction >>= shift - FRACTION_BITS
        shift = FRACTION_BITS
    return min(seconds, splits.LATEST_NS // 1_000_000_000) * 1_000_000_000 + (
        fraction * 1_000_000_000 >> shift
    )


@jit_flat
def time_ns(high: int, low: int, interfaces: Int64s, number: int) -> int:
    """Return nanoseconds since the epoch for the two halves of a timestamp of interface `number`."""
    if interfaces[number, splits.SHIFT] >= 0:
        since = _binary_time_ns(high, low, interfaces[number, splits.SHIFT])
    elif high >= 0x80000000 or (high << 32 | low) > interfaces[number, splits.MOST_TICKS]:
        since = splits.LATEST_NS
    else:
        since = (high << 32 | low) * interfaces[number, splits.MULTIPLY]
        if interfaces[number, splits.DIVIDE] > 1:
            since //= interfaces[number, splits.DIVIDE]
    return int(within_range(min(since, splits.LATEST_NS) + interfaces[number, splits.ADD_NS]))


@jit_inner
def _packet_header(
    data: Bytes, at: int, kind: int, length: int, big_endian: bool, interfaces: Int64s
) -> tuple[int, int, int, int, int]:
    """Read the header of the packet block at data[at:].

    Return an outcome (PACKET_READ, or why there is no packet), the bytes of the header, the packet bytes in
    the file and on the wire, and the number of the interface.
    """
    header = SIMPLE_HEADER if kind == SIMPLE_PACKET else PACKET_HEADER
    room = length - header - 4
    if room < 0:
        return record_table.DAMAGED, header, 0, 0, 0
    if at + header > len(data):
        return record_table.MORE, header, 0, 0, 0
    if kind == SIMPLE_PACKET:
        original, number = u32(data, at + 8, big_endian), 0
        captured = min(original, room)
        if len(interfaces) and interfaces[0, splits.SNAP] > 0:
            captured = min(captured, interfaces[0, splits.SNAP])
    else:
        captured = u32(data, at + 20, big_endian)
        original = u32(data, at + 24, big_endian)
        number = u32(data, at + 8, big_endian) if kind == ENHANCED_PACKET else u16(data, at + 8, big_endian)
    outcome = record_table.DAMAGED if captured > room else PACKET_READ
    return outcome, header, captured, original, number


@jit_inner
def _block_header(
    data: Bytes, base: int, stop: int, limit: int, position: int, big_endian: bool
) -> tuple[int, int, int]:
    """Read the header of the block at `position`.

    Return an outcome (PACKET_READ: it is complete), its kind and its length.
    """
    at = position - base
    if position >= limit:
        return record_table.END, 0, 0
    if stop - position < BLOCK_OVERHEAD:
        return record_table.CUT, 0, 0
    if at + BLOCK_HEADER > len(data):
        return record_table.MORE, 0, 0
    kind = u32(data, at, big_endian)
    if kind == SECTION:
        return record_table.BLOCK, kind, 0
    length = u32(data, at + 4, big_endian)
    if length < BLOCK_OVERHEAD or length > record_table.MOST_RECORD_BYTES:
        return record_table.DAMAGED, kind, length
    if position + (length + 3 & ~3) > stop:
        return record_table.CUT, kind, length
    return PACKET_READ, kind, length


@jit_flat
def read_blocks(
    data: Bytes,
    base: int,
    stop: int,
    limit: int,
    head: int,
    big_endian: bool,
    look: int,
    interfaces: Int64s,
    records: Int64s,
    state: Int64s,
) -> None:
    """Fill `records` with the packets from state[POSITION] on; data[0] is byte `base` of the file.

    Bytes from `stop` on are not read, nor are blocks that begin at `limit` or later. The outcome is BLOCK at
    a section header and, if `look` is set, at any block that describes others.
    """
    position, count, clock_ns = state[record_table.POSITION], 0, state[record_table.CLOCK_NS]
    outcome = record_table.FULL
    while count < len(records):
        outcome, kind, length = _block_header(data, base, stop, limit, position, big_endian)
        if outcome != PACKET_READ:
            break
        at = position - base
        following = position + (length + 3 & ~3)  # some writers leave the padding out of the length
        if kind != ENHANCED_PACKET and kind != PACKET and kind != SIMPLE_PACKET:
            if look and (kind == INTERFACE or kind == STATISTICS or kind == SECRETS):
                outcome = record_table.BLOCK
                break
            position, outcome = following, record_table.FULL
            continue
        outcome, header, captured, original, number = _packet_header(
            data, at, kind, length, big_endian, interfaces
        )
        if outcome == PACKET_READ and at + header + min(head, captured) > len(data):
            outcome = record_table.MORE
        if outcome != PACKET_READ:
            break
        known = number < len(interfaces) and interfaces[number, splits.DEFINED_AT] < position
        if known and kind != SIMPLE_PACKET:
            high, low = u32(data, at + 12, big_endian), u32(data, at + 16, big_endian)
            clock_ns = time_ns(high, low, interfaces, number)
        records[count, record_table.START] = position
        records[count, record_table.STOP] = following
        records[count, record_table.AT] = position + header
        records[count, record_table.CAPTURED] = captured
        records[count, record_table.ORIGINAL] = original
        records[count, record_table.TIME_NS] = clock_ns
        records[count, record_table.LINK_TYPE] = interfaces[number, splits.LINK] if known else -1
        position, outcome = following, record_table.FULL
        count += 1
    state[record_table.POSITION], state[record_table.COUNT] = position, count
    state[record_table.OUTCOME], state[record_table.CLOCK_NS] = outcome, clock_ns
