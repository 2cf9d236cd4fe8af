"""Hop from packet record to packet record through a capture file, reading it in chunks of bounded size.

The kernels of `pcap` and `pcapng` know how records are laid out; both fill the same record table, so that nobody behind
them needs to care. A `RecordReader` keeps the place, reads the next chunk when a kernel asks for more, and passes over packet
bytes that nobody wants: only the first `head` bytes of each packet are sure to be in the buffer. What comes out does not
depend on the chunk size.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdissect.capture.formats import (
    pcap,
    pcapng,
    record_table,
)
from kdissect.capture.formats.record_table import (
    CLOCK_NS,
    COUNT,
    OUTCOME,
    POSITION,
    RECORD_COLUMNS,
    WALK_FIELDS,
)
from kdissect.capture.index.splits import CaptureFormat
from kdissect.capture.storage import CaptureStorage

Int64s = NDArray[np.int64]

CHUNK_BYTES = 1 << 20  # large enough to make calls rare, small enough to stay in the processor's cache
SMALLEST_CHUNK = 64  # any record header fits
BYTES_PER_RECORD = 64  # the record table has room for a chunk of such records


class RecordLayout(NamedTuple):
    """How to read records: what a split says of its bytes, the interfaces as `splits.interface_table` gives them."""

    format: CaptureFormat
    big_endian: bool
    record_header: int
    interfaces: Int64s


class RecordReader:
    """A place in a capture file between `start` and `stop`, with the buffer and the records found from there on.

    Records that begin at `limit` or later are not passed; without one, all before `stop` are.
    """

    def __init__(
        self,
        source: CaptureStorage,
        start: int,
        stop: int,
        head: int = 0,
        chunk_bytes: int = CHUNK_BYTES,
        clock_ns: int = 0,
        limit: int | None = None,
    ) -> None:
        self._source, self._stop, self._head = source, stop, head
        self._limit = stop if limit is None else limit
        self.buffer = np.empty(max(chunk_bytes, head + SMALLEST_CHUNK), dtype=np.uint8)
        self.base = start  # file offset of buffer[0]
        self._filled = 0
        self._table = np.empty(
            (max(16, len(self.buffer) // BYTES_PER_RECORD), RECORD_COLUMNS), dtype=np.int64
        )
        self._state = np.zeros(WALK_FIELDS, dtype=np.int64)
        self._state[POSITION], self._state[OUTCOME], self._state[CLOCK_NS] = start, ReadOutcome.MORE, clock_ns

    @property
    def position(self) -> int:
        """File offset of the first byte that is not passed."""
        return int(self._state[POSITION])

    @property
    def clock_ns(self) -> int:
        """Time of the last packet passed."""
        return int(self._state[CLOCK_NS])

    @property
    def room(self) -> int:
        """Most records that one `advance` finds."""
        return len(self._table)

    @property
    def records(self) -> Int64s:
        """What the last `advance` found: rows of START … LINK_TYPE, their packet bytes in `buffer` from `base`."""
        return self._table[: self._state[COUNT]]

    def skip_to(self, position: int) -> None:
        """Go on from there, after a block that was looked at."""
        self._state[POSITION] = position

    def advance(self, layout: RecordLayout, look: bool = False) -> "ReadOutcome":
        """Find the next records and give why it stopped. With `look`, stop at blocks that describe others."""
        refilled = self._state[OUTCOME] == ReadOutcome.MORE
        if refilled:
            self._refill()
        kernel, extent = _KERNELS[layout.format], self.buffer[: self._filled]
        options = layout.record_header if layout.format is CaptureFormat.PCAP else int(look)
        kernel(
            extent,
            self.base,
            self._stop,
            self._limit,
            self._head,
            layout.big_endian,
            options,
            layout.interfaces,
            self._table,
            self._state,
        )
        outcome = ReadOutcome(self._state[OUTCOME])
        if outcome is ReadOutcome.MORE and refilled and self.position == self.base:
            return ReadOutcome.CUT  # a full chunk was not enough: the file has become shorter
        return outcome

    def _refill(self) -> None:
        self.base = self.position
        last = min(self._stop, self._limit + self._head + SMALLEST_CHUNK)
        wanted = max(0, min(len(self.buffer), last - self.base))
        self._filled = 0
        while self._filled < wanted:
            room = memoryview(self.buffer)[self._filled : wanted]  # type: ignore[arg-type]
            got = self._source.read_into(room, self.base + self._filled)
            if got == 0:
                return
            self._filled += got


class ReadOutcome(IntEnum):
    """Why a walk stopped."""

    END = record_table.END  # nothing is left
    MORE = record_table.MORE  # the buffer is used up
    FULL = record_table.FULL  # the record table is
    CUT = record_table.CUT  # the file ends within a record
    DAMAGED = record_table.DAMAGED  # what should be a record header is none
    BLOCK = record_table.BLOCK  # a pcapng block that says how to read what follows


_KERNELS = {CaptureFormat.PCAP: pcap.read_records, CaptureFormat.PCAPNG: pcapng.read_blocks}
