"""Payload on demand: pass two reads from a capture only the bytes that its segments point to.

Descriptors say where payload lies. A task that needs much of a split takes small segments out of windows of
the file (see `payload_windows`). Large segments, and those of one of ten tasks, which are scattered, are read
in the order of the file, and each is put behind the one before in its stream (see `ordered_reads`). A few
segments are read range by range, with the holes that are cheaper to read than to skip. Nothing is mapped:
resident memory stays at the size of the buffer.
"""

import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kdissect.array_types import Bools, Bytes, Int64s
from kdissect.capture.segment_index import CAPTURED, OFFSET, SEGMENT_COLUMNS
from kdissect.capture.storage import open_storage
from kdissect.jit.decorators import jit_flat
from kdissect.jit.many_rows import MANY_ROWS, read_only
from kdissect.jit.rows import COMPILED
from kdissect.jit.unread_bytes import read_whole
from kdissect.streams.ordered_reads import read_in_order
from kdissect.streams.payload_windows import SHORTER, UNORDERED, take_from_windows
from kdissect.streams.split_segments import SplitSegments
from kdissect.streams.unread_payload import LEAST, CaptureChanged, UnreadPayload

# Bytes: to read a hole up to this size costs less than another system call.
READ_THROUGH = 2 << 10

# Ranges from which on a compiled loop reads them; bytes of holes that the system reads ahead together with
# what is wanted. Else a disk would be asked for every range on its own.
MANY_RANGES = 32
AHEAD = 64 << 10


LARGE = 4 << 10  # bytes: segments of this size, on average, are worth a system call each
MEDIUM = 1 << 10  # bytes: segments of this size, on average, are put in the order of their streams
MOSTLY = 0.5  # of a split is in large segments, or all is read: of smaller batches little could be left out
DENSE = 8  # segments that take an eighth of their part of the file, or more, are taken from windows of it


class Later(NamedTuple):
    """Payload that is read when somebody looks at it; large segments of which directions may be, if asked."""

    payload: UnreadPayload
    directions: Callable[[], Bools]


Room = Callable[[int], tuple[Bytes, int]]
"""Room for a number of bytes in a larger array, and its offset there."""


def read_payload(path: str, segments: SplitSegments, room: Room, later: Later | None = None) -> Int64s:
    """Read the payload of segments into what `room` returns, apart from what is read `later`.

    Return the offset of each segment's bytes in the array of `room`. Raise CaptureChanged when the file is
    shorter by now.
    """
    taken = _read_compiled(path, segments, room, later)
    if taken is not None:
        return taken
    table = segments.table
    starts, stops, positions = plan(table[OFFSET], table[CAPTURED], segments.directions)
    out, offset = room(int((stops - starts).sum()))
    read_ranges(path, starts, stops, out)
    return positions + offset


def _read_compiled(path: str, segments: SplitSegments, room: Room, later: Later | None) -> Int64s | None:
    """Return what `read_payload` does, None if no compiled loop is for these segments."""
    wanted, filled = segments.payload_bytes, segments.filled
    are_long = filled >= MANY_RANGES and wanted >= MEDIUM * filled
    if not COMPILED or not (are_long or filled >= MANY_ROWS):
        return None
    with open_storage(path) as source:
        if source.descriptor is None:
            return None
        is_scattered = _spread(segments) >= DENSE * wanted
        if are_long or is_scattered:
            return _read_in_order(source.descriptor, path, segments, is_scattered, room, later)
        out, offset = room(wanted)
        taken, positions = take_from_windows(source.descriptor, segments.table, segments.counts, out)
    if taken == SHORTER:
        raise CaptureChanged(f"{path} became shorter while it was read")
    return None if taken == UNORDERED else positions + offset


def _read_in_order(
    descriptor: int, path: str, segments: SplitSegments, is_scattered: bool, room: Room, later: Later | None
) -> Int64s:
    offsets, lengths = segments.table[OFFSET], segments.table[CAPTURED]
    rows = np.flatnonzero(lengths)
    _, _, positions = _by_stream(offsets, lengths, segments.directions, rows)
    out, offset = room(segments.payload_bytes)
    if later is not None:
        waits = (lengths[rows] >= LEAST) & later.directions()[segments.directions[rows]]
        unread = rows[waits]
        if lengths[unread].sum() > MOSTLY * segments.payload_bytes:
            rows = rows[~waits]
            later.payload.add(path, descriptor, positions[unread] + offset, lengths[unread], offsets[unread])
    if len(rows) and is_scattered:
        read_ahead(descriptor, offsets[rows], offsets[rows] + lengths[rows])
    if not read_in_order(descriptor, offsets, lengths, positions, rows, out):
        raise CaptureChanged(f"{path} became shorter while it was read")
    return positions + offset


def _are_large(wanted: int, filled: int) -> bool:
    return wanted >= LARGE * filled


