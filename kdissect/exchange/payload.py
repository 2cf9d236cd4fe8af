"""Payload on demand: pass two reads from a capture only the bytes that its segments point to.

Descriptors say where payload lies. Neighbouring ranges are read together when the hole between them is cheaper to read
than to seek over; a task that needs most of a split reads it in one go. Nothing is mapped: resident memory stays at the size
of the buffer.
"""

import os

import numpy as np

from kdissect.exchange.state import Bytes, Int64s

READ_THROUGH = (
    32 << 10
)  # bytes: a hole up to this size costs less than another system call and a lost read-ahead


class CaptureChanged(Exception):
    """The capture file no longer holds what pass one saw in it."""


def plan(offsets: Int64s, lengths: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Give (starts, stops, positions): file ranges to read, and for each segment where its bytes will lie in them.

    The ranges are read one behind another into one buffer; `positions` count from its beginning. Segments without payload
    get position 0.
    """
    positions = np.zeros(len(offsets), np.int64)
    filled = np.flatnonzero(lengths)
    if len(filled) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64), positions
    order = filled[np.argsort(offsets[filled], kind="stable")]
    begin = offsets[order]
    end = np.maximum.accumulate(begin + lengths[order])
    first = np.flatnonzero(np.concatenate(([True], begin[1:] > end[:-1] + READ_THROUGH)))
    starts = begin[first]
    stops = end[np.concatenate((first[1:] - 1, [len(end) - 1]))]
    bases = np.concatenate(([0], np.cumsum(stops - starts)[:-1]))
    of_range = np.repeat(np.arange(len(first)), np.diff(np.concatenate((first, [len(order)]))))
    positions[order] = bases[of_range] + begin - starts[of_range]
    return starts, stops, positions


def read_ranges(path: str, starts: Int64s, stops: Int64s, out: Bytes) -> None:
    """Read the file's ranges one behind another into `out`. Raises CaptureChanged when the file is shorter by now."""
    view = memoryview(out.data)
    at = 0
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            end = at + stop - start
            while at < end:
                got = os.preadv(descriptor, [view[at:end]], start)
                if got <= 0:
                    raise CaptureChanged(f"{path} became shorter while it was read")
                at += got
                start += got
    finally:
        os.close(descriptor)
