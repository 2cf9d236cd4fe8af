"""Gather the segments of one split by connection: the loop of pass one that touches every packet.

Connections are found by their canonical 4-tuple (A is the lower endpoint) in an open-addressing hash table of piece
numbers. Everything lies in arrays that grow outside the compiled loop: `gather` stops where something is full and is called
again from there.
"""

import secrets
from collections.abc import Iterable

import numpy as np

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
from kdissect.kernel import jit

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
PIECES, SEGMENTS, PACKET, SEED, STATE_FIELDS = range(5)

# Counts, in the order of pieces.Counts; classes of packets stand from CLASSES on.
PACKETS, CLASSES, TRUNCATED, PAYLOAD_BYTES, MISSING_BYTES = 0, 1, 7, 8, 9

BUCKETS = 1 << 16


class Gathering:
    """What was found in a split: `pieces`, `segments` (in capture order) and `counts`."""

    def __init__(self, first_packet: int, ports: Iterable[int]) -> None:
        self.counts = np.zeros(len(packed.Counts._fields), dtype=np.int64)
        self._ports = np.zeros(1 << 16, dtype=np.uint8)
        self._ports[[port for port in ports if 0 <= port < 1 << 16]] = 1
        if not self._ports.any():
            self._ports[:] = 1
        self._pieces = np.empty((64, PIECE_FIELDS), dtype=np.int64)
        self._segments = np.empty((1024, PIECE + 1), dtype=np.int64)
        self._slots = np.full(256, -1, dtype=np.int32)
        self._segment = np.zeros(SEGMENT_FIELDS, dtype=np.int64)
        # A seed of its own for every scan: a capture cannot be made to fill one chain of the table.
        self._state = np.array([0, 0, first_packet, secrets.randbits(32)], dtype=np.int64)

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
                self._segments,
                self._segment,
                self._state,
                self.counts,
            )
            if done == len(records):
                return
            if self._state[SEGMENTS] == len(self._segments):
                self._segments = _doubled(self._segments)
            if self._state[PIECES] == len(self._pieces):
                self._pieces = _doubled(self._pieces)
                self._slots = np.full(4 * len(self._pieces), -1, dtype=np.int32)
                fill_slots(self._slots, self._pieces, self._state)

    def by_piece(self) -> tuple[Int64s, Int64s]:
        """Give the numbers of the segments sorted by piece, and where each piece begins among them."""
        starts = np.cumsum(self.pieces[:, COUNT]) - self.pieces[:, COUNT]
        order = np.empty(len(self.segments), dtype=np.int64)
        sort_by_piece(self.segments, starts.copy(), order)
        return order, starts


def _doubled(rows: Int64s) -> Int64s:
    return np.concatenate([rows, np.empty_like(rows)])


@jit
def _hash(key: Int64s, row: int, seed: int) -> int:
    """Mix a key to 32 bits. Products stay below 2**63, so that the sum is the same with and without the compiler."""
    mixed = seed
    for field in range(KEY_FIELDS):
        mixed = ((mixed ^ key[row, field]) * 0x2C1B3C6D) & 0xFFFFFFFF
        mixed ^= mixed >> 15
    return int(mixed)


@jit
def _b_to_a(segment: Int64s) -> bool:
    """Say whether the packet came from the higher endpoint."""
    for word in range(4):
        if segment[SOURCE + word] != segment[TARGET + word]:
            return bool(segment[SOURCE + word] > segment[TARGET + word])
    return bool(segment[SOURCE_PORT] > segment[TARGET_PORT])


@jit
def _write_key(segment: Int64s, backwards: bool, pieces: Int64s, row: int) -> None:
    source, target = (B_HOST, A_HOST) if backwards else (A_HOST, B_HOST)
    for word in range(4):
        pieces[row, source + word] = segment[SOURCE + word]
        pieces[row, target + word] = segment[TARGET + word]
    pieces[row, A_PORT] = segment[TARGET_PORT] if backwards else segment[SOURCE_PORT]
    pieces[row, B_PORT] = segment[SOURCE_PORT] if backwards else segment[TARGET_PORT]


@jit
def _slot_of(slots: np.ndarray, pieces: Int64s, row: int, seed: int) -> int:
    """Give the slot that holds a piece with the key of `row`, or the free one where it belongs."""
    slot = _hash(pieces, row, seed) & (len(slots) - 1)
    while slots[slot] >= 0:
        same = True
        for field in range(KEY_FIELDS):
            if pieces[slots[slot], field] != pieces[row, field]:
                same = False
                break
        if same:
            break
        slot = (slot + 1) & (len(slots) - 1)
    return int(slot)


