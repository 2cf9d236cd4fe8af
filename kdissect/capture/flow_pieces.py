"""Pieces of connections: what a split knows of one between two SYNs, and the hash table that finds them.

A piece is a row of numbers. Its key is the canonical 4-tuple (A is the lower endpoint); open addressing over
the hashes of keys leads to the last piece of a connection.
"""

import numpy as np

from kdissect.array_types import Int32s, Int64s
from kdissect.capture import segment_index as packed
from kdissect.capture.packets import headers
from kdissect.jit.decorators import jit_flat, jit_inline, jit_inner
from kdissect.jit.many_rows import are_many, read_only

# Columns of a piece. The first ten are its key; addresses are four 32-bit words.
A_HOST, B_HOST, A_PORT, B_PORT = 0, 4, 8, 9
KEY_FIELDS = 10
(
    BUCKET,
    PACKETS_AB,
    PACKETS_BA,
    ZERO_WINDOWS,
    FIRST_NS,
    LAST_NS,
    COUNT,
    OPENED_BY,  # direction and sequence number of the SYN that it begins with; -1 without one
    ACKNOWLEDGING,  # 1: a bare acknowledgement of A was described, 2: one of B; since the last SYN
    COPIES,  # second copies of packets
    NEWS_OF_A,  # what the last packet of A acknowledges, ~ of it if it closes the window, NO_NEWS before
    NEWS_OF_B,
    PIECE_FIELDS,
) = range(KEY_FIELDS, KEY_FIELDS + 13)

BUCKETS = 1 << 16
BUCKET_MULTIPLIERS = np.array(  # arbitrary odd numbers, the same for every worker
    [
        0x2C1B3C6D,
        0x297A2D39,
        0x3B2E1F4B,
        0x51ED270B,
        0x68E31DA5,
        0x1B873593,
        0x4CF5AD43,
        0x2745937F,
        0x38B34AE5,
        0x5851F42D,
    ],
    dtype=np.int64,
)
B_OPENED = 1 << 32  # above the sequence number in OPENED_BY
NO_NEWS = 1 << 32  # above all acknowledgment numbers


@jit_inline
def _mixed(total: int) -> int:
    return int((total ^ (total >> 15)) & 0xFFFFFFFF)


@jit_inline
def _term(value: int, multiplier: int) -> int:
    product = value * multiplier
    return (product & 0xFFFFFFFF) ^ (product >> 32)


@jit_inline
def hash_key(pieces: Int64s, row: int, multipliers: Int64s) -> int:
    """Hash a key to 32 bits (multilinear: every field has a multiplier of its own, below 2**31)."""
    total = 0
    for field in range(KEY_FIELDS):
        total += _term(pieces[row, field], multipliers[field])
    return int(_mixed(total))


@jit_inline
def hash_ends(segment: Int64s, multipliers: Int64s) -> int:
    """Return what `hash_key` does for the key of a segment.

    To write the key into a row and hash that takes 14 ns an exchange more.
    """
    backwards = is_b_to_a(segment)
    source, target = (B_HOST, A_HOST) if backwards else (A_HOST, B_HOST)
    total = _term(segment[headers.SOURCE_PORT], multipliers[B_PORT if backwards else A_PORT])
    total += _term(segment[headers.TARGET_PORT], multipliers[A_PORT if backwards else B_PORT])
    for word in range(4):
        total += _term(segment[headers.SOURCE + word], multipliers[source + word])
        total += _term(segment[headers.TARGET + word], multipliers[target + word])
    return int(_mixed(total))


@jit_inline
def is_b_to_a(segment: Int64s) -> bool:
    """Return whether the packet came from the higher endpoint."""
    word = 0
    while word < 3 and segment[headers.SOURCE + word] == segment[headers.TARGET + word]:
        word += 1
    order = segment[headers.SOURCE + word] - segment[headers.TARGET + word]
    return bool(order > 0 or (order == 0 and segment[headers.SOURCE_PORT] > segment[headers.TARGET_PORT]))


@jit_inline
def write_key(segment: Int64s, backwards: bool, pieces: Int64s, row: int) -> None:
    """Write the key of a segment into a row of `pieces`."""
    source, target = (B_HOST, A_HOST) if backwards else (A_HOST, B_HOST)
    for word in range(4):
        pieces[row, source + word] = segment[headers.SOURCE + word]
        pieces[row, target + word] = segment[headers.TARGET + word]
    pieces[row, A_PORT] = segment[headers.TARGET_PORT] if backwards else segment[headers.SOURCE_PORT]
    pieces[row, B_PORT] = segment[headers.SOURCE_PORT] if backwards else segment[headers.TARGET_PORT]


@jit_inner
def _differ(pieces: Int64s, row: int, other: int) -> bool:
    difference = 0
    for field in range(KEY_FIELDS):
        difference |= pieces[row, field] ^ pieces[other, field]
    return difference != 0


