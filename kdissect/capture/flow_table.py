"""Collect the segments of one split by connection: the kernel of pass one that touches every packet.

Connections are found by their canonical 4-tuple (A is the lower endpoint) in an open-addressing hash table of
piece numbers. All arrays grow outside the kernel: `collect_segments` stops where one is full, and is called
again from there.

The functions for one packet are copied into the loop (`jit_inline`), because each takes a dozen arrays, and
passing those cost more than the work: a packet took 277 ns and takes 44. Code that few packets need is not
copied.

Before the packets of the split, the kernel reads those that the split recalls. They serve to recognise copies
and fragments, and are not counted.
"""

import secrets
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from kdissect.array_types import Bytes, Int32s, Int64s
from kdissect.capture import segment_index as packed
from kdissect.capture.dedup import is_copy, new_seen
from kdissect.capture.flow_pieces import (
    COPIES,
    COUNT,
    KEY_FIELDS,
    LAST_NS,
    NEWS_OF_A,
    PACKETS_AB,
    PACKETS_BA,
    PIECE_FIELDS,
    ZERO_WINDOWS,
    descriptor_flags,
    fill_slots,
    find_piece,
    hash_ends,
    is_b_to_a,
    opened_by_of,
    sort_by_piece,
    write_key,
)
from kdissect.capture.formats.record_table import AT, CAPTURED, ORIGINAL, TIME_NS
from kdissect.capture.packets import headers, ip_fragments
from kdissect.capture.packets.ip_fragments import (
    carries_tcp,
    first_of,
    hold,
    new_firsts,
    new_held,
    place_part,
    remember_first,
    within_reach,
)
from kdissect.capture.packets_ahead import AHEAD, AHEAD_FIELDS, CLASS, KEY, read_ahead
from kdissect.jit.decorators import jit_flat, jit_inline, jit_inner

# Columns of a gathered segment: those of a descriptor, and its piece.
PIECE = packed.SEGMENT_COLUMNS

# The state of the loop. Packets are numbered from the first one that was read.
PIECES, SEGMENTS, PACKET, FIRST_PACKET, HELD_COUNT = range(5)

# Counts, in the order of segment_index.Counts; classes of packets begin at CLASSES.
PACKETS, CLASSES, TRUNCATED, PAYLOAD_BYTES, MISSING_BYTES, DUPLICATES, TUNNELLED = 0, 1, 7, 8, 9, 10, 11
ATTEMPTS = 12

# One packet makes a descriptor and an acknowledgment for itself and for each fragment that waited for it.
MOST_ROWS = 2 * (ip_fragments.HELD + 1)


class FlowArrays(NamedTuple):
    """The arrays of the kernel: results, the hash table over them, and the last packets that it remembers."""

    ports: Bytes
    slots: Int32s
    pieces: Int64s
    multipliers: Int64s
    segments: Int64s
    seen: Int64s  # see `dedup`
    firsts: Int64s  # see `ip_fragments`
    held: Int64s
    state: Int64s
    counts: Int64s


