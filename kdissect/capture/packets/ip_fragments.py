"""IP fragments: every part of a datagram becomes a segment of its own, so that no bytes are copied together.

The first fragment holds the headers and is a segment like any other. It is kept in a table, by what the
fragments of one datagram have in common (addresses, identification, protocol). A later fragment becomes the
segment that continues at its offset. Fragments before the first one wait. If fragments overlap, the bytes
seen first count, as in TCP. Tunnels whose outer packets are fragmented need nothing more: offsets count from
the outermost datagram, and the inner IP packet states where payload ends.

Everything is bounded: the table has SLOTS entries, HELD fragments wait, and a first fragment is found only
within MOST_PACKETS and MOST_BYTES of the file, and MOST_NS.
"""

import numpy as np

from kdissect.array_types import Int64s
from kdissect.capture.dedup import RECALLED_BYTES, RECALLED_PACKETS
from kdissect.capture.packets import headers
from kdissect.jit.decorators import jit_inner

MOST_NS = 30_000_000_000  # as long as Linux waits for the rest of a datagram (ipfrag_time)
MOST_PACKETS = RECALLED_PACKETS // 4
MOST_BYTES = RECALLED_BYTES // 4
WAYS = 4
SLOTS = 128 * WAYS  # an entry lies in one of WAYS rows; the oldest one is replaced
HELD = MOST_PACKETS

# A first fragment: the columns of its segment, and these.
FIRST_TIME, FIRST_PACKET, FIRST_PLACE, PAYLOAD_OFFSET, PAYLOAD_STOP, FIRST_FIELDS = range(
    headers.SEGMENT_FIELDS, headers.SEGMENT_FIELDS + 6
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
    """Return an empty table of first fragments."""
    firsts = np.zeros((SLOTS, FIRST_FIELDS), dtype=np.int64)
    firsts[:, headers.DATAGRAM] = -1
    return firsts


def new_held() -> Int64s:
    """Return an empty ring of waiting fragments."""
    return np.zeros((HELD, HELD_FIELDS), dtype=np.int64)


@jit_inner
def within_reach(packets: int, bytes_between: int, time_ns: int) -> bool:
    """Return whether two fragments are close enough to each other. The arguments are differences."""
    return packets <= MOST_PACKETS and bytes_between <= MOST_BYTES and -MOST_NS <= time_ns <= MOST_NS


@jit_inner
def _row_of(firsts: Int64s, datagram: int) -> int:
    """Return the row of a datagram, or the row in which it may be stored."""
    row = (datagram & (SLOTS // WAYS - 1)) * WAYS
    oldest = row
    for other in range(row, row + WAYS):
        if firsts[other, headers.DATAGRAM] == datagram:
            return int(other)
        if firsts[other, FIRST_PACKET] < firsts[oldest, FIRST_PACKET]:
            oldest = other
    return int(oldest)


@jit_inner
def remember_first(firsts: Int64s, segment: Int64s, time_ns: int, packet: int, place: int) -> None:
    """Store a first fragment; `place` is the file offset of the packet."""
    row = _row_of(firsts, segment[headers.DATAGRAM])
    for column in range(headers.SEGMENT_FIELDS):
        firsts[row, column] = segment[column]
    inner_stop = segment[headers.INNER_STOP]
    firsts[row, FIRST_TIME] = time_ns
    firsts[row, FIRST_PACKET] = packet
    firsts[row, FIRST_PLACE] = place
    firsts[row, PAYLOAD_OFFSET] = segment[headers.PAYLOAD] - segment[headers.FRAGMENT_AT]
    nested = segment[headers.LAYERS] > segment[headers.DATAGRAM_LAYER] and inner_stop
    firsts[row, PAYLOAD_STOP] = inner_stop - segment[headers.FRAGMENT_AT] if nested else NO_END


@jit_inner
def first_of(firsts: Int64s, datagram: int, time_ns: int, packet: int, place: int) -> int:
    """Return the row of a datagram's first fragment, or -1."""
    row = _row_of(firsts, datagram)
    if firsts[row, headers.DATAGRAM] == datagram and within_reach(
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
    """Store a waiting fragment as number `count`.

    `captured` bytes of its packet are in the file at `place`.
    """
    row = count & (HELD - 1)
    held[row, HELD_DATAGRAM] = segment[headers.DATAGRAM]
    held[row, HELD_TIME] = time_ns
    held[row, HELD_PACKET] = packet
    held[row, HELD_PLACE] = place + segment[headers.FRAGMENT_AT]
    held[row, HELD_OFFSET] = segment[headers.FRAGMENT_OFFSET]
    held[row, HELD_LENGTH] = segment[headers.FRAGMENT_LENGTH]
    held[row, HELD_CAPTURED] = max(0, captured - segment[headers.FRAGMENT_AT])
    held[row, HELD_CLASS] = what


@jit_inner
def place_part(firsts: Int64s, row: int, offset: int, length: int, captured: int, segment: Int64s) -> bool:
    """Turn `segment` into that of a later fragment; return whether the fragment holds any of the payload.

    PAYLOAD then counts from the start of the fragment's part.
    """
    begin = max(offset, firsts[row, PAYLOAD_OFFSET])
    stop = min(offset + length, firsts[row, PAYLOAD_STOP])
    if stop <= begin:
        return False
    for column in range(headers.SEGMENT_FIELDS):
        segment[column] = firsts[row, column]
    syn = 1 if segment[headers.CONTROL] & headers.CONTROL_SYN else 0
    segment[headers.SEQUENCE] = (
        segment[headers.SEQUENCE] + syn + begin - firsts[row, PAYLOAD_OFFSET]
    ) & 0xFFFFFFFF
    segment[headers.CONTROL] &= ~(headers.CONTROL_SYN | headers.CONTROL_FIN)
    segment[headers.PAYLOAD] = begin - offset
    kept = max(0, min(stop, offset + captured) - begin)
    segment[headers.PAYLOAD_CAPTURED] = kept
    segment[headers.PAYLOAD_MISSING] = stop - begin - kept
    segment[headers.OPTIONS] = segment[headers.PAYLOAD]  # it has none
    return True


@jit_inner
def carries_tcp(segment: Int64s) -> bool:
    """Return whether the datagram of a fragment carries TCP directly, not a tunnel or another protocol."""
    return bool(segment[headers.DATAGRAM_PROTOCOL] == headers.TCP)
