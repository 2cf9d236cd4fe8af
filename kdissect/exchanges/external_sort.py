"""Exact order for entries that come almost in order, in bounded memory.

In come entries, out they go in the order of their keys. They wait in a heap until nothing smaller can still
come; the caller knows up to which key that is. When more of them wait than memory should hold, they are
written to a temporary file as one sorted run, of which only the first entry stays in memory. Entries that
have to wait long cost disk, not memory.
"""

import os
import tempfile
from collections.abc import Iterator
from heapq import heappop, heappush
from struct import Struct
from typing import IO, NamedTuple

Key = tuple[int, int, int, int, int]  # compared from the left; unique

MEMORY_BYTES = 32 << 20  # of waiting entries before they go to disk
ENTRY_BYTES = 400  # what an entry takes in memory beside its payload

_HEAD = Struct(">5qI")


class _Run(NamedTuple):
    """The rest of a sorted run: from `start` to `stop` in the file."""

    start: int
    stop: int


class ExternalSort:
    """Entries that wait for their turn."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._heap: list[tuple[Key, bytes, _Run | None]] = []
        self._held = 0  # bytes of the entries that are in memory
        self._runs = 0
        self._file: IO[bytes] | None = None

    def add(self, key: Key, payload: bytes) -> None:
        """Add an entry; its key must not be smaller than one that `pop_before` has let go."""
        heappush(self._heap, (key, payload, None))
        self._held += len(payload) + ENTRY_BYTES
        if self._held > self._memory_bytes:
            self._spill()

    def pop_before(self, first: int | None) -> Iterator[bytes]:
        """Remove all entries whose key begins with less than `first`, and yield their payloads in order.

        None stands for all entries.
        """
        heap = self._heap
        while heap and (first is None or heap[0][0][0] < first):
            _, payload, run = heappop(heap)
            if run is None:
                self._held -= len(payload) + ENTRY_BYTES
            else:
                self._push_next(run)
            yield payload
        if not self._runs and self._file:
            self._file.truncate(0)

    def close(self) -> None:
        """Drop all entries and the file."""
        self._heap.clear()
        if self._file:
            self._file.close()

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="kdissect-")  # noqa: SIM115 - closed in `close`
        file = self._file
        start = file.seek(0, os.SEEK_END)
        entries = sorted(entry for entry in self._heap if entry[2] is None)
        self._heap = sorted(entry for entry in self._heap if entry[2] is not None)
        for key, payload, _ in entries:
            file.write(_HEAD.pack(*key, len(payload)))
            file.write(payload)
        file.flush()
        self._held = 0
        self._runs += 1
        self._push_next(_Run(start, file.tell()))

    def _push_next(self, run: _Run) -> None:
        if run.start == run.stop or self._file is None:
            self._runs -= 1
            return
        *key, size = _HEAD.unpack(os.pread(self._file.fileno(), _HEAD.size, run.start))
        first, second, third, fourth, fifth = key
        start = run.start + _HEAD.size
        payload = os.pread(self._file.fileno(), size, start)
        rest = _Run(start + size, run.stop)
        heappush(self._heap, ((first, second, third, fourth, fifth), payload, rest))
