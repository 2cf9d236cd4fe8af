"""The pcapng format: sections, each with a byte order of its own, made of blocks.

A section header block opens a section and forgets the interfaces before it; interface description blocks number the
interfaces of the section; packets come in enhanced, simple and obsolete packet blocks. Blocks that change how others
are read, or that the survey wants (statistics, secrets), are given to Python; all others are passed over.
Layout: https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from kdissect.capture.formats.record_table import (
    AT,
    BLOCK,
    CAPTURED,
    CLOCK_NS,
    COUNT,
    CUT,
    DAMAGED,
    END,
    FULL,
    LINK_TYPE,
    MORE,
    MOST_RECORD_BYTES,
    ORIGINAL,
    OUTCOME,
    POSITION,
    START,
    STOP,
    TIME_NS,
    Bytes,
    Int64s,
    u16,
    u32,
    within_range,
)
from kdissect.capture.index.splits import (
    ADD_NS,
    DEFINED_AT,
    DIVIDE,
    LATEST_NS,
    LINK,
    MOST_TICKS,
    MULTIPLY,
    SHIFT,
    SNAP,
    Interface,
)
from kdissect.jit.decorators import jit_flat, jit_inner

SECTION_MAGIC = b"\x0a\x0d\x0d\x0a"
SECTION, INTERFACE, PACKET, SIMPLE_PACKET, STATISTICS, ENHANCED_PACKET, SECRETS = (
    0x0A0D0D0A,
    1,
    2,
    3,
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
FRACTION_BITS = 33  # more would overflow when multiplied by 10^9; what is dropped is less than a nanosecond


class PcapngBlock(NamedTuple):
    """A block that the survey reads: its kind, its place, the order of its bytes and its body."""

    kind: int
    start: int
    stop: int
    big_endian: bool
    body: bytes

    def unpack(self, layout: str, at: int = 0) -> tuple[int, ...]:
        """Read integers in the section's byte order; zeros where the body is too short."""
        form = struct.Struct((">" if self.big_endian else "<") + layout)
        return form.unpack(self.body[at : at + form.size].ljust(form.size, b"\0"))

    def options(self, at: int) -> Iterator[tuple[int, bytes]]:
        """Give the options from body[at] on as (code, value), as far as they are whole."""
        while at + 4 <= len(self.body):
            code, length = self.unpack("HH", at)
            if code == 0 or at + 4 + length > len(self.body):
                return
            yield code, self.body[at + 4 : at + 4 + length]
            at += 4 + (length + 3 & ~3)


class InterfaceStatistics(NamedTuple):
    """Packets that the capture itself says it lost on an interface: by the interface, by the operating system."""

    interface: int
    interface_drops: int
    system_drops: int


class SecretsBlock(NamedTuple):
    """Where decryption secrets lie in the file. kind 0x544c534b: a TLS key log."""

    kind: int
    offset: int
    length: int


def section_order(first: bytes) -> bool | None:
    """Tell from the start of a section header block whether the section is big-endian; None: it is no section."""
    if len(first) < SECTION_BYTES or first[:4] != SECTION_MAGIC:
        return None
    orders = {b"\x1a\x2b\x3c\x4d": True, b"\x4d\x3c\x2b\x1a": False}
    big_endian = orders.get(first[8:12])
    if big_endian is None:
        return None
    length, major = struct.unpack_from(">I4xH" if big_endian else "<I4xH", first, 4)
    return big_endian if major == 1 and SECTION_BYTES <= length <= MOST_RECORD_BYTES else None


def read_interface(block: PcapngBlock) -> Interface:
    """Read an interface description block."""
    link_type, _, snap_length = block.unpack("HHI")
    resolution, offset_s = 6, 0
    for code, value in block.options(8):
        if code == 9 and len(value) == 1:
            resolution = value[0]
        elif code == 14 and len(value) == 8:
            offset_s = int.from_bytes(value, "big" if block.big_endian else "little", signed=True)
    return Interface(link_type, snap_length, resolution, offset_s, block.start)


def read_statistics(block: PcapngBlock) -> InterfaceStatistics:
    """Read an interface statistics block."""
    counts = {
        code: int.from_bytes(value, "big" if block.big_endian else "little")
        for code, value in block.options(12)
        if len(value) == 8
    }
    return InterfaceStatistics(block.unpack("I")[0], counts.get(5, 0), counts.get(7, 0))


def read_secrets(block: PcapngBlock) -> SecretsBlock:
    """Read where the secrets of a decryption secrets block lie."""
    kind, length = block.unpack("II")
    begin = block.start + BLOCK_HEADER + 8
    return SecretsBlock(kind, begin, max(0, min(length, block.stop - 4 - begin)))


