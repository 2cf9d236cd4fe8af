"""Gather the segments of one split by connection: the loop of pass one that touches every packet.

Connections are found by their canonical 4-tuple (A is the lower endpoint) in an open-addressing hash table of piece
numbers. Everything lies in arrays that grow outside the compiled loop: `gather` stops where something is full and is called
again from there.
"""

import secrets
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kdissect.capture import pieces as packed
from kdissect.capture.packets import (
    ACKNOWLEDGED,
    CONTROL,
    CONTROL_ACK,
    CONTROL_FIN,
    CONTROL_RST,
    CONTROL_SYN,
    FILTERED,
    KIND,
    LINK_TABLE,
    PAYLOAD,
    PAYLOAD_CAPTURED,
    PAYLOAD_MISSING,
    SEGMENT,
    SEGMENT_FIELDS,
    SEQUENCE,
    SKIP,
    SOURCE,
    SOURCE_PORT,
    TARGET,
    TARGET_PORT,
    TYPE_AT,
    UNKNOWN_LINK,
    WINDOW,
    read_packet,
)
from kdissect.capture.records import AT, CAPTURED, LINK_TYPE, ORIGINAL, TIME_NS, Bytes, Int64s
from kdissect.kernel import jit_flat, jit_inner

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
    OPENED_BY,  # direction and number of the SYN that opened the connection, -1: not known
    ACKNOWLEDGING,  # 1: a bare acknowledgement of A was described, 2: one of B
    PIECE_FIELDS,
) = range(KEY_FIELDS, KEY_FIELDS + 10)

# Columns of a gathered segment: those of a descriptor, and its piece.
PIECE = packed.SEGMENT_COLUMNS

# The state of the loop.
PIECES, SEGMENTS, PACKET = range(3)

# Counts, in the order of pieces.Counts; classes of packets stand from CLASSES on.
PACKETS, CLASSES, TRUNCATED, PAYLOAD_BYTES, MISSING_BYTES = 0, 1, 7, 8, 9