class FlowTable:
    """The result of a split: `pieces`, `segments` (in capture order) and `counts`.

    `begin` prepares the table for a split, and `follow` for the one behind it. Arrays are used again.
    """

    def __init__(self, ports: Iterable[int] = ()) -> None:
        self._ports = np.zeros(1 << 16, dtype=np.uint8)
        self._ports[[port for port in ports if 0 <= port < 1 << 16]] = 1
        if not self._ports.any():
            self._ports[:] = 1
        self._pieces = np.empty((256, PIECE_FIELDS), dtype=np.int64)
        self._segments = np.empty((0, PIECE + 1), dtype=np.int64)
        self._ahead = np.zeros((AHEAD, AHEAD_FIELDS), dtype=np.int64)
        # Random multipliers for every process, so that no capture can fill one chain of the table on purpose.
        self._multipliers = np.array(
            [secrets.randbits(30) * 2 + 1 for _ in range(KEY_FIELDS)], dtype=np.int64
        )

    def begin(self, most_packets: int = 0, recalled: int = 0) -> None:
        """Forget everything, and expect some packets; there is room for `most_packets` at once.

        Before them come `recalled` packets, which are read only to recognise copies and fragments.
        """
        self._state = np.array([0, 0, 0, recalled, 0], dtype=np.int64)
        self._seen, self._firsts, self._held = new_seen(), new_firsts(), new_held()
        # Fragments that waited since before the split are described too.
        room = most_packets + 2 * MOST_ROWS + 1
        if room > len(self._segments):
            self._segments = np.empty((room, PIECE + 1), dtype=np.int64)
        self._forget_pieces()

    def follow(self) -> None:
        """Begin the split behind the last one, whose packets serve to recognise copies and fragments.

        The result is that of a split that recalls them, which never depends on any packet before those.
        """
        self._state[FIRST_PACKET] = self._state[PACKET]
        self._forget_pieces()

    def _forget_pieces(self) -> None:
        self.counts = np.zeros(len(packed.Counts._fields), dtype=np.int64)
        self._state[PIECES] = self._state[SEGMENTS] = 0
        self._slots = np.full(4 * len(self._pieces), -1, dtype=np.int32)

    @property
    def pieces(self) -> Int64s:
        """One row (A_HOST … ACKNOWLEDGING) for each piece, in the order of their first packets."""
        return self._pieces[: self._state[PIECES]]

    @property
    def segments(self) -> Int64s:
        """One row (a descriptor and PIECE) for each packet that reassembly needs."""
        return self._segments[: self._state[SEGMENTS]]

    def add(self, data: Bytes, base: int, records: Int64s) -> None:
        """Add the packets of `records`, whose bytes lie in `data` from file offset `base` on."""
        done = 0
        while True:
            done = collect_segments(data, base, records, done, self._tables(), self._ahead)
            if done == len(records):
                return
            if not _has_room(self._state, self._segments):
                self._segments = _doubled(self._segments)
                continue
            self.make_room()

    def make_room(self) -> None:
        """Double the number of pieces for which there is room."""
        self._pieces = _doubled(self._pieces)
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
        """Return the numbers of the segments sorted by piece, and the start of each piece among them."""
        starts = np.cumsum(self.pieces[:, COUNT]) - self.pieces[:, COUNT]
        order = np.empty(len(self.segments), dtype=np.int64)
        sort_by_piece(self.segments[:, PIECE], starts.copy(), order)
        return order, starts


def _doubled(rows: Int64s) -> Int64s:
    """Return a table of twice as many rows, the first of which are those of `rows`."""
    larger = np.empty((2 * len(rows), rows.shape[1]), rows.dtype)
    larger[: len(rows)] = rows
    return larger


@jit_inline
def _describe_acknowledgment(
    time_ns: int,
    packet: int,
    piece: int,
    side: int,
    described: bool,
    tables: FlowArrays,
    segment: Int64s,
) -> None:
    """Add an acknowledgment if the packet acknowledges more, or closes or opens the window of its `side`.

    A packet with a descriptor of its own (`described`) needs one only while its window is closed.
    """
    pieces, control = tables.pieces, segment[headers.CONTROL]
    is_open = 0 if segment[headers.WINDOW] == 0 and not control & headers.CONTROL_SYN else 1
    if is_open == 0:
        pieces[piece, ZERO_WINDOWS] += 1
    if not control & headers.CONTROL_ACK:
        return
    number = segment[headers.ACKNOWLEDGED]
    news = number if is_open else ~number  # negative
    is_new = pieces[piece, NEWS_OF_A + side] != news
    pieces[piece, NEWS_OF_A + side] = news
    if is_open == 0 if described else is_new:
        flags = packed.FLAG_ACK_ONLY | packed.FLAG_ACK | side
        row, segments = tables.state[SEGMENTS], tables.segments
        segments[row, packed.TIME] = time_ns
        segments[row, packed.PACKET] = packet - tables.state[FIRST_PACKET]
        segments[row, packed.OFFSET] = 0
        segments[row, packed.CAPTURED] = 0
        segments[row, packed.MISSING] = 0
        segments[row, packed.SEQ] = 0
        segments[row, packed.ACK] = number
        segments[row, packed.FLAGS] = flags if is_open else flags | packed.FLAG_WINDOW_CLOSED
        segments[row, PIECE] = piece
        pieces[piece, COUNT] += 1
        tables.state[SEGMENTS] = row + 1


