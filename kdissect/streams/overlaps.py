"""Segments that carry other bytes than were seen before at the same place of their stream.

Reassembly keeps the bytes that it saw first, and marks the segments that bring some of them again (REPEATS).
After each split `Conflicts.count` compares these with the segments before them. A segment that differs is a
conflict: a segment was damaged, someone interferes, or the capture is not what it seems. The bytes do not
show which copy the receiver took.

A segment is compared with the NEAR_SEGMENTS before it in its direction, as far as they are within
NEAR_PACKETS and NEAR_BYTES of the same file. So the outcome does not depend on where splits begin. A
keep-alive probe may carry any byte (RFC 9293, section 3.8.4), so it is never compared.

A few segments of a split repeat bytes, and all segments of their directions are near. So one loop chooses
those that are compared, and those that may be the same packet (`choose_near`): 60 to 80 of 2,000 ns an
exchange went to the others.

A segment that is the same packet as one that near, headers included, was captured twice. It counts as a
duplicate instead: see `late_duplicates`.
"""

from dataclasses import dataclass
from itertools import dropwhile

import numpy as np
from numpy.typing import NDArray

from kdissect.array_types import Bools, Bytes, Int64s
from kdissect.capture.segment_index import (
    CAPTURED,
    FLAG_RST,
    FLAG_SYN,
    FLAGS,
    MISSING,
    OFFSET,
    PACKET,
    SEQ,
)
from kdissect.jit.decorators import jit_flat
from kdissect.jit.rows import array_of
from kdissect.jit.same_bytes import same_bytes
from kdissect.streams.carry.value_bytes import Value
from kdissect.streams.flow_state import DIFFERS, PROBES, REPEATS, State
from kdissect.streams.late_duplicates import earlier_copies
from kdissect.streams.payload_reader import read_ranges
from kdissect.streams.split_segments import IN_FILE, SplitSegments
from kdissect.streams.unread_payload import read_now

NEAR_SEGMENTS = 256
NEAR_PACKETS = 1 << 15
NEAR_BYTES = 32 << 20  # of the file: as much as is read again at most
UNREAD = -(1 << 62)
SEQUENCES = 1 << 16  # sequence numbers are looked up by their low bits: a few too many segments are chosen

# The columns of a segment that is compared. Its bytes lie at PLACE in the file. They lie at AT in the arena;
# if AT is negative, they lie at ~AT in the buffer of bytes that were read again.
STREAM, SEQUENCE, SIZE, NUMBER, PLACE, HOW, AT, COMPARED_FIELDS = range(8)


@jit_flat
def compare(rows: Int64s, arena: Bytes, again: Bytes, wanted: Bools, choosing: bool) -> None:
    """Mark rows with REPEATS that differ from a row before them (DIFFERS).

    Rows are sorted by stream, in the order of the capture. All rows that are `wanted` have been read.

    With `choosing` the loop compares nothing. It marks the rows that are `wanted` instead, because a row that
    differs is not compared with later ones, so all must be there before the first comparison.
    """
    for row in range(len(rows)):
        before = row if rows[row, HOW] & REPEATS and rows[row, AT] >= 0 else 0
        while before > max(0, row - NEAR_SEGMENTS) and rows[row, HOW] & DIFFERS == 0:
            before -= 1
            far = rows[row, NUMBER] - rows[before, NUMBER] > NEAR_PACKETS
            far = far or rows[row, PLACE] - rows[before, PLACE] > NEAR_BYTES
            if far or rows[before, STREAM] != rows[row, STREAM]:
                break
            ahead = (rows[row, SEQUENCE] - rows[before, SEQUENCE]) & 0xFFFFFFFF
            if ahead >= 0x80000000:
                ahead -= 0x100000000
            stop = min(rows[before, SIZE], ahead + rows[row, SIZE])
            if ahead >= stop or stop <= 0 or rows[before, HOW] & DIFFERS:
                continue
            at = rows[before, AT]
            if choosing:
                wanted[before] = wanted[row] = True
                continue
            first = max(0, ahead)
            here = rows[row, AT] + first - ahead
            if at >= 0:
                same = same_bytes(arena, here, arena, at + first, stop - first)
            else:
                same = same_bytes(arena, here, again, ~at + first, stop - first)
            if not same:
                rows[row, HOW] |= DIFFERS


@jit_flat
def choose_near(
    segments: Int64s,
    streams: Int64s,
    least: int,
    are_new: bool,
    left: NDArray[np.int16],
    sequences: Bools,
    chosen: Bools,
) -> None:
    """Mark in `chosen` the segments of a split that others which repeat bytes are compared with.

    `segments` has a row for each. Splits are passed from the last to the first: only the last one is new, and
    has segments to be judged. These are chosen, and the NEAR_SEGMENTS of their direction before each; `left`
    says how many of a direction are still to be chosen, -1 if nothing of it is judged. Segments that begin at
    the same of `sequences` are chosen, too. Packets with numbers below `least` are left out.
    """
    for row in range(len(segments) - 1, -1, -1):
        stream = streams[row]
        if left[stream] < 0 or segments[row, PACKET] & IN_FILE < least:
            continue
        flags = segments[row, FLAGS]
        if segments[row, CAPTURED] <= 0 or flags & (FLAG_RST | PROBES) != 0:
            continue
        if are_new and flags & REPEATS != 0:
            left[stream] = NEAR_SEGMENTS
            chosen[row] = True
        elif left[stream] > 0:
            left[stream] -= 1
            chosen[row] = True
        else:
            begins = segments[row, SEQ] + (flags & FLAG_SYN != 0)
            chosen[row] = sequences[begins & (SEQUENCES - 1)]