BUCKETS = 1 << 16
BUCKET_MULTIPLIERS = np.array(  # odd numbers without meaning; every worker must find the same bucket
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

Int32s = NDArray[np.int32]


class Gathering:
    """What was found in a split: `pieces`, `segments` (in capture order) and `counts`.

    `begin` makes it ready for a split; its arrays are used again for the next one.
    """

    def __init__(self, ports: Iterable[int] = ()) -> None:
        self._ports = np.zeros(1 << 16, dtype=np.uint8)
        self._ports[[port for port in ports if 0 <= port < 1 << 16]] = 1
        if not self._ports.any():
            self._ports[:] = 1
        self._pieces = np.empty((256, PIECE_FIELDS), dtype=np.int64)
        self._segments = np.empty((0, PIECE + 1), dtype=np.int64)
        self._segment = np.zeros(SEGMENT_FIELDS, dtype=np.int64)
        # Multipliers of its own for every process: no capture can be made to fill one chain of the table.
        self._multipliers = np.array(
            [secrets.randbits(30) * 2 + 1 for _ in range(KEY_FIELDS)], dtype=np.int64
        )

    def begin(self, first_packet: int, most_packets: int) -> None:
        """Forget everything; expect up to `most_packets`, the first of which has the number `first_packet`."""
        self.counts = np.zeros(len(packed.Counts._fields), dtype=np.int64)
        self._state = np.array([0, 0, first_packet], dtype=np.int64)
        self._slots = np.full(4 * len(self._pieces), -1, dtype=np.int32)
        if most_packets > len(self._segments):
            self._segments = np.empty((most_packets, PIECE + 1), dtype=np.int64)

    @property
    def pieces(self) -> Int64s:
        """One row (A_HOST … ACKNOWLEDGING) for each piece, in the order of their first packets."""
        return self._pieces[: self._state[PIECES]]

    @property
    def segments(self) -> Int64s:
        """One row (a descriptor and PIECE) for each packet that matters."""
        return self._segments[: self._state[SEGMENTS]]

    def add(self, data: Bytes, base: int, records: Int64s) -> None:
        """Take the packets of `records`, whose bytes lie in `data` from file offset `base` on."""
        done = 0
        while True:
            done = gather(
                data,
                base,
                records,
                done,
                self._ports,
                self._slots,
                self._pieces,
                self._multipliers,
                self._segments,
                self._segment,
                self._state,
                self.counts,
            )
            if done == len(records):
                return
            self._pieces = np.concatenate([self._pieces, np.empty_like(self._pieces)])
            self._slots = np.full(4 * len(self._pieces), -1, dtype=np.int32)
            fill_slots(self._slots, self._pieces, self._multipliers, self._state[PIECES])

    def by_piece(self) -> tuple[Int64s, Int64s]:
        """Give the numbers of the segments sorted by piece, and where each piece begins among them."""
        starts = np.cumsum(self.pieces[:, COUNT]) - self.pieces[:, COUNT]
        order = np.empty(len(self.segments), dtype=np.int64)
        sort_by_piece(self.segments, starts.copy(), order)
        return order, starts


@jit_inner
def _hash(pieces: Int64s, row: int, multipliers: Int64s) -> int:
    """Hash a key to 32 bits (multilinear: every field has a multiplier of its own, below 2**31)."""
    total = 0
    for field in range(KEY_FIELDS):
        product = pieces[row, field] * multipliers[field]
        total += (product & 0xFFFFFFFF) ^ (product >> 32)
    return int((total ^ (total >> 15)) & 0xFFFFFFFF)


@jit_inner
def _b_to_a(segment: Int64s) -> bool:
    """Say whether the packet came from the higher endpoint."""
    word = 0
    while word < 3 and segment[SOURCE + word] == segment[TARGET + word]:
        word += 1
    order = segment[SOURCE + word] - segment[TARGET + word]
    return bool(order > 0 or (order == 0 and segment[SOURCE_PORT] > segment[TARGET_PORT]))


@jit_inner
def _write_key(segment: Int64s, backwards: bool, pieces: Int64s, row: int) -> None:
    source, target = (B_HOST, A_HOST) if backwards else (A_HOST, B_HOST)
    for word in range(4):
        pieces[row, source + word] = segment[SOURCE + word]
        pieces[row, target + word] = segment[TARGET + word]
    pieces[row, A_PORT] = segment[TARGET_PORT] if backwards else segment[SOURCE_PORT]
    pieces[row, B_PORT] = segment[SOURCE_PORT] if backwards else segment[TARGET_PORT]


@jit_inner
def _differ(pieces: Int64s, row: int, other: int) -> bool:
    difference = 0
    for field in range(KEY_FIELDS):
        difference |= pieces[row, field] ^ pieces[other, field]
    return difference != 0


@jit_inner
def _slot_of(slots: Int32s, pieces: Int64s, multipliers: Int64s, row: int) -> int:
    """Give the slot that holds a piece with the key of `row`, or the free one where it belongs."""
    last = len(slots) - 1
    slot = _hash(pieces, row, multipliers) & last
    while slots[slot] >= 0 and _differ(pieces, slots[slot], row):
        slot = (slot + 1) & last
    return int(slot)


@jit_flat
def fill_slots(slots: Int32s, pieces: Int64s, multipliers: Int64s, count: int) -> None:
    """Enter the pieces into an empty table; the last one of a key stays."""
    for row in range(count):
        slots[_slot_of(slots, pieces, multipliers, row)] = row


@jit_inner
def _opened_by(segment: Int64s, backwards: bool) -> int:
    """Give direction and number of the SYN that a SYN or SYN|ACK belongs to; -1 for all other segments."""
    handshake = segment[CONTROL] & (CONTROL_SYN | CONTROL_ACK)
    opened_by = -1
    if handshake == CONTROL_SYN:
        opened_by = segment[SEQUENCE] | (B_OPENED if backwards else 0)
    elif handshake == CONTROL_SYN | CONTROL_ACK:
        opened_by = ((segment[ACKNOWLEDGED] - 1) & 0xFFFFFFFF) | (0 if backwards else B_OPENED)
    return int(opened_by)


@jit_inner
def _piece_of(
    segment: Int64s,
    backwards: bool,
    time_ns: int,
    slots: Int32s,
    pieces: Int64s,
    multipliers: Int64s,
    state: Int64s,
) -> int:
    """Give the piece that a segment belongs to, a new one if it begins one; there is room for it."""
    new = state[PIECES]
    _write_key(segment, backwards, pieces, new)
    slot = _slot_of(slots, pieces, multipliers, new)
    piece = np.int64(slots[slot])
    opened_by = _opened_by(segment, backwards)
    pure_syn = segment[CONTROL] & (CONTROL_SYN | CONTROL_ACK) == CONTROL_SYN
    if piece < 0 or (pure_syn and pieces[piece, OPENED_BY] != opened_by):
        piece = new
        for field in range(KEY_FIELDS, PIECE_FIELDS):
            pieces[piece, field] = 0
        pieces[piece, BUCKET] = _hash(pieces, piece, BUCKET_MULTIPLIERS) & (BUCKETS - 1)
        pieces[piece, FIRST_NS] = time_ns
        pieces[piece, OPENED_BY] = opened_by
        slots[slot] = piece
        state[PIECES] = piece + 1
    elif opened_by >= 0 and pieces[piece, OPENED_BY] < 0:
        pieces[piece, OPENED_BY] = opened_by  # the SYN may have been captured after its answer
    return int(piece)


@jit_inner
def _flags(segment: Int64s, backwards: bool, pieces: Int64s, piece: int) -> int:
    """Give the descriptor's flags, or -1 for a packet that is only counted."""
    control = segment[CONTROL]
    flags = packed.FLAG_B_TO_A if backwards else 0
    flags |= packed.FLAG_SYN if control & CONTROL_SYN else 0
    flags |= packed.FLAG_ACK if control & CONTROL_ACK else 0
    flags |= packed.FLAG_FIN if control & CONTROL_FIN else 0
    flags |= packed.FLAG_RST if control & CONTROL_RST else 0
    payload = segment[PAYLOAD_CAPTURED] + segment[PAYLOAD_MISSING]
    if payload == 0 and not control & (CONTROL_SYN | CONTROL_FIN | CONTROL_RST):
        way = 2 if backwards else 1
        if control & CONTROL_ACK and not pieces[piece, ACKNOWLEDGING] & way:
            pieces[piece, ACKNOWLEDGING] |= way
            flags |= packed.FLAG_BARE_ACK
        else:
            flags = -1
    return int(flags)


@jit_flat
def gather(
    data: Bytes,
    base: int,
    records: Int64s,
    first: int,
    ports: Bytes,
    slots: Int32s,
    pieces: Int64s,
    multipliers: Int64s,
    segments: Int64s,
    segment: Int64s,
    state: Int64s,
    counts: Int64s,
) -> int:
    """Take the packets of records[first:]; give the number of the first one for which there was no room."""
    for i in range(first, len(records)):
        if state[PIECES] == len(pieces) or state[SEGMENTS] == len(segments):
            return i
        link_type, captured, original = records[i, LINK_TYPE], records[i, CAPTURED], records[i, ORIGINAL]
        packet = state[PACKET]
        state[PACKET] = packet + 1
        what = UNKNOWN_LINK
        if 0 <= link_type < len(LINK_TABLE) and LINK_TABLE[link_type, KIND] >= 0:
            what = read_packet(
                data,
                records[i, AT] - base,
                captured,
                original,
                LINK_TABLE[link_type, KIND],
                LINK_TABLE[link_type, TYPE_AT],
                LINK_TABLE[link_type, SKIP],
                segment,
            )
        if what == SEGMENT and not (ports[segment[SOURCE_PORT]] or ports[segment[TARGET_PORT]]):
            what = FILTERED
        counts[PACKETS] += 1
        counts[CLASSES + what] += 1
        counts[TRUNCATED] += 1 if captured < original else 0
        if what != SEGMENT:
            continue
        missing = segment[PAYLOAD_MISSING]
        counts[PAYLOAD_BYTES] += segment[PAYLOAD_CAPTURED] + missing
        counts[MISSING_BYTES] += missing
        time_ns, backwards = records[i, TIME_NS], _b_to_a(segment)
        piece = _piece_of(segment, backwards, time_ns, slots, pieces, multipliers, state)
        pieces[piece, PACKETS_BA if backwards else PACKETS_AB] += 1
        if segment[WINDOW] == 0 and not segment[CONTROL] & (CONTROL_SYN | CONTROL_RST):
            pieces[piece, ZERO_WINDOWS] += 1
        pieces[piece, LAST_NS] = time_ns
        flags = _flags(segment, backwards, pieces, piece)
        if flags < 0:
            continue
        pieces[piece, COUNT] += 1
        row = state[SEGMENTS]
        segments[row, packed.TIME] = time_ns
        segments[row, packed.PACKET] = packet
        segments[row, packed.OFFSET] = records[i, AT] + segment[PAYLOAD]
        segments[row, packed.CAPTURED] = segment[PAYLOAD_CAPTURED]
        segments[row, packed.MISSING] = missing
        segments[row, packed.SEQ] = segment[SEQUENCE]
        segments[row, packed.ACK] = segment[ACKNOWLEDGED] if flags & packed.FLAG_ACK else 0
        segments[row, packed.FLAGS] = flags
        segments[row, PIECE] = piece
        state[SEGMENTS] = row + 1
    return len(records)


@jit_flat
def sort_by_piece(segments: Int64s, next_of: Int64s, order: Int64s) -> None:
    """Fill `order` with segment numbers by piece; `next_of` says where each piece begins, and is used up."""
    for row in range(len(segments)):
        piece = segments[row, PIECE]
        order[next_of[piece]] = row
        next_of[piece] += 1