@jit_inline
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
    """Add one segment; `place` is the file offset from which PAYLOAD counts, and data[at:] begins there."""
    pieces, state, counts = tables.pieces, tables.state, tables.counts
    backwards = is_b_to_a(segment)
    new = state[PIECES]
    write_key(segment, backwards, pieces, new)
    key = segment[KEY]
    who = key << 1 | backwards
    copy = is_copy(tables.seen, data, at, who, segment, time_ns, packet, place)
    if recalled:
        return
    missing = segment[headers.PAYLOAD_MISSING]
    opened_by = -1 if copy else opened_by_of(segment, backwards)
    piece = find_piece(opened_by, time_ns, key, tables.slots, pieces, new)
    if piece == new:
        state[PIECES] = new + 1
    pieces[piece, LAST_NS] = max(pieces[piece, LAST_NS], time_ns)
    if copy:
        pieces[piece, COPIES] += 1
        counts[DUPLICATES] += 1
        return
    counts[PAYLOAD_BYTES] += segment[headers.PAYLOAD_CAPTURED] + missing
    counts[MISSING_BYTES] += missing
    pieces[piece, PACKETS_BA if backwards else PACKETS_AB] += 1
    flags = descriptor_flags(segment, backwards, pieces, piece)
    if not segment[headers.CONTROL] & headers.CONTROL_RST:
        side = 1 if backwards else 0
        _describe_acknowledgment(time_ns, packet, piece, side, flags >= 0, tables, segment)
    if flags < 0:
        return
    pieces[piece, COUNT] += 1
    row, segments = state[SEGMENTS], tables.segments
    segments[row, packed.TIME] = time_ns
    segments[row, packed.PACKET] = packet - state[FIRST_PACKET]
    segments[row, packed.OFFSET] = place + segment[headers.PAYLOAD]
    segments[row, packed.CAPTURED] = segment[headers.PAYLOAD_CAPTURED]
    segments[row, packed.MISSING] = missing
    segments[row, packed.SEQ] = segment[headers.SEQUENCE]
    segments[row, packed.ACK] = segment[headers.ACKNOWLEDGED] if flags & packed.FLAG_ACK else 0
    segments[row, packed.FLAGS] = flags
    segments[row, PIECE] = piece
    state[SEGMENTS] = row + 1


@jit_inner
def _take_later_fragment(
    place: int, captured: int, time_ns: int, packet: int, tables: FlowArrays, segment: Int64s
) -> int:
    """Turn a later fragment into a segment, or keep it until its first fragment comes. Return its class."""
    state = tables.state
    what = headers.FRAGMENT if carries_tcp(segment) else headers.NOT_TCP
    first = first_of(tables.firsts, segment[headers.DATAGRAM], time_ns, packet, place)
    if first < 0:
        hold(tables.held, state[HELD_COUNT], segment, captured, what, time_ns, packet, place)
        state[HELD_COUNT] += 1
        return int(what)
    begin = segment[headers.FRAGMENT_AT]
    offset, length = segment[headers.FRAGMENT_OFFSET], segment[headers.FRAGMENT_LENGTH]
    if place_part(tables.firsts, first, offset, length, max(0, captured - begin), segment):
        segment[headers.PAYLOAD] += begin
        segment[headers.OPTIONS] = segment[headers.PAYLOAD]
        segment[KEY] = hash_ends(segment, tables.multipliers)
        what = headers.SEGMENT
    return int(what)