@jit
def fill_slots(slots: np.ndarray, pieces: Int64s, state: Int64s) -> None:
    """Enter all pieces into an empty table; the last one of a key stays."""
    for row in range(state[PIECES]):
        slots[_slot_of(slots, pieces, row, state[SEED])] = row


@jit
def _piece_of(
    segment: Int64s, backwards: bool, time_ns: int, slots: np.ndarray, pieces: Int64s, state: Int64s
) -> int:
    """Give the piece that a segment belongs to, a new one if it begins one; there is room for it."""
    new = state[PIECES]
    _write_key(segment, backwards, pieces, new)
    slot = _slot_of(slots, pieces, new, state[SEED])
    piece = np.int64(slots[slot])
    handshake = segment[CONTROL] & (CONTROL_SYN | CONTROL_ACK)
    opened_by = segment[SEQUENCE] | (1 << 32 if backwards else 0)
    if piece >= 0 and (handshake != CONTROL_SYN or pieces[piece, OPENED_BY] == opened_by):
        if handshake == CONTROL_SYN | CONTROL_ACK and pieces[piece, OPENED_BY] < 0:
            # The SYN may have been captured after its answer.
            pieces[piece, OPENED_BY] = ((segment[ACKNOWLEDGED] - 1) & 0xFFFFFFFF) | (
                0 if backwards else 1 << 32
            )
        return int(piece)
    for field in range(KEY_FIELDS, PIECE_FIELDS):
        pieces[new, field] = 0
    pieces[new, BUCKET] = _hash(pieces, new, 0) & (BUCKETS - 1)
    pieces[new, FIRST_NS] = time_ns
    pieces[new, OPENED_BY] = -1
    if handshake == CONTROL_SYN:
        pieces[new, OPENED_BY] = opened_by
    elif handshake == CONTROL_SYN | CONTROL_ACK:
        pieces[new, OPENED_BY] = ((segment[ACKNOWLEDGED] - 1) & 0xFFFFFFFF) | (0 if backwards else 1 << 32)
    slots[slot] = new
    state[PIECES] = new + 1
    return int(new)


@jit
def _describe(segment: Int64s, backwards: bool, pieces: Int64s, piece: int) -> int:
    """Give the descriptor's flags, or -1 for a packet that is only counted."""
    control = segment[CONTROL]
    flags = packed.FLAG_B_TO_A if backwards else 0
    flags |= packed.FLAG_SYN if control & CONTROL_SYN else 0
    flags |= packed.FLAG_ACK if control & CONTROL_ACK else 0
    flags |= packed.FLAG_FIN if control & CONTROL_FIN else 0
    flags |= packed.FLAG_RST if control & CONTROL_RST else 0
    if segment[PAYLOAD_CAPTURED] + segment[PAYLOAD_MISSING] or control & (
        CONTROL_SYN | CONTROL_FIN | CONTROL_RST
    ):
        return int(flags)
    way = 2 if backwards else 1
    if not control & CONTROL_ACK or pieces[piece, ACKNOWLEDGING] & way:
        return -1
    pieces[piece, ACKNOWLEDGING] |= way
    return int(flags | packed.FLAG_BARE_ACK)


@jit
def gather(
    data: Bytes,
    base: int,
    records: Int64s,
    first: int,
    ports: Bytes,
    slots: np.ndarray,
    pieces: Int64s,
    segments: Int64s,
    segment: Int64s,
    state: Int64s,
    counts: Int64s,
) -> int:
    """Take the packets of records[first:]; give the number of the first one for which there was no room."""
    for i in range(first, len(records)):
        if state[SEGMENTS] == len(segments) or state[PIECES] == len(pieces):
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
        piece = _piece_of(segment, backwards, time_ns, slots, pieces, state)
        pieces[piece, PACKETS_BA if backwards else PACKETS_AB] += 1
        if segment[WINDOW] == 0 and not segment[CONTROL] & (CONTROL_SYN | CONTROL_RST):
            pieces[piece, ZERO_WINDOWS] += 1
        pieces[piece, LAST_NS] = time_ns
        flags = _describe(segment, backwards, pieces, piece)
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


@jit
def sort_by_piece(segments: Int64s, next_of: Int64s, order: Int64s) -> None:
    """Fill `order` with segment numbers by piece; `next_of` says where each piece begins, and is used up."""
    for row in range(len(segments)):
        piece = segments[row, PIECE]
        order[next_of[piece]] = row
        next_of[piece] += 1
