"""IP fragments: every part of a datagram becomes a segment of its own, so that nothing has to be copied together.

The first fragment holds the headers and is a segment like any other. What it says is kept in a table, by what the fragments
of one datagram have in common (addresses, identification, protocol); a later fragment then is the segment that goes on
at its offset. Fragments that come before the first one wait. Where fragments overlap, TCP's rule decides: the bytes
seen first count. A tunnel whose outer packets are fragmented needs nothing more: offsets count from the outermost
datagram, the inner IP packet says where payload ends.

Everything is bounded: the table has SLOTS entries, HELD fragments wait, and none finds a first one that is farther away
than MOST_PACKETS or MOST_BYTES of the file, or older than MOST_NS.
"""

import numpy as np

from kdissect.capture.dedup import RECALLED_BYTES, RECALLED_PACKETS
from kdissect.capture.formats.record_table import Int64s
from kdissect.capture.packets.headers import (
    CONTROL,
    CONTROL_FIN,
    CONTROL_SYN,
    DATAGRAM,
    DATAGRAM_LAYER,
    DATAGRAM_PROTOCOL,
    FRAGMENT_AT,
    FRAGMENT_LENGTH,
    FRAGMENT_OFFSET,
    INNER_STOP,
    LAYERS,
    OPTIONS,
    PAYLOAD,
    PAYLOAD_CAPTURED,
    PAYLOAD_MISSING,
    SEGMENT_FIELDS,
    SEQUENCE,
    TCP,
)
from kdissect.jit.decorators import jit_inner

MOST_NS = 30_000_000_000  # as long as Linux waits for the rest of a datagram (ipfrag_time)
MOST_PACKETS = RECALLED_PACKETS // 4
MOST_BYTES = RECALLED_BYTES // 4
WAYS = 4
SLOTS = 128 * WAYS  # an entry lies in one of WAYS rows; the one that is oldest makes room
HELD = MOST_PACKETS

# A first fragment: the columns of its segment, and these.
FIRST_TIME, FIRST_PACKET, FIRST_PLACE, PAYLOAD_OFFSET, PAYLOAD_STOP, FIRST_FIELDS = range(
    SEGMENT_FIELDS, SEGMENT_FIELDS + 6
)

# A fragment that waits for the first one.
(
    HELD_DATAGRAM,
    HELD_TIME,
    HELD_PACKET,
    HELD_PLACE,
    HELD_OFFSET,
    HELD_LENGTH,
    HELD_CAPTURED,
    HELD_CLASS,
    HELD_FIELDS,
) = range(9)

NO_END = 1 << 40


def new_firsts() -> Int64s:
    """Give an empty table of first fragments."""
    firsts = np.zeros((SLOTS, FIRST_FIELDS), dtype=np.int64)
    firsts[:, DATAGRAM] = -1
    return firsts


def new_held() -> Int64s:
    """Give an empty ring of fragments that wait."""
    return np.zeros((HELD, HELD_FIELDS), dtype=np.int64)


@jit_inner
def within_reach(packets: int, bytes_between: int, time_ns: int) -> bool:
    """Say whether two fragments are near enough to each other; the arguments are differences."""
    return packets <= MOST_PACKETS and bytes_between <= MOST_BYTES and -MOST_NS <= time_ns <= MOST_NS


@jit_inner
def _row_of(firsts: Int64s, datagram: int) -> int:
    """Give the row of a datagram, or the one where it belongs."""
    row = (datagram & (SLOTS // WAYS - 1)) * WAYS
    oldest = row
    for other in range(row, row + WAYS):
        if firsts[other, DATAGRAM] == datagram:
            return int(other)
        if firsts[other, FIRST_PACKET] < firsts[oldest, FIRST_PACKET]:
            oldest = other
    return int(oldest)


@jit_inner
def remember_first(firsts: Int64s, segment: Int64s, time_ns: int, packet: int, place: int) -> None:
    """Keep what the first fragment says; `place` is the file offset of the packet."""
    row = _row_of(firsts, segment[DATAGRAM])
    for column in range(SEGMENT_FIELDS):
        firsts[row, column] = segment[column]
    inner_stop = segment[INNER_STOP]
    firsts[row, FIRST_TIME] = time_ns
    firsts[row, FIRST_PACKET] = packet
    firsts[row, FIRST_PLACE] = place
    firsts[row, PAYLOAD_OFFSET] = segment[PAYLOAD] - segment[FRAGMENT_AT]
    nested = segment[LAYERS] > segment[DATAGRAM_LAYER] and inner_stop
    firsts[row, PAYLOAD_STOP] = inner_stop - segment[FRAGMENT_AT] if nested else NO_END


@jit_inner
def first_of(firsts: Int64s, datagram: int, time_ns: int, packet: int, place: int) -> int:
    """Give the row of a datagram's first fragment, -1 when it is not known."""
    row = _row_of(firsts, datagram)
    if firsts[row, DATAGRAM] == datagram and within_reach(
        packet - firsts[row, FIRST_PACKET],
        place - firsts[row, FIRST_PLACE],
        time_ns - firsts[row, FIRST_TIME],
    ):
        return int(row)
    return -1


@jit_inner
def hold(
    held: Int64s, count: int, segment: Int64s, captured: int, what: int, time_ns: int, packet: int, place: int
) -> None:
    """Let a fragment wait as number `count`; `captured` bytes of its packet are in the file at `place`."""
    row = count & (HELD - 1)
    held[row, HELD_DATAGRAM] = segment[DATAGRAM]
    held[row, HELD_TIME] = time_ns
    held[row, HELD_PACKET] = packet
    held[row, HELD_PLACE] = place + segment[FRAGMENT_AT]
    held[row, HELD_OFFSET] = segment[FRAGMENT_OFFSET]
    held[row, HELD_LENGTH] = segment[FRAGMENT_LENGTH]
    held[row, HELD_CAPTURED] = max(0, captured - segment[FRAGMENT_AT])
    held[row, HELD_CLASS] = what


@jit_inner
def place_part(firsts: Int64s, row: int, offset: int, length: int, captured: int, segment: Int64s) -> bool:
    """Make `segment` the one that a later fragment is; its PAYLOAD counts from where the fragment's part begins.

    False when it holds nothing of the payload.
    """
    begin = max(offset, firsts[row, PAYLOAD_OFFSET])
    stop = min(offset + length, firsts[row, PAYLOAD_STOP])
    if stop <= begin:
        return False
    for column in range(SEGMENT_FIELDS):
        segment[column] = firsts[row, column]
    syn = 1 if segment[CONTROL] & CONTROL_SYN else 0
    segment[SEQUENCE] = (segment[SEQUENCE] + syn + begin - firsts[row, PAYLOAD_OFFSET]) & 0xFFFFFFFF
    segment[CONTROL] &= ~(CONTROL_SYN | CONTROL_FIN)
    segment[PAYLOAD] = begin - offset
    kept = max(0, min(stop, offset + captured) - begin)
    segment[PAYLOAD_CAPTURED] = kept
    segment[PAYLOAD_MISSING] = stop - begin - kept
    segment[OPTIONS] = segment[PAYLOAD]  # it has none
    return True


@jit_inner
def carries_tcp(segment: Int64s) -> bool:
    """Say whether the datagram of a fragment is TCP's itself, not a tunnel's or anybody else's."""
    return bool(segment[DATAGRAM_PROTOCOL] == TCP)
