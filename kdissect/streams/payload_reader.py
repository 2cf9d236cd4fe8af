"""Payload on demand: pass two reads from a capture only the bytes that its segments point to.

Descriptors say where payload lies. Small segments are read together with their neighbours in the file when
the hole between them is cheaper to read than to skip: a task that needs most of a split reads it in one go,
and one of twenty tasks, each with some of 100,000 connections, makes a call for each exchange. Large segments
are read one by one, each behind the one before it in its stream: a frame of many segments then lies in one
place without being copied again. Nothing is mapped: resident memory stays at the size of the
buffer.
"""

import os

import numpy as np

from kdissect.array_types import Bytes, Int64s
from kdissect.capture.storage import open_storage
from kdissect.jit.decorators import jit_flat, read_file
from kdissect.jit.many_rows import are_many, read_only
from kdissect.jit.rows import COMPILED

# Bytes: to read a hole up to this size costs less than another system call.
READ_THROUGH = 2 << 10

# Ranges from which on a compiled loop reads them; bytes of holes that the system reads ahead together with
# what is wanted. Else a disk would be asked for every range on its own.
MANY_RANGES = 32
AHEAD = 64 << 10


class CaptureChanged(Exception):
    """The capture file no longer holds what pass one saw in it."""


LARGE = 4 << 10  # bytes: segments of this size, on average, are worth a system call each
BLOCK = 4 << 10  # bytes
MOST_BLOCKS = 1 << 15  # of the segments of a split that are planned together
DENSE = 8  # segments that are this thin in their part of the file leave hardly a block unused


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
    wanted, spread = int(lengths.sum()), int(np.ptp(offsets[filled]))
    if wanted >= LARGE * len(filled):
        return _by_stream(offsets, lengths, streams, filled)
    if are_many(len(filled)) and spread < min(MOST_BLOCKS * BLOCK, DENSE * wanted):
        return _by_block(offsets, lengths)
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


def _by_block(offsets: Int64s, lengths: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return what `_by_place` does, without sorting: ranges are whole blocks, but for the first and last."""
    offsets, lengths = read_only(offsets), read_only(lengths)
    blocks = np.zeros(MOST_BLOCKS + int(lengths.max()) // BLOCK + 2, np.int64)
    lowest, highest = mark_blocks(offsets, lengths, blocks)
    used = np.flatnonzero(blocks)
    last = np.flatnonzero(np.diff(used) > 1 + READ_THROUGH // BLOCK)
    first_blocks, last_blocks = used[np.append(0, last + 1)], used[np.append(last, -1)]
    starts = lowest + first_blocks * BLOCK
    stops = np.minimum(lowest + (last_blocks + 1) * BLOCK, highest)
    bases = np.cumsum(stops - starts) - (stops - starts)
    for first, stop, shift in zip(first_blocks, last_blocks + 1, bases - starts, strict=True):
        blocks[first:stop] = shift
    positions = np.empty(len(offsets), np.int64)
    place_in_blocks(offsets, lengths, lowest, blocks, positions)
    return starts, stops, positions


@jit_flat
def mark_blocks(offsets: Int64s, lengths: Int64s, blocks: Int64s) -> tuple[int, int]:
    """Mark the blocks with bytes of segments, counted from the lowest offset with payload.

    Return that offset, and the one behind the last byte.
    """
    lowest, highest = np.int64(1 << 62), np.int64(0)
    for row in range(len(offsets)):
        if lengths[row] > 0:
            lowest = min(lowest, offsets[row])
            highest = max(highest, offsets[row] + lengths[row])
    for row in range(len(offsets)):
        if lengths[row] > 0:
            begin = offsets[row] - lowest
            for block in range(begin // BLOCK, (begin + lengths[row] - 1) // BLOCK + 1):
                blocks[block] = 1
    return int(lowest), int(highest)


@jit_flat
def place_in_blocks(offsets: Int64s, lengths: Int64s, lowest: int, shifts: Int64s, positions: Int64s) -> None:
    """Fill `positions` with offsets and the shift of their block, or with 0 for segments without payload."""
    for row in range(len(offsets)):
        positions[row] = 0
        if lengths[row] > 0:
            positions[row] = offsets[row] + shifts[(offsets[row] - lowest) // BLOCK]


def read_ranges(path: str, starts: Int64s, stops: Int64s, out: Bytes) -> None:
    """Read the file's ranges one behind another into `out`.

    Raise CaptureChanged when the file is shorter by now.
    """
    view = memoryview(out.data)
    done = at = 0
    with open_storage(path) as source:
        if COMPILED and source.descriptor is not None and len(starts) >= MANY_RANGES:
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
        got = 0
        while got < size:
            more = read_file(descriptor, out, at + got, size - got, starts[row] + got)
            if more <= 0:
                return row, at
            got += more
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
    offsets, lengths = np.arange(2), np.ones(2, np.int64)
    _by_block(offsets, lengths)
    nothing = read_only(offsets[:0])
    read_each(-1, nothing, nothing, np.empty(1, np.uint8))