@jit_inner
def _binary_time_ns(high: int, low: int, shift: int) -> int:
    if shift >= 32:
        seconds = high >> (shift - 32)
        fraction = (high & ((1 << (shift - 32)) - 1)) << 32 | low
    elif high >> shift:
        return LATEST_NS
    else:
        seconds = high << (32 - shift) | low >> shift
        fraction = low & ((1 << shift) - 1)
    if shift > FRACTION_BITS:
        fraction >>= shift - FRACTION_BITS
        shift = FRACTION_BITS
    return min(seconds, LATEST_NS // 1_000_000_000) * 1_000_000_000 + (fraction * 1_000_000_000 >> shift)


@jit_flat
def time_ns(high: int, low: int, interfaces: Int64s, number: int) -> int:
    """Turn the two halves of a timestamp into nanoseconds since the epoch, as interface `number` counts."""
    if interfaces[number, SHIFT] >= 0:
        since = _binary_time_ns(high, low, interfaces[number, SHIFT])
    elif high >= 0x80000000 or (high << 32 | low) > interfaces[number, MOST_TICKS]:
        since = LATEST_NS
    else:
        since = (high << 32 | low) * interfaces[number, MULTIPLY]
        if interfaces[number, DIVIDE] > 1:
            since //= interfaces[number, DIVIDE]
    return int(within_range(min(since, LATEST_NS) + interfaces[number, ADD_NS]))


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
    """Fill `records` from state[POSITION] on; data[0] is byte `base` of the file, nothing from `stop` on is read.

    Blocks that begin at `limit` or later are left to others. Stops with BLOCK at a section header, and when `look` is set at
    any block that describes others.
    """
    position, count, outcome, clock_ns = state[POSITION], 0, MORE, state[CLOCK_NS]
    while True:
        if count == len(records):
            outcome = FULL
            break
        at = position - base
        if position >= limit:
            outcome = END
            break
        if stop - position < BLOCK_OVERHEAD:
            outcome = CUT
            break
        if at + BLOCK_HEADER > len(data):
            break
        kind = u32(data, at, big_endian)
        if kind == SECTION:
            outcome = BLOCK
            break
        length = u32(data, at + 4, big_endian)
        if length < BLOCK_OVERHEAD or length > MOST_RECORD_BYTES:
            outcome = DAMAGED
            break
        following = position + (length + 3 & ~3)  # some writers leave the padding out of the length
        if following > stop:
            outcome = CUT
            break
        if kind == ENHANCED_PACKET or kind == PACKET:
            if length < PACKET_HEADER + 4:
                outcome = DAMAGED
                break
            if at + PACKET_HEADER > len(data):
                break
            captured = u32(data, at + 20, big_endian)
            original = u32(data, at + 24, big_endian)
            number = (
                u32(data, at + 8, big_endian) if kind == ENHANCED_PACKET else u16(data, at + 8, big_endian)
            )
            header, room = PACKET_HEADER, length - PACKET_HEADER - 4
        elif kind == SIMPLE_PACKET:
            if length < SIMPLE_HEADER + 4:
                outcome = DAMAGED
                break
            if at + SIMPLE_HEADER > len(data):
                break
            original, number = u32(data, at + 8, big_endian), 0
            header, room = SIMPLE_HEADER, length - SIMPLE_HEADER - 4
            captured = min(original, room)
            if len(interfaces) and interfaces[0, SNAP] > 0:
                captured = min(captured, interfaces[0, SNAP])
        else:
            if look and (kind == INTERFACE or kind == STATISTICS or kind == SECRETS):
                outcome = BLOCK
                break
            position = following
            continue
        if captured > room:
            outcome = DAMAGED
            break
        if at + header + min(head, captured) > len(data):
            break
        known = number < len(interfaces) and interfaces[number, DEFINED_AT] < position
        if known and kind != SIMPLE_PACKET:
            high, low = u32(data, at + 12, big_endian), u32(data, at + 16, big_endian)
            clock_ns = time_ns(high, low, interfaces, number)
        records[count, START] = position
        records[count, STOP] = following
        records[count, AT] = position + header
        records[count, CAPTURED] = captured
        records[count, ORIGINAL] = original
        records[count, TIME_NS] = clock_ns
        records[count, LINK_TYPE] = interfaces[number, LINK] if known else -1
        position = following
        count += 1
    state[POSITION], state[COUNT], state[OUTCOME], state[CLOCK_NS] = position, count, outcome, clock_ns
