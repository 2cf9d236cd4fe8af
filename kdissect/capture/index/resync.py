"""Guess where the first record behind a position in a capture begins, from a chain of record headers.

Nothing in a capture marks the beginning of a record, but each header leads to the next one. A position from
which CHAIN headers in a row are plausible probably begins a record. A capture may hold a capture as payload,
so the guess may be wrong: `range_merge` accepts it only if the records before it end there.
"""

import numpy as np

from kdissect.array_types import Bytes
from kdissect.capture.formats import pcap, pcapng
from kdissect.capture.formats.pcapng_sections import SectionState
from kdissect.capture.formats.record_table import MOST_RECORD_BYTES, u32
from kdissect.capture.index.splits import CaptureFormat
from kdissect.capture.storage import CaptureStorage
from kdissect.jit.decorators import jit_flat

CHAIN = 4
READ_BYTES = (1 << 18, 1 << 21)  # enough for a chain of usual packets; of the longest
MOST_STEP_S = 86400  # between two packets of a chain
SECOND_NS = 1_000_000_000


def guessed(
    source: CaptureStorage,
    at: int,
    size: int,
    layout: CaptureFormat,
    record_header: int,
    in_force: SectionState,
) -> int | None:
    """Return where a record probably begins, at byte `at` or behind it; None if that is unknown.

    The file has `size` bytes.
    """
    if layout is CaptureFormat.PCAPNG:
        at = at + 3 & ~3  # blocks are multiples of four bytes long
    for length in READ_BYTES:
        data = np.frombuffer(source.read(length, at), np.uint8)
        whole = at + len(data) >= size
        if layout is CaptureFormat.PCAPNG:
            found = find_block(data, whole, in_force.big_endian)
        else:
            (interface,) = in_force.interfaces
            most_ticks = 10**interface.resolution
            longest = pcap.longest_packet(interface.snap_length)
            found = find_record(data, whole, in_force.big_endian, record_header, longest, most_ticks)
        if found >= 0:
            return at + int(found)
        if whole:
            break
    return None


@jit_flat
def find_record(
    data: Bytes, whole: bool, big_endian: bool, record_header: int, longest: int, most_ticks: int
) -> int:
    """Return where the first chain of pcap record headers begins, or -1.

    With `whole`, the file ends with `data`.

    Empty records do not count, since zeros look like a chain of them.
    """
    for first in range(len(data) - record_header + 1):
        at, links, before_s = first, 0, 0
        while links < CHAIN and at + record_header <= len(data):
            seconds = u32(data, at, big_endian)
            captured = u32(data, at + 8, big_endian)
            original = u32(data, at + 12, big_endian)
            if captured == 0 or captured > original or original > longest:
                break
            if u32(data, at + 4, big_endian) >= most_ticks:
                break
            if links and abs(seconds - before_s) > MOST_STEP_S:
                break
            at, links, before_s = at + record_header + captured, links + 1, seconds
        if links == CHAIN or (whole and links and at == len(data)):
            return first
    return -1


@jit_flat
def find_block(data: Bytes, whole: bool, big_endian: bool) -> int:
    """Return where the first chain of pcapng blocks begins, or -1: their length stands at both ends.

    `data` begins where a block may begin. With `whole`, the file ends with `data`.
    """
    for first in range(0, len(data) - pcapng.BLOCK_OVERHEAD + 1, 4):
        at, links = first, 0
        while links < CHAIN and at + pcapng.BLOCK_OVERHEAD <= len(data):
            kind, length = u32(data, at, big_endian), u32(data, at + 4, big_endian)
            usual = 0 < kind < 0x1000 or kind == pcapng.SECTION or kind & 0xBFFFFFFF == pcapng.CUSTOM
            if not usual or length < pcapng.BLOCK_OVERHEAD or length > MOST_RECORD_BYTES or length & 3:
                break
            if at + length > len(data) or u32(data, at + length - 4, big_endian) != length:
                break
            at, links = at + length, links + 1
        if links == CHAIN or (whole and links and at == len(data)):
            return first
    return -1