class _Near:
    """The choice of segments that some of a split are compared with: see `choose_near`."""

    def __init__(self, segments: Int64s, streams: Int64s, judged: Int64s, directions: int) -> None:
        self.left = np.full(directions, -1, np.int16)
        self.left[streams[judged]] = 0
        self._sequences = np.zeros(SEQUENCES, np.bool_)
        begins = segments[SEQ, judged] + (segments[FLAGS, judged] & FLAG_SYN != 0)
        self._sequences[begins & (SEQUENCES - 1)] = True
        self.here = self.choose(segments, streams, least=0, are_new=True)

    def choose(self, segments: Int64s, streams: Int64s, least: int, are_new: bool = False) -> Int64s:
        """Return the chosen segments of a split. Splits are passed from the last to the first."""
        chosen = np.zeros(len(streams), np.bool_)
        rows = np.ascontiguousarray(segments.T)
        choose_near(rows, streams, least, are_new, self.left, self._sequences, chosen)
        return np.flatnonzero(chosen)


@dataclass(slots=True)
class _Slab:
    """Segments of a split that were not made rows yet: hardly any split has one that repeats."""

    segments: Int64s
    streams: Int64s
    highest: int  # number of a packet
    last_place: int  # in the file
    least: int  # packets of lower numbers are not near any more

    def rows(self) -> Int64s:
        """Return its segments that are near as rows, their bytes unread."""
        late = np.flatnonzero(self.segments[PACKET] & IN_FILE >= self.least)
        return self._rows_of(late[_is_whole(self.segments, late)])

    def chosen_rows(self, near: _Near) -> Int64s:
        """Return those that are compared with some segments behind them."""
        return self._rows_of(near.choose(self.segments, self.streams, self.least))

    def _rows_of(self, which: Int64s) -> Int64s:
        return _rows(self.segments, self.streams, np.full(len(self.streams), UNREAD), which)