def _spread(segments: SplitSegments) -> int:
    """Return the length of the part of the file that has the segments, which ascend in each piece."""
    stops = np.cumsum(segments.counts)[segments.counts > 0]
    firsts = np.append(0, stops[:-1])
    return int(segments.table[OFFSET, stops - 1].max() - segments.table[OFFSET, firsts].min())


def plan(offsets: Int64s, lengths: Int64s, streams: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return (starts, stops, positions).

    File ranges to read, and for each segment where its bytes will lie in them.

    `streams` numbers the direction of a connection that each segment belongs to. The ranges are read one
    behind another into one buffer; `positions` count from its beginning. Segments without payload get
    position 0.
    """
    filled = np.flatnonzero(lengths)
    if len(filled) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.zeros(len(offsets), np.int64)
    if _are_large(int(lengths.sum()), len(filled)):
        return _by_stream(offsets, lengths, streams, filled)
    return _by_place(offsets, lengths, filled)


def _by_stream(
    offsets: Int64s, lengths: Int64s, streams: Int64s, filled: Int64s
) -> tuple[Int64s, Int64s, Int64s]:
    positions = np.zeros(len(offsets), np.int64)
    order = filled[np.argsort(streams[filled], kind="stable")]
    starts, sizes = offsets[order], lengths[order]
    positions[order] = np.cumsum(sizes) - sizes
    return starts, starts + sizes, positions


def _by_place(offsets: Int64s, lengths: Int64s, filled: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    positions = np.zeros(len(offsets), np.int64)
    order = filled[np.argsort(offsets[filled], kind="stable")]
    begin = offsets[order]
    end = np.maximum.accumulate(begin + lengths[order])
    first, starts, stops = _joined(begin, end, READ_THROUGH)
    bases = np.concatenate(([0], np.cumsum(stops - starts)[:-1]))
    of_range = np.repeat(np.arange(len(first)), np.diff(np.concatenate((first, [len(order)]))))
    positions[order] = bases[of_range] + begin - starts[of_range]
    return starts, stops, positions


def _joined(begin: Int64s, end: Int64s, hole: int) -> tuple[Int64s, Int64s, Int64s]:
    """Join ranges with holes of at most `hole` bytes between them.

    `begin` ascends, and `end` is the highest end so far. Return the first range of each joined one, and where
    that starts and stops.
    """
    first = np.flatnonzero(np.concatenate(([True], begin[1:] > end[:-1] + hole)))
    return first, begin[first], end[np.append(first[1:], len(end)) - 1]


def read_ranges(path: str, starts: Int64s, stops: Int64s, out: Bytes, ahead: bool = True) -> None:
    """Read the file's ranges one behind another into `out`.

    Raise CaptureChanged when the file is shorter by now. With `ahead`, the system is told before what will be
    read. That takes as long as reading a small range, and what was read a moment ago needs none of it.
    """
    view = memoryview(out.data)
    done = at = 0
    with open_storage(path) as source:
        if COMPILED and source.descriptor is not None and len(starts) >= MANY_RANGES:
            if ahead:
                read_ahead(source.descriptor, starts, stops)
            done, at = read_each(source.descriptor, read_only(starts), read_only(stops), out)
        for start, stop in zip(starts[done:].tolist(), stops[done:].tolist(), strict=True):
            end = at + stop - start
            while at < end:
                got = source.read_into(view[at:end], start)
                if got <= 0:
                    raise CaptureChanged(f"{path} became shorter while it was read")
                at += got
                start += got


@jit_flat
def read_each(descriptor: int, starts: Int64s, stops: Int64s, out: Bytes) -> tuple[int, int]:
    """Read ranges one behind another into `out`, up to the first that cannot be read in full.

    Return how many were read, and their bytes.
    """
    at = 0
    for row in range(len(starts)):
        size = stops[row] - starts[row]
        if not read_whole(descriptor, out, at, size, starts[row]):
            return row, at
        at += size
    return len(starts), at


def read_ahead(descriptor: int, starts: Int64s, stops: Int64s) -> None:
    """Announce to the system what will be read, as far as that is scattered over parts of the file."""
    if not hasattr(os, "posix_fadvise"):
        return
    order = np.argsort(starts, kind="stable")
    _, begin, end = _joined(starts[order], np.maximum.accumulate(stops[order]), AHEAD)
    for start, stop in zip(begin.tolist(), end.tolist(), strict=True):
        os.posix_fadvise(descriptor, start, stop - start, os.POSIX_FADV_WILLNEED)


def call_all() -> None:
    """Call every loop once, so that it is compiled and kept."""
    nothing, out = read_only(np.empty(0, np.int64)), np.empty(1, np.uint8)
    read_each(-1, nothing, nothing, out)
    read_in_order(-1, nothing, nothing, nothing, nothing, out)
    take_from_windows(-1, np.zeros((SEGMENT_COLUMNS, 2), np.int64, order="F"), np.full(1, 2), out)