@jit_inner
def _next_held(
    number: int, time_ns: int, packet: int, place: int, tables: FlowArrays, segment: Int64s
) -> int:
    """Turn `segment` into the next fragment, from `number` on, that waited for it.

    Return the number of that fragment, or HELD_COUNT.
    """
    state, held, datagram = tables.state, tables.held, segment[headers.DATAGRAM]
    first = first_of(tables.firsts, datagram, time_ns, packet, place)
    while number < state[HELD_COUNT]:
        row = number & (ip_fragments.HELD - 1)
        if held[row, ip_fragments.HELD_DATAGRAM] == datagram:
            held[row, ip_fragments.HELD_DATAGRAM] = -1
            near = within_reach(
                packet - held[row, ip_fragments.HELD_PACKET],
                place - held[row, ip_fragments.HELD_PLACE],
                time_ns - held[row, ip_fragments.HELD_TIME],
            )
            offset, length, captured = (
                held[row, ip_fragments.HELD_OFFSET],
                held[row, ip_fragments.HELD_LENGTH],
                held[row, ip_fragments.HELD_CAPTURED],
            )
            if near and place_part(tables.firsts, first, offset, length, captured, segment):
                break
        number += 1
    return number


@jit_flat
def _has_room(state: Int64s, segments: Int64s) -> bool:
    """Return whether the descriptors of one more packet fit."""
    return bool(state[SEGMENTS] + MOST_ROWS <= len(segments))


@jit_flat
def collect_segments(
    data: Bytes, base: int, records: Int64s, first: int, tables: FlowArrays, ahead: Int64s
) -> int:
    """Add the packets of records[first:]. Return the number of the first one for which there was no room."""
    state, counts, held, ports = tables.state, tables.counts, tables.held, tables.ports
    for i in range(first, len(records)):
        if state[PIECES] + 2 > len(tables.pieces) or not _has_room(state, tables.segments):
            return i
        if (i - first) % AHEAD == 0:
            stop = min(i + AHEAD, len(records))
            read_ahead(data, base, records, i, stop, tables.slots, tables.pieces, tables.multipliers, ahead)
        segment = ahead[(i - first) % AHEAD]
        place, time_ns, captured = records[i, AT], records[i, TIME_NS], records[i, CAPTURED]
        at = place - base
        packet = state[PACKET]
        state[PACKET] = packet + 1
        what = segment[CLASS]
        waited = state[HELD_COUNT]
        if what == headers.FRAGMENT:
            what = _take_later_fragment(place, captured, time_ns, packet, tables, segment)
        elif what == headers.SEGMENT and segment[headers.DATAGRAM] >= 0:
            remember_first(tables.firsts, segment, time_ns, packet, place)
            waited = max(0, waited - ip_fragments.HELD)
        if what == headers.SEGMENT and not (
            ports[segment[headers.SOURCE_PORT]] or ports[segment[headers.TARGET_PORT]]
        ):
            what = headers.FILTERED
        recalled = packet < state[FIRST_PACKET]
        if not recalled:
            counts[PACKETS] += 1
            counts[CLASSES + what] += 1
            counts[TRUNCATED] += 1 if captured < records[i, ORIGINAL] else 0
            counts[TUNNELLED] += 1 if what == headers.SEGMENT and segment[headers.LAYERS] else 0
        if what != headers.SEGMENT:
            continue
        # Once for the packet, and once for each fragment that waited for it.
        first_place, first_ns, first_packet = place, time_ns, packet
        while True:
            _describe(data, at, place, time_ns, packet, recalled, tables, segment)
            if waited < state[HELD_COUNT]:
                waited = _next_held(waited, first_ns, first_packet, first_place, tables, segment)
            if waited == state[HELD_COUNT]:
                break
            row = waited & (ip_fragments.HELD - 1)
            at, place, time_ns, packet = (
                0,
                held[row, ip_fragments.HELD_PLACE],
                held[row, ip_fragments.HELD_TIME],
                held[row, ip_fragments.HELD_PACKET],
            )
            if not recalled:
                counts[CLASSES + held[row, ip_fragments.HELD_CLASS]] -= 1
                counts[CLASSES + headers.SEGMENT] += 1
    return len(records)
