"""Small segments are taken out of windows of the file, so that the arena holds payload and nothing between.

A task has some of the connections of a split. The packets of others and all headers lie between its own, and
holes that small cost less to read than to skip. Reading them into the arena took 32 MB of each worker, of
which 8 were payload. A window stays in the processor's cache while payload is taken out of it, and the
payload of a connection lies close together afterwards. An exchange of a million small ones, in one of two
tasks, took 582 to 599 ns up to its pairing, and takes 520 to 552.
"""

import numpy as np

from kdissect.array_types import Bytes, Int64s
from kdissect.capture.segment_index import CAPTURED, OFFSET
from kdissect.jit.decorators import copy_bytes, jit_flat, jit_inner
from kdissect.jit.many_rows import read_only
from kdissect.jit.unread_bytes import read_whole

WINDOW, LARGEST_WINDOW = 64 << 10, 1 << 20  # bytes
WINDOW_OF_PIECE = 1 << 10  # bytes: each window looks at all pieces, so many pieces need larger ones
SHORTER, UNORDERED = -1, -2


def take_from_windows(descriptor: int, segments: Int64s, counts: Int64s, out: Bytes) -> tuple[int, Int64s]:
    """Read the payload of segments into `out`, which has room for just that.

    The segments of piece i, the next counts[i] columns, ascend in the file. Return the number of bytes read
    and the position of each segment in `out`. Instead of the number it is `SHORTER` if the file ends before
    a segment, or `UNORDERED` if segments do not ascend.
    """
    stops = np.cumsum(counts)
    window = np.empty(min(max(WINDOW, WINDOW_OF_PIECE * len(counts)), LARGEST_WINDOW), np.uint8)
    positions = np.zeros(segments.shape[1], np.int64)
    taken = take_each(descriptor, segments, stops - counts, read_only(stops), window, out, positions)
    return taken, positions


@jit_flat
def take_each(
    descriptor: int,
    segments: Int64s,
    following: Int64s,
    stops: Int64s,
    window: Bytes,
    out: Bytes,
    positions: Int64s,
) -> int:
    """Do what `take_from_windows` says. `following` has the next segment of each piece, and moves on."""
    at = 0
    while True:
        begin, end = _window_edges(segments, following, stops, len(window))
        if end == begin:
            return at
        size = min(end - begin, len(window))
        if not read_whole(descriptor, window, 0, size, begin):
            return SHORTER
        for piece in range(len(stops)):
            row = following[piece]
            while row < stops[piece] and (
                segments[CAPTURED, row] <= 0 or segments[OFFSET, row] < begin + len(window)
            ):
                offset, length = segments[OFFSET, row], segments[CAPTURED, row]
                if length > 0:
                    if offset < begin:
                        return UNORDERED
                    if offset + length <= begin + size:
                        copy_bytes(window, offset - begin, out, at, length)
                    elif not read_whole(descriptor, out, at, length, offset):
                        return SHORTER
                    positions[row] = at
                    at += length
                row += 1
            following[piece] = row


@jit_inner
def _window_edges(segments: Int64s, following: Int64s, stops: Int64s, reach: int) -> tuple[int, int]:
    """Return where the bytes of the next window begin and end, which is the same place if none are left."""
    begin = np.int64(1 << 62)
    for piece in range(len(stops)):
        while following[piece] < stops[piece] and segments[CAPTURED, following[piece]] <= 0:
            following[piece] += 1
        if following[piece] < stops[piece]:
            begin = min(begin, segments[OFFSET, following[piece]])
    end = begin
    for piece in range(len(stops)):
        row = following[piece]
        while row < stops[piece] and segments[OFFSET, row] < begin + reach:
            if segments[CAPTURED, row] > 0:
                end = max(end, segments[OFFSET, row] + segments[CAPTURED, row])
            row += 1
    return int(begin), int(end)
