"""Bring entries into order that come almost in order, in bounded memory.

Entries wait in a heap until it is certain that nothing smaller can still come; the caller says up to where that is.
When more of them wait than memory should hold, they are written to a temporary file as one sorted run, of which only the
first entry stays in memory. So the order is always exact, and what it costs is disk when an entry has to wait long.
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
    """What is left of a sorted run: from `at` to `stop` in the file."""

    at: int
    stop: int


class ExternalSort:
    """Entries on their way into order."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._heap: list[tuple[Key, bytes, _Run | None]] = []
        self._held = 0  # bytes of the entries that are in memory
        self._runs = 0
        self._file: IO[bytes] | None = None

    def add(self, key: Key, payload: bytes) -> None:
        """Take in an entry."""
        heappush(self._heap, (key, payload, None))
        self._held += len(payload) + ENTRY_BYTES
        if self._held > self._memory_bytes:
            self._spill()

    def before(self, first: int | None) -> Iterator[bytes]:
        """Take out, in order, the payloads of all entries whose key begins with less than `first`; None: of all."""
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
        """Forget everything."""
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
        if run.at == run.stop or self._file is None:
            self._runs -= 1
            return
        *key, size = _HEAD.unpack(os.pread(self._file.fileno(), _HEAD.size, run.at))
        first, second, third, fourth, fifth = key
        at = run.at + _HEAD.size
        payload = os.pread(self._file.fileno(), size, at)
        heappush(self._heap, ((first, second, third, fourth, fifth), payload, _Run(at + size, run.stop)))
