"""Places of frame bytes in the capture, if one packet has all of them.

In: the pieces of one split (rows of `segment_index.PIECES`), and frames of which the packet with the first
byte and the position in the stream are known. Out: an offset in the capture file for each, or NO_PLACE. The
offset is what sequence numbers say, so whoever uses it compares the bytes: overlapping segments may have
brought others.
"""

import mmap
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kdissect.array_types import Bytes, Int64s
from kdissect.capture.index.splits import Split
from kdissect.capture.segment_index import (
    CAPTURED,
    FLAG_ACK_ONLY,
    FLAGS,
    OFFSET,
    PACKET,
    SEQ,
    unpack,
)
from kdissect.jit.rows import Records
from kdissect.streams.flow_state import PACKET_BITS

NO_PLACE = -1
PREFIX_BYTES = 4  # the length of a frame
TOGETHER_BYTES, BYTES_AT_ONCE = 4096, 1 << 20  # frames up to this size are compared together, so many bytes
SEQUENCE_MASK = 0xFFFFFFFF


class FramePlaces:
    """The places of the packets of one split."""

    def __init__(self, pieces: pa.RecordBatch, splits: Sequence[Split]) -> None:
        """`pieces` are all pieces of one of the splits."""
        columns = unpack(pieces["segments"], pieces["count"].to_numpy())
        columns = columns[:, (columns[FLAGS] & FLAG_ACK_ONLY == 0) & (columns[CAPTURED] > 0)]
        self._columns = columns[:, np.argsort(columns[PACKET], kind="stable")]
        self._split = int(pieces["split"][0].as_py()) if len(pieces) else -1
        self._first_packet = splits[self._split].first_packet if len(pieces) else 0

    def offsets(self, frames: Records, first_sequences: Int64s) -> Int64s:
        """Return where frames begin behind their length, in the capture file of the split.

        `frames` are rows of `FrameRow`; `first_sequences` are the sequence numbers with which their streams
        begin.
        """
        found = np.full(len(frames), NO_PLACE, np.int64)
        packets = self._columns[PACKET]
        if not len(packets):
            return found
        numbers = (frames["packet"] & ((1 << PACKET_BITS) - 1)) - self._first_packet
        row = np.minimum(np.searchsorted(packets, numbers), len(packets) - 1)
        inside = (frames["position"] + first_sequences - self._columns[SEQ][row]) & SEQUENCE_MASK
        size = frames["stop"] - frames["start"]
        here = (frames["packet"] >> PACKET_BITS == self._split) & (packets[row] == numbers)
        here &= inside + PREFIX_BYTES + size <= self._columns[CAPTURED][row]
        found[here] = (self._columns[OFFSET][row] + inside + PREFIX_BYTES)[here]
        return found


def equal_bytes(
    one: Bytes, starts: Int64s, other: mmap.mmap, offsets: Int64s, sizes: Int64s
) -> NDArray[np.bool_]:
    """Return which ranges of two buffers, which begin at `starts` and `offsets`, have the same bytes."""
    equal: NDArray[np.bool_] = offsets + sizes <= len(other)
    for row in np.flatnonzero(equal & (sizes > TOGETHER_BYTES)).tolist():
        size = int(sizes[row])
        here = one[starts[row] : starts[row] + size].tobytes()
        equal[row] = other[offsets[row] : offsets[row] + size] == here
    rows = np.flatnonzero(equal & (sizes <= TOGETHER_BYTES))
    data = np.frombuffer(other, np.uint8)
    for some in np.split(rows, np.flatnonzero(np.diff(np.cumsum(sizes[rows]) // BYTES_AT_ONCE)) + 1):
        differs = one[ranges(starts[some], sizes[some])] != data[ranges(offsets[some], sizes[some])]
        if differs.any():
            equal[np.repeat(some, sizes[some])[differs]] = False
    return equal


def ranges(starts: Int64s, counts: Int64s) -> Int64s:
    """Return the numbers of some ranges, one range after the other."""
    ends = np.cumsum(counts)
    numbers: Int64s = np.repeat(starts - (ends - counts), counts) + np.arange(int(counts.sum()))
    return numbers
