"""Gather the segments of one split by connection: the loop of pass one that touches every packet.

Connections are found by their canonical 4-tuple (A is the lower endpoint) in an open-addressing hash table of piece
numbers. Everything lies in arrays that grow outside the compiled loop: `gather` stops where something is full and is called
again from there.

Before the packets of the split come those that it recalls: they are read so that copies and fragments find what they
belong to, and leave nothing behind.
"""

import secrets
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdissect.capture import segment_index as packed
from kdissect.capture.dedup import is_copy, new_seen
from kdissect.capture.formats.record_table import (
    AT,
    CAPTURED,
    LINK_TYPE,
    ORIGINAL,
    TIME_NS,
    Bytes,
    Int64s,
)
from kdissect.capture.packets.headers import (
    ACKNOWLEDGED,
    CONTROL,
    CONTROL_ACK,
    CONTROL_FIN,
    CONTROL_RST,
    CONTROL_SYN,
    DATAGRAM,
    FILTERED,
    FRAGMENT,
    FRAGMENT_AT,
    FRAGMENT_LENGTH,
    FRAGMENT_OFFSET,
    LAYERS,
    NOT_TCP,
    OPTIONS,
    PAYLOAD,
    PAYLOAD_CAPTURED,
    PAYLOAD_MISSING,
    SEGMENT,
    SEGMENT_FIELDS,
    SEQUENCE,
    SOURCE,
    SOURCE_PORT,
    TARGET,
    TARGET_PORT,
    UNKNOWN_LINK,
    WINDOW,
    read_packet,
)
from kdissect.capture.packets.ip_fragments import (
    HELD,
    HELD_CAPTURED,
    HELD_CLASS,
    HELD_DATAGRAM,
    HELD_LENGTH,
    HELD_OFFSET,
    HELD_PACKET,
    HELD_PLACE,
    HELD_TIME,
    carries_tcp,
    first_of,
    hold,
    new_firsts,
    new_held,
    place_part,
    remember_first,
    within_reach,
)
from kdissect.capture.packets.link_layer import (
    KIND,
    LINK_TABLE,
    SKIP,
    TYPE_AT,
)
from kdissect.jit.decorators import jit_flat, jit_inner

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
    OPENED_BY,  # direction and number of the SYN that it begins with, -1: it begins otherwise
    ACKNOWLEDGING,  # 1: a bare acknowledgement of A was described, 2: one of B; since the last SYN
    COPIES,  # packets that were there before
    PIECE_FIELDS,
) = range(KEY_FIELDS, KEY_FIELDS + 11)

# Columns of a gathered segment: those of a descriptor, and its piece.
PIECE = packed.SEGMENT_COLUMNS

# The state of the loop.
PIECES, SEGMENTS, PACKET, FIRST_PACKET, HELD_COUNT = range(5)

# Counts, in the order of pieces.Counts; classes of packets stand from CLASSES on.
PACKETS, CLASSES, TRUNCATED, PAYLOAD_BYTES, MISSING_BYTES, DUPLICATES, TUNNELLED = 0, 1, 7, 8, 9, 10, 11
ATTEMPTS = 12

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


class FlowArrays(NamedTuple):
    """The arrays of the loop: what was found, how to find it again, and what is remembered of the last packets."""

    ports: Bytes
    slots: Int32s
    pieces: Int64s
    multipliers: Int64s
    segments: Int64s
    seen: Int64s  # see `copies`
    firsts: Int64s  # see `fragments`
    held: Int64s
    state: Int64s
    counts: Int64s


class FlowTable:
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

    def begin(self, first_packet: int, most_packets: int, recalled: int = 0) -> None:
        """Forget everything; expect up to `most_packets`, the first of which has the number `first_packet`.

        Before them come the packets that are only `recalled`.
        """
        self.counts = np.zeros(len(packed.Counts._fields), dtype=np.int64)
        self._state = np.array([0, 0, first_packet - recalled, first_packet, 0], dtype=np.int64)
        self._slots = np.full(4 * len(self._pieces), -1, dtype=np.int32)
        self._seen, self._firsts, self._held = new_seen(), new_firsts(), new_held()
        room = most_packets + 2 * HELD + 1  # fragments that waited since before the split are described in it
        if room > len(self._segments):
            self._segments = np.empty((room, PIECE + 1), dtype=np.int64)

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
            done = collect_segments(data, base, records, done, self._tables(), self._segment)
            if done == len(records):
                return
            self._pieces = np.concatenate([self._pieces, np.empty_like(self._pieces)])
            self._slots = np.full(4 * len(self._pieces), -1, dtype=np.int32)
            fill_slots(self._slots, self._pieces, self._multipliers, self._state[PIECES])

    def _tables(self) -> FlowArrays:
        return FlowArrays(
            self._ports,
            self._slots,
            self._pieces,
            self._multipliers,
            self._segments,
            self._seen,
            self._firsts,
            self._held,
            self._state,
            self.counts,
        )

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
def _slot_of(slots: Int32s, pieces: Int64s, key: int, row: int) -> int:
    """Give the slot that holds a piece with the key of `row`, whose hash is `key`, or the free one where it belongs."""
    last = len(slots) - 1
    slot = key & last
    while slots[slot] >= 0 and _differ(pieces, slots[slot], row):
        slot = (slot + 1) & last
    return int(slot)