@jit_inner
def _slot_of(slots: Int32s, pieces: Int64s, key: int, row: int) -> int:
    """Return the slot of a piece with the key of `row`, whose hash is `key`, or the free slot for it."""
    last = len(slots) - 1
    slot = key & last
    while slots[slot] >= 0 and _differ(pieces, slots[slot], row):
        slot = (slot + 1) & last
    return int(slot)


@jit_flat
def fill_slots(slots: Int32s, pieces: Int64s, multipliers: Int64s, count: int) -> None:
    """Enter the pieces into an empty table; the last one of a key remains."""
    for row in range(count):
        slots[_slot_of(slots, pieces, hash_key(pieces, row, multipliers), row)] = row


@jit_inline
def opened_by_of(segment: Int64s, backwards: bool) -> int:
    """Return direction and sequence number of a SYN without ACK; -1 for all other segments."""
    if segment[headers.CONTROL] & (headers.CONTROL_SYN | headers.CONTROL_ACK) != headers.CONTROL_SYN:
        return -1
    return int(segment[headers.SEQUENCE] | (B_OPENED if backwards else 0))


@jit_inline
def find_piece(
    opened_by: int,
    time_ns: int,
    key: int,
    slots: Int32s,
    pieces: Int64s,
    new: int,
) -> int:
    """Return the piece of a segment: `new`, the first free row of `pieces`, if it begins one.

    The key of the segment, whose hash is `key`, stands in that row already. Every SYN begins a
    piece, except a repeated one. Earlier packets, perhaps in another split, decide if it begins a
    connection.
    """
    slot = _slot_of(slots, pieces, key, new)
    piece = np.int64(slots[slot])
    if piece < 0 or (opened_by >= 0 and pieces[piece, OPENED_BY] != opened_by):
        piece = np.int64(new)
        for field in range(KEY_FIELDS, PIECE_FIELDS):
            pieces[piece, field] = 0
        pieces[piece, BUCKET] = hash_key(pieces, piece, BUCKET_MULTIPLIERS) & (BUCKETS - 1)
        pieces[piece, FIRST_NS] = time_ns
        pieces[piece, OPENED_BY] = opened_by
        pieces[piece, NEWS_OF_A] = pieces[piece, NEWS_OF_B] = NO_NEWS
        slots[slot] = piece
    return int(piece)


@jit_inline
def descriptor_flags(segment: Int64s, backwards: bool, pieces: Int64s, piece: int) -> int:
    """Return the flags of the descriptor of a segment, or -1 for a packet that is only counted."""
    control = segment[headers.CONTROL]
    flags = packed.FLAG_B_TO_A if backwards else 0
    flags |= packed.FLAG_SYN if control & headers.CONTROL_SYN else 0
    flags |= packed.FLAG_ACK if control & headers.CONTROL_ACK else 0
    flags |= packed.FLAG_FIN if control & headers.CONTROL_FIN else 0
    flags |= packed.FLAG_RST if control & headers.CONTROL_RST else 0
    payload = segment[headers.PAYLOAD_CAPTURED] + segment[headers.PAYLOAD_MISSING]
    if control & headers.CONTROL_SYN:
        pieces[piece, ACKNOWLEDGING] = 0
    if payload == 0 and not control & (headers.CONTROL_SYN | headers.CONTROL_FIN | headers.CONTROL_RST):
        direction = 2 if backwards else 1
        if control & headers.CONTROL_ACK and not pieces[piece, ACKNOWLEDGING] & direction:
            pieces[piece, ACKNOWLEDGING] |= direction
            flags |= packed.FLAG_BARE_ACK
        else:
            flags = -1
    return int(flags)


@jit_flat
def sort_by_piece(piece_of: Int64s, next_of: Int64s, order: Int64s) -> None:
    """Fill `order` with the numbers of segments by piece; `next_of` has the start of each, and changes."""
    for row in range(len(piece_of)):
        piece = piece_of[row]
        order[next_of[piece]] = row
        next_of[piece] += 1


def take_fields(pieces: Int64s, rows: Int64s, fields: Int64s) -> Int64s:
    """Return some fields of some pieces, each field in one piece of memory: shape (fields, rows).

    Rows of 100,000 pieces lie far apart for whoever goes through one field after the other.
    """
    taken = np.empty((len(fields), len(rows)), np.int64)
    if are_many(len(rows)):
        copy_fields(pieces, read_only(rows), read_only(fields), taken)
    else:
        taken[:] = pieces[rows][:, fields].T
    return taken


@jit_flat
def copy_fields(pieces: Int64s, rows: Int64s, fields: Int64s, taken: Int64s) -> None:
    """Fill `taken` as `take_fields` returns it."""
    for place in range(len(rows)):
        row = rows[place]
        for number in range(len(fields)):
            taken[number, place] = pieces[row, fields[number]]


def call_all() -> None:
    """Call the loop that only many pieces need, so that it is compiled and kept."""
    nothing = read_only(np.empty(0, np.int64))
    copy_fields(np.empty((0, PIECE_FIELDS), np.int64), nothing, nothing, np.empty((0, 0), np.int64))
