"""Read the packet records of a capture file in chunks of bounded size.

The kernels of `pcap` and `pcapng` know the layout of records; both fill the same record table. A
`RecordReader` keeps the position, reads the next chunk when a kernel needs more, and skips unneeded packet
bytes: only the first `head` bytes of each packet are sure to be in the buffer. Results do not depend on the
chunk size.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from kdissect.array_types import Int64s
from kdissect.capture.formats import (
    pcap,
    pcapng,
    record_table,
)
from kdissect.capture.formats.head_reads import LARGE_RECORDS, fill_heads, skips_pay
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
from kdissect.jit.rows import COMPILED

CHUNK_BYTES = 1 << 20  # large enough to make calls rare, small enough to stay in the processor's cache
SMALLEST_CHUNK = 64  # any record header fits
BYTES_PER_RECORD = 64  # the record table has room for a chunk of such records


class RecordLayout(NamedTuple):
    """How records are laid out: format, byte order, and interfaces as from `splits.interface_table`."""

    format: CaptureFormat
    big_endian: bool
    record_header: int
    interfaces: Int64s


class RecordReader:
    """A position in a capture file between `start` and `stop`, with a buffer and the records from there on.

    Records that begin at `limit` or later are not read; without a limit, all before `stop` are.
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
        """File offset of the first byte that was not read."""
        return int(self._state[POSITION])

    @property
    def clock_ns(self) -> int:
        """Time of the last packet, in nanoseconds."""
        return int(self._state[CLOCK_NS])

    @property
    def room(self) -> int:
        """The most records that one `advance` returns."""
        return len(self._table)

    @property
    def records(self) -> Int64s:
        """The records of the last `advance`.

        Rows of START … LINK_TYPE, with packet bytes in `buffer` from `base` on.
        """
        return self._table[: self._state[COUNT]]

    def skip_to(self, position: int) -> None:
        """Continue at a position, behind a block that was read."""
        self._state[POSITION] = position

    def advance(self, layout: RecordLayout, look: bool = False) -> "ReadOutcome":
        """Read the next records and return why reading stopped.

        With `look`, reading also stops at blocks that describe others.
        """
        refilled = self._state[OUTCOME] == ReadOutcome.MORE
        if refilled:
            self._refill(layout)
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

    def _refill(self, layout: RecordLayout) -> None:
        only_heads = layout.format is CaptureFormat.PCAP and self._has_large_records()
        self.base = self.position
        last = min(self._stop, self._limit + self._head + SMALLEST_CHUNK)
        wanted = max(0, min(len(self.buffer), last - self.base))
        self._filled = 0
        descriptor = self._source.descriptor
        if only_heads and descriptor is not None and skips_pay(descriptor, self.base, last):
            place = (descriptor, self.base, self.buffer, wanted)
            self._filled = fill_heads(*place, layout.record_header, self._head, layout.big_endian)
            return
        while self._filled < wanted:
            room = memoryview(self.buffer)[self._filled : wanted]  # type: ignore[arg-type]
            got = self._source.read_into(room, self.base + self._filled)
            if got == 0:
                return
            self._filled += got

    def _has_large_records(self) -> bool:
        """Return whether the records of the last `advance` are so large that parts of some may be skipped."""
        count = int(self._state[COUNT])
        return COMPILED and count > 0 and self.position - self.base >= LARGE_RECORDS * count


class ReadOutcome(IntEnum):
    """Why reading stopped."""

    END = record_table.END  # no record is left
    MORE = record_table.MORE  # the buffer is used up
    FULL = record_table.FULL  # the record table is full
    CUT = record_table.CUT  # the file ends within a record
    DAMAGED = record_table.DAMAGED  # there is no valid record header
    BLOCK = record_table.BLOCK  # a pcapng block that describes the following ones


_KERNELS = {CaptureFormat.PCAP: pcap.read_records, CaptureFormat.PCAPNG: pcapng.read_blocks}