@jit_flat
def fill_slots(slots: Int32s, pieces: Int64s, multipliers: Int64s, count: int) -> None:
    """Enter the pieces into an empty table; the last one of a key stays."""
    for row in range(count):
        slots[_slot_of(slots, pieces, _hash(pieces, row, multipliers), row)] = row


@jit_inner
def _opened_by(segment: Int64s, backwards: bool) -> int:
    """Give direction and number of a bare SYN; -1 for all other segments."""
    if segment[CONTROL] & (CONTROL_SYN | CONTROL_ACK) != CONTROL_SYN:
        return -1
    return int(segment[SEQUENCE] | (B_OPENED if backwards else 0))


@jit_inner
def _piece_of(
    opened_by: int,
    time_ns: int,
    key: int,
    slots: Int32s,
    pieces: Int64s,
    state: Int64s,
) -> int:
    """Give the piece that a segment belongs to, a new one if it begins one; there is room for it.

    The segment's key, whose hash is `key`, stands in the first free row of `pieces`. Every SYN begins a piece, but for one
    that comes again: whether it begins a connection, too, depends on what was captured before, maybe in another split.
    """
    new = state[PIECES]
    slot = _slot_of(slots, pieces, key, new)
    piece = np.int64(slots[slot])
    if piece < 0 or (opened_by >= 0 and pieces[piece, OPENED_BY] != opened_by):
        piece = new
        for field in range(KEY_FIELDS, PIECE_FIELDS):
            pieces[piece, field] = 0
        pieces[piece, BUCKET] = _hash(pieces, piece, BUCKET_MULTIPLIERS) & (BUCKETS - 1)
        pieces[piece, FIRST_NS] = time_ns
        pieces[piece, OPENED_BY] = opened_by
        slots[slot] = piece
        state[PIECES] = piece + 1
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
    if control & CONTROL_SYN:
        pieces[piece, ACKNOWLEDGING] = 0
    if payload == 0 and not control & (CONTROL_SYN | CONTROL_FIN | CONTROL_RST):
        way = 2 if backwards else 1
        if control & CONTROL_ACK and not pieces[piece, ACKNOWLEDGING] & way:
            pieces[piece, ACKNOWLEDGING] |= way
            flags |= packed.FLAG_BARE_ACK
        else:
            flags = -1
    return int(flags)


@jit_inner
def _describe(
    data: Bytes,
    at: int,
    place: int,
    time_ns: int,
    packet: int,
    recalled: bool,
    tables: FlowArrays,
    segment: Int64s,
) -> None:
    """Take one segment: `place` is the file offset of what PAYLOAD counts from, which lies at data[at:]."""
    pieces, state, counts = tables.pieces, tables.state, tables.counts
    backwards = _b_to_a(segment)
    new = state[PIECES]
    _write_key(segment, backwards, pieces, new)
    key = _hash(pieces, new, tables.multipliers)
    who = key << 1 | backwards
    copy = is_copy(tables.seen, data, at, who, segment, time_ns, packet, place)
    if recalled:
        return
    missing = segment[PAYLOAD_MISSING]
    opened_by = -1 if copy else _opened_by(segment, backwards)
    piece = _piece_of(opened_by, time_ns, key, tables.slots, pieces, state)
    pieces[piece, LAST_NS] = max(pieces[piece, LAST_NS], time_ns)
    if copy:
        pieces[piece, COPIES] += 1
        counts[DUPLICATES] += 1
        return
    counts[PAYLOAD_BYTES] += segment[PAYLOAD_CAPTURED] + missing
    counts[MISSING_BYTES] += missing
    pieces[piece, PACKETS_BA if backwards else PACKETS_AB] += 1
    if segment[WINDOW] == 0 and not segment[CONTROL] & (CONTROL_SYN | CONTROL_RST):
        pieces[piece, ZERO_WINDOWS] += 1
    flags = _flags(segment, backwards, pieces, piece)
    if flags < 0:
        return
    pieces[piece, COUNT] += 1
    row, segments = state[SEGMENTS], tables.segments
    segments[row, packed.TIME] = time_ns
    segments[row, packed.PACKET] = packet
    segments[row, packed.OFFSET] = place + segment[PAYLOAD]
    segments[row, packed.CAPTURED] = segment[PAYLOAD_CAPTURED]
    segments[row, packed.MISSING] = missing
    segments[row, packed.SEQ] = segment[SEQUENCE]
    segments[row, packed.ACK] = segment[ACKNOWLEDGED] if flags & packed.FLAG_ACK else 0
    segments[row, packed.FLAGS] = flags
    segments[row, PIECE] = piece
    state[SEGMENTS] = row + 1