class Conflicts:
    """Compares segments, split by split."""

    def __init__(self) -> None:
        self._path = ""
        self._rows = np.empty((0, COMPARED_FIELDS), np.int64)
        self._slabs: list[_Slab] = []  # behind those rows

    def _seen(self) -> Int64s:
        """Return the segments of the file so far that are near, as rows."""
        if self._slabs:
            self._rows = np.concatenate([self._rows, *(slab.rows() for slab in self._slabs)])
            self._slabs = []
        return self._rows

    def _seen_near(self, near: _Near, number: int, place: int) -> Int64s:
        """Return the rows of `_seen` that segments from this packet on are compared with.

        Splits that are far at the beginning are left out, and no others: a row that is far ends the search
        for those before it. Half of the rows of mixed traffic lie in such splits.
        """

        def is_far(slab: _Slab) -> bool:
            return number - slab.highest > NEAR_PACKETS or place - slab.last_place > NEAR_BYTES

        slabs = list(dropwhile(is_far, self._slabs))
        rows = [slab.chosen_rows(near) for slab in reversed(slabs)]
        if len(slabs) == len(self._slabs):
            rows.append(self._rows[near.left[self._rows[:, STREAM]] >= 0])
        return np.concatenate([self._rows[:0], *reversed(rows)])

    def count(self, path: str, split: SplitSegments, repeats: bool, at_of: Int64s, state: State) -> None:
        """Count the conflicts and the duplicates of a split, which was processed, in the rows of `state`.

        `at_of` has the offset of each segment's payload in the arena, and `repeats` says whether one may
        bring bytes again.
        """
        segments, streams = split.table, split.directions
        if len(streams) == 0:
            return
        if path != self._path:
            self._path, self._rows, self._slabs = path, self._rows[:0], []
        if repeats:
            again = split.marked(REPEATS)
            again = again[_is_whole(segments, again)]
            if len(again):
                self._judge(again, segments, streams, at_of, state)
        least = split.last_packet - 2 * NEAR_PACKETS
        late = split.late(least)  # all segments of a split would be 10 MB in each worker
        slab = _Slab(segments.T[late].T, streams[late], split.last_packet, split.last_place, least)
        self._slabs.append(slab)
        self._let_go(least)

    def _judge(self, again: Int64s, segments: Int64s, streams: Int64s, at_of: Int64s, state: State) -> None:
        """Count which of the segments `again`, that repeat bytes, are duplicates, and which are conflicts."""
        connections, directions = array_of(state.connections), array_of(state.directions)
        near = _Near(segments, streams, again, len(directions))
        number, place = (segments[PACKET, again] & IN_FILE).min(), segments[OFFSET, again].min()
        seen = self._seen_near(near, int(number), int(place))
        rows = np.concatenate([seen, _rows(segments, streams, at_of, near.here)])
        copies = near.here[_copies(self._path, rows, len(seen))]
        np.subtract.at(directions["retransmitted"], streams[copies], 1)
        sizes = segments[CAPTURED, copies] + segments[MISSING, copies]
        np.subtract.at(directions["payload_bytes"], streams[copies], sizes)
        np.subtract.at(directions["cut_bytes"], streams[copies], segments[MISSING, copies])
        np.subtract.at(connections["packets"], streams[copies] >> 1, 1)
        np.add.at(connections["duplicates"], streams[copies] >> 1, 1)
        order = np.argsort(rows[:, STREAM], kind="stable")
        differs = np.empty(len(rows), np.bool_)
        differs[order] = _differs(self._path, rows[order], state)
        conflicts = near.here[differs[len(seen) :]]
        np.add.at(directions["conflicts"], streams[conflicts], 1)
        segments[FLAGS, conflicts] |= DIFFERS

    def _let_go(self, near: int) -> None:
        """Drop packets with numbers below `near`."""
        if len(self._rows):
            self._rows = self._rows[self._rows[:, NUMBER] >= near]
        for slab in self._slabs:
            slab.least = max(slab.least, near)
        self._slabs = [slab for slab in self._slabs if slab.highest >= slab.least]

    def forget(self, streams: Int64s) -> None:
        """Compare nothing with some directions any more."""
        self._rows = self._seen()[~np.isin(self._seen()[:, STREAM], streams)]

    def carried(self, streams: Int64s) -> Value:
        """Return what later segments of the same file are compared with, of some directions."""
        seen = self._seen()
        number_of = np.full(max(int(seen[:, STREAM].max(initial=-1)), int(streams.max(initial=-1))) + 1, -1)
        number_of[streams] = np.arange(len(streams))
        seen = seen[number_of[seen[:, STREAM]] >= 0]
        seen[:, STREAM] = number_of[seen[:, STREAM]]
        return {"path": self._path, "seen": seen}

    def resume(self, value: Value) -> None:
        """Go on with what `carried` returned."""
        self._path, self._rows, self._slabs = value["path"], value["seen"], []


def _is_whole(segments: Int64s, which: Int64s) -> Bools:
    """Return which of some segments have payload and are compared with others."""
    whole: Bools = (segments[CAPTURED, which] > 0) & (segments[FLAGS, which] & (FLAG_RST | PROBES) == 0)
    return whole


def _copies(path: str, rows: Int64s, seen: int) -> Bools:
    """Return which rows behind the first `seen` are copies of packets before them."""
    repeats = rows[:, HOW] & REPEATS != 0
    repeats[:seen] = False
    before = earlier_copies(path, rows[:, PLACE], rows[:, [STREAM, SEQUENCE, SIZE]], repeats)
    copies = repeats & (before >= 0)
    apart = (rows[copies] - rows[before[copies]])[:, [NUMBER, PLACE]]
    copies[copies] = (apart <= (NEAR_PACKETS, NEAR_BYTES)).all(axis=1)
    return copies[seen:]


def _differs(path: str, rows: Int64s, state: State) -> Bools:
    before = rows[:, HOW] & DIFFERS
    wanted = np.zeros(len(rows), np.bool_)
    arena = state.arena
    again = arena[:0]
    is_far = rows[:, AT] == UNREAD
    if is_far.any() or state.counters.unread > 0:
        compare(rows, arena, again, wanted, True)
        near = rows[wanted & ~is_far]
        read_now(state, near[:, AT], near[:, AT] + near[:, SIZE])
        far = np.flatnonzero(wanted & is_far)
        sizes = rows[far, SIZE]
        again = np.empty(int(sizes.sum()), np.uint8)
        read_ranges(path, rows[far, PLACE], rows[far, PLACE] + sizes, again, ahead=False)
        rows[far, AT] = ~(np.cumsum(sizes) - sizes)
    compare(rows, arena, again, wanted, False)
    return rows[:, HOW] & DIFFERS != before


def _rows(segments: Int64s, streams: Int64s, at_of: Int64s, which: Int64s) -> Int64s:
    rows = np.empty((len(which), COMPARED_FIELDS), np.int64)
    flags = segments[FLAGS, which]
    rows[:, STREAM] = streams[which]
    rows[:, SEQUENCE] = segments[SEQ, which] + (flags & FLAG_SYN != 0)
    rows[:, SIZE] = segments[CAPTURED, which]
    rows[:, NUMBER] = segments[PACKET, which] & IN_FILE
    rows[:, PLACE] = segments[OFFSET, which]
    rows[:, HOW] = flags
    rows[:, AT] = at_of[which]
    return rows
