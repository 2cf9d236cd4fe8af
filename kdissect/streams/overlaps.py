"""Segments that carry other bytes than were seen before at the same place of their stream.

Reassembly keeps the bytes that it saw first, and marks the segments that bring some of them again (REPEATS).
After each split `Conflicts.count` compares these with the segments before them. A segment that differs is a
conflict: a segment was damaged, someone interferes, or the capture is not what it seems. The bytes do not
show which copy the receiver took.

A segment is compared with the NEAR_SEGMENTS before it in its direction, as far as they are within
NEAR_PACKETS and NEAR_BYTES of the same file. So the outcome does not depend on where splits begin. A
keep-alive probe may carry any byte (RFC 9293, section 3.8.4), so it is never compared.

A segment that is the same packet as one that near, headers included, was captured twice. It counts as a
duplicate instead: see `late_duplicates`.
"""

from dataclasses import dataclass
from itertools import dropwhile

import numpy as np

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
from kdissect.streams.flow_state import DIFFERS, PACKET_BITS, PROBES, REPEATS, State
from kdissect.streams.late_duplicates import earlier_copies
from kdissect.streams.payload_reader import read_ranges

NEAR_SEGMENTS = 256
NEAR_PACKETS = 1 << 15
NEAR_BYTES = 32 << 20  # of the file: as much as is read again at most
UNREAD = -(1 << 62)
IN_FILE = (1 << PACKET_BITS) - 1  # the part of a packet's number that counts in its file

# The columns of a segment that is compared. Its bytes lie at PLACE in the file. They lie at AT in the arena;
# if AT is negative, they lie at ~AT in the buffer of bytes that were read again.
STREAM, SEQUENCE, SIZE, NUMBER, PLACE, HOW, AT, COMPARED_FIELDS = range(8)


@jit_flat
def compare(rows: Int64s, arena: Bytes, again: Bytes, wanted: Bools, choosing: bool) -> None:
    """Mark rows with REPEATS that differ from a row before them (DIFFERS).

    Rows are sorted by stream, in the order of the capture. All rows that are `wanted` have been read.

    With `choosing` the loop compares nothing. It marks the unread rows that are `wanted` instead, because a
    row that differs is not compared with later ones, so all must be there before the first comparison.
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
                wanted[before] = at == UNREAD
                continue
            first = max(0, ahead)
            here = rows[row, AT] + first - ahead
            if at >= 0:
                same = same_bytes(arena, here, arena, at + first, stop - first)
            else:
                same = same_bytes(arena, here, again, ~at + first, stop - first)
            if not same:
                rows[row, HOW] |= DIFFERS


@dataclass(slots=True)
class _Slab:
    """Segments of a split that were not made rows yet: hardly any split has one that repeats."""

    segments: Int64s
    streams: Int64s
    highest: int  # number of a packet
    last_place: int  # in the file
    least: int  # packets of lower numbers are not near any more

    def rows(self, touched: Bools | None = None) -> Int64s:
        """Return its segments that are near as rows, their bytes unread; only those of `touched` streams."""
        late = np.flatnonzero(self.segments[PACKET] & IN_FILE >= self.least)
        if touched is not None:
            late = late[touched[self.streams[late]]]
        late = late[_is_whole(self.segments, late)]
        return _rows(self.segments, self.streams, np.full(len(self.streams), UNREAD), late)


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

    def _seen_near(self, touched: Bools, number: int, place: int) -> Int64s:
        """Return the rows of `_seen` of some streams with which a segment of this packet may be compared.

        Splits that are far at the beginning are left out, and no others: a row that is far ends the search
        for those before it. Half of the rows of mixed traffic lie in such splits.
        """

        def is_far(slab: _Slab) -> bool:
            return number - slab.highest > NEAR_PACKETS or place - slab.last_place > NEAR_BYTES

        near = [slab.rows(touched) for slab in dropwhile(is_far, self._slabs)]
        if len(near) == len(self._slabs):
            near.insert(0, self._rows[touched[self._rows[:, STREAM]]])
        return np.concatenate([self._rows[:0], *near])

    def count(self, path: str, segments: Int64s, streams: Int64s, at_of: Int64s, state: State) -> None:
        """Count the conflicts and the duplicates of a split, which was processed, in the rows of `state`.

        `streams` has the direction of each segment, `at_of` the offset of its payload in the arena.
        """
        connections, directions = array_of(state.connections), array_of(state.directions)
        if segments.shape[1] == 0:
            return
        if path != self._path:
            self._path, self._rows, self._slabs = path, self._rows[:0], []
        flags = segments[FLAGS]
        again = np.flatnonzero(flags & REPEATS)  # none in most splits, so the other columns are left alone
        again = again[_is_whole(segments, again)]
        if len(again):
            whole = _is_whole(segments, np.arange(segments.shape[1]))
            touched = np.zeros(len(directions), np.bool_)
            touched[streams[again]] = True
            here = np.flatnonzero(whole & touched[streams])
            number, place = (segments[PACKET, again] & IN_FILE).min(), segments[OFFSET, again].min()
            seen = self._seen_near(touched, int(number), int(place))
            rows = np.concatenate([seen, _rows(segments, streams, at_of, here)])
            copies = here[_copies(path, rows)[len(rows) - len(here) :]]
            np.subtract.at(directions["retransmitted"], streams[copies], 1)
            np.subtract.at(
                directions["payload_bytes"],
                streams[copies],
                segments[CAPTURED, copies] + segments[MISSING, copies],
            )
            np.subtract.at(directions["cut_bytes"], streams[copies], segments[MISSING, copies])
            np.subtract.at(connections["packets"], streams[copies] >> 1, 1)
            np.add.at(connections["duplicates"], streams[copies] >> 1, 1)
            order = np.argsort(rows[:, STREAM], kind="stable")
            differs = np.empty(len(rows), np.bool_)
            differs[order] = _differs(path, rows[order], state.arena)
            conflicts = here[differs[len(rows) - len(here) :]]
            np.add.at(directions["conflicts"], streams[conflicts], 1)
            flags[conflicts] |= DIFFERS
        # The numbers of fragments that waited are lower than those before them.
        numbers = segments[PACKET] & IN_FILE
        highest = int(numbers.max())
        least = highest - 2 * NEAR_PACKETS
        late = np.flatnonzero(numbers >= least)  # all segments of a split would be 10 MB in each worker
        last_place = int(segments[OFFSET].max())
        self._slabs.append(_Slab(segments[:, late], streams[late], highest, last_place, least))
        self._let_go(least)

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


def _copies(path: str, rows: Int64s) -> Bools:
    repeats = rows[:, HOW] & REPEATS != 0
    before = earlier_copies(path, rows[:, PLACE], rows[:, [STREAM, SEQUENCE, SIZE]], repeats)
    copies = repeats & (before >= 0)
    apart = (rows[copies] - rows[before[copies]])[:, [NUMBER, PLACE]]
    copies[copies] = (apart <= (NEAR_PACKETS, NEAR_BYTES)).all(axis=1)
    return copies


def _differs(path: str, rows: Int64s, arena: Bytes) -> Bools:
    before = rows[:, HOW] & DIFFERS
    wanted = np.zeros(len(rows), np.bool_)
    again = arena[:0]
    if (rows[:, AT] == UNREAD).any():
        compare(rows, arena, again, wanted, True)
        sizes = rows[wanted, SIZE]
        again = np.empty(int(sizes.sum()), np.uint8)
        read_ranges(path, rows[wanted, PLACE], rows[wanted, PLACE] + sizes, again, ahead=False)
        rows[wanted, AT] = ~(np.cumsum(sizes) - sizes)
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