@jit_inner
def _take_later_fragment(
    place: int, captured: int, time_ns: int, packet: int, tables: FlowArrays, segment: Int64s
) -> int:
    """Make the segment of a later fragment and give what it is; without its first fragment it has to wait."""
    state = tables.state
    what = FRAGMENT if carries_tcp(segment) else NOT_TCP
    first = first_of(tables.firsts, segment[DATAGRAM], time_ns, packet, place)
    if first < 0:
        hold(tables.held, state[HELD_COUNT], segment, captured, what, time_ns, packet, place)
        state[HELD_COUNT] += 1
        return int(what)
    begin = segment[FRAGMENT_AT]
    offset, length = segment[FRAGMENT_OFFSET], segment[FRAGMENT_LENGTH]
    if place_part(tables.firsts, first, offset, length, max(0, captured - begin), segment):
        segment[PAYLOAD] += begin
        segment[OPTIONS] = segment[PAYLOAD]
        what = SEGMENT
    return int(what)


@jit_inner
def _next_held(
    number: int, time_ns: int, packet: int, place: int, tables: FlowArrays, segment: Int64s
) -> int:
    """Make `segment` the next fragment, from `number` on, that waited for this first one; give its number, or HELD_COUNT."""
    state, held, datagram = tables.state, tables.held, segment[DATAGRAM]
    first = first_of(tables.firsts, datagram, time_ns, packet, place)
    while number < state[HELD_COUNT]:
        row = number & (HELD - 1)
        if held[row, HELD_DATAGRAM] == datagram:
            held[row, HELD_DATAGRAM] = -1
            near = within_reach(
                packet - held[row, HELD_PACKET], place - held[row, HELD_PLACE], time_ns - held[row, HELD_TIME]
            )
            offset, length, captured = (
                held[row, HELD_OFFSET],
                held[row, HELD_LENGTH],
                held[row, HELD_CAPTURED],
            )
            if near and place_part(tables.firsts, first, offset, length, captured, segment):
                break
        number += 1
    return number


@jit_flat
def collect_segments(
    data: Bytes, base: int, records: Int64s, first: int, tables: FlowArrays, segment: Int64s
) -> int:
    """Take the packets of records[first:]; give the number of the first one for which there was no room."""
    state, counts, held, ports = tables.state, tables.counts, tables.held, tables.ports
    for i in range(first, len(records)):
        if state[PIECES] + 2 > len(tables.pieces) or state[SEGMENTS] + HELD >= len(tables.segments):
            return i
        link_type, captured, original = records[i, LINK_TYPE], records[i, CAPTURED], records[i, ORIGINAL]
        place, time_ns = records[i, AT], records[i, TIME_NS]
        at = place - base
        packet = state[PACKET]
        state[PACKET] = packet + 1
        what = UNKNOWN_LINK
        if 0 <= link_type < len(LINK_TABLE) and LINK_TABLE[link_type, KIND] >= 0:
            what = read_packet(
                data,
                at,
                captured,
                original,
                LINK_TABLE[link_type, KIND],
                LINK_TABLE[link_type, TYPE_AT],
                LINK_TABLE[link_type, SKIP],
                segment,
            )
        waited = state[HELD_COUNT]
        if what == FRAGMENT:
            what = _take_later_fragment(place, captured, time_ns, packet, tables, segment)
        elif what == SEGMENT and segment[DATAGRAM] >= 0:
            remember_first(tables.firsts, segment, time_ns, packet, place)
            waited = max(0, waited - HELD)
        if what == SEGMENT and not (ports[segment[SOURCE_PORT]] or ports[segment[TARGET_PORT]]):
            what = FILTERED
        recalled = packet < state[FIRST_PACKET]
        if not recalled:
            counts[PACKETS] += 1
            counts[CLASSES + what] += 1
            counts[TRUNCATED] += 1 if captured < original else 0
            counts[TUNNELLED] += 1 if what == SEGMENT and segment[LAYERS] else 0
        if what != SEGMENT:
            continue
        # Once for the packet, and once for each fragment that waited for it.
        first_place, first_ns, first_packet = place, time_ns, packet
        while True:
            _describe(data, at, place, time_ns, packet, recalled, tables, segment)
            if waited < state[HELD_COUNT]:
                waited = _next_held(waited, first_ns, first_packet, first_place, tables, segment)
            if waited == state[HELD_COUNT]:
                break
            row = waited & (HELD - 1)
            at, place, time_ns, packet = (
                0,
                held[row, HELD_PLACE],
                held[row, HELD_TIME],
                held[row, HELD_PACKET],
            )
            if not recalled:
                counts[CLASSES + held[row, HELD_CLASS]] -= 1
                counts[CLASSES + SEGMENT] += 1
    return len(records)


@jit_flat
def sort_by_piece(segments: Int64s, next_of: Int64s, order: Int64s) -> None:
    """Fill `order` with segment numbers by piece; `next_of` says where each piece begins, and is used up."""
    for row in range(len(segments)):
        piece = segments[row, PIECE]
        order[next_of[piece]] = row
        next_of[piece] += 1
