"""Exact order for entries that come almost in order, in bounded memory.

In come entries, out they go in the order of their keys. They wait until nothing smaller can still come; the
caller knows up to which key that is. When more of them wait than memory should hold, they are
written to a temporary file as one sorted run, of which only the first entry stays in memory. Entries that
have to wait long cost disk, not memory.
"""

import os
import tempfile
from collections.abc import Iterator
from heapq import heappop, heappush
from operator import itemgetter
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
        self._waiting: list[tuple[Key, bytes]] = []  # the last one is the next, as far as it is sorted
        self._is_sorted = True
        self._held = 0  # bytes of these entries
        self._runs: list[tuple[Key, bytes, _Run]] = []  # a heap: the first entry of each run, and its rest
        self._file: IO[bytes] | None = None

    def add(self, key: Key, payload: bytes) -> None:
        """Add an entry; its key must not be smaller than one that `pop_before` has let go."""
        self._waiting.append((key, payload))
        self._is_sorted = False
        self._held += len(payload) + ENTRY_BYTES
        if self._held > self._memory_bytes:
            self._spill()

    def pop_before(self, first: int | None) -> Iterator[bytes]:
        """Remove all entries whose key begins with less than `first`, and yield their payloads in order.

        None stands for all entries.
        """
        waiting, runs = self._waiting, self._runs
        while runs or waiting:
            if not self._is_sorted:
                self._sort()
            from_run = bool(runs) and not (waiting and waiting[-1][0] < runs[0][0])
            key = runs[0][0] if from_run else waiting[-1][0]
            if first is not None and key[0] >= first:
                break
            if from_run:
                _, payload, rest = heappop(runs)
                self._push_next(rest)
            else:
                _, payload = waiting.pop()
                self._held -= len(payload) + ENTRY_BYTES
            yield payload
        if not runs and self._file:
            self._file.truncate(0)

    def _sort(self) -> None:
        """Sort what waits. Most of it is sorted already, in one direction or the other; that costs little."""
        self._waiting.sort(key=itemgetter(0), reverse=True)
        self._is_sorted = True

    def close(self) -> None:
        """Drop all entries and the file."""
        self._waiting.clear()
        self._runs.clear()
        if self._file:
            self._file.close()

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="kdissect-")  # noqa: SIM115 - closed in `close`
        file = self._file
        start = file.seek(0, os.SEEK_END)
        self._sort()
        for key, payload in reversed(self._waiting):
            file.write(_HEAD.pack(*key, len(payload)))
            file.write(payload)
        file.flush()
        self._waiting.clear()
        self._held = 0
        self._push_next(_Run(start, file.tell()))

    def _push_next(self, run: _Run) -> None:
        if run.start == run.stop or self._file is None:
            return
        *key, size = _HEAD.unpack(os.pread(self._file.fileno(), _HEAD.size, run.start))
        first, second, third, fourth, fifth = key
        start = run.start + _HEAD.size
        payload = os.pread(self._file.fileno(), size, start)
        heappush(self._runs, ((first, second, third, fourth, fifth), payload, _Run(start + size, run.stop)))
