"""A capture that is still being written: splits are returned as soon as their packets have come.

In comes a stream (standard input), out come splits in order, over a file to which the stream is copied. Each
read is scanned from where the last scan ended (see `range_merge`), so the splits are those of the finished
file, only smaller. A record that has come in part waits for the rest of it.

A stream ends when it is closed, or when its reader says so by returning no bytes (see `stoppable_pipe`).
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import overload

from kdissect.capture.formats import pcapng
from kdissect.capture.formats.file_types import InputError
from kdissect.capture.index.index import CAPTURE_HEAD_BYTES, ENDS, plan_file
from kdissect.capture.index.range_merge import MergedScans
from kdissect.capture.index.range_scan import RangeTask, scan_range
from kdissect.capture.index.splits import ByteRange, Split
from kdissect.capture.inputs import CaptureFile, check_magic
from kdissect.capture.stoppable_pipe import ByteSource

READ_BYTES = 1 << 20
CUT = "CUT"  # the scan ended within a record, which the next read may complete


class LiveCapture(Sequence[Split]):
    """The splits of a stream. Iterating waits for more of them; indexing returns those that have come."""

    def __init__(
        self, source: ByteSource, path: Path, name: str, before_wait: Callable[[], None] = lambda: None
    ) -> None:
        """Read the first bytes of `source`; its copy is written to `path`.

        `before_wait` is called before each wait for more bytes. Raise InputError if the stream is empty or
        not a capture.
        """
        self.file = CaptureFile(str(path), name, spooled=True)
        self._source, self._path, self._name, self._before_wait = source, path, name, before_wait
        self._splits: list[Split] = []
        first = b""
        while len(first) < CAPTURE_HEAD_BYTES and (more := source.read(READ_BYTES)):
            first += more
        if not first:
            raise InputError(f"{name} is empty")
        check_magic(name, first)
        self._path.write_bytes(first)
        self._plan = plan_file(self.file)
        self._scans = MergedScans(self._plan.entry)
        self._scan()

    @property
    def earliest_time_ns(self) -> int | None:
        """Time of the earliest packet so far."""
        return self._scans.earliest_ns

    @property
    def latest_time_ns(self) -> int | None:
        """Time of the latest packet so far."""
        return self._scans.latest_ns

    @property
    def warning(self) -> str | None:
        """Return a sentence about a fault at the end of the stream; None if there is no fault."""
        text = ENDS.get(self._scans.ended)
        if text is None:
            return None
        where = text.replace("the file", "the capture")
        return f"{self._name}: {where}; {self._scans.packets} packets were read"

    @property
    def secrets(self) -> tuple[pcapng.SecretsBlock, ...]:
        """Blocks with secrets of TLS sessions so far."""
        return tuple(self._scans.secrets)

    def wait_for_packets(self) -> None:
        """Read until the first packet has come, or the stream has ended."""
        while not self._splits and self._read():
            pass

    def __iter__(self) -> Iterator[Split]:
        """Yield splits; wait for the next one until the stream ends."""
        position = 0
        while position < len(self._splits) or self._read():
            while position < len(self._splits):
                yield self._splits[position]
                position += 1

    def __len__(self) -> int:
        """Return how many splits have come."""
        return len(self._splits)

    @overload
    def __getitem__(self, index: int) -> Split: ...

    @overload
    def __getitem__(self, index: slice) -> list[Split]: ...

    def __getitem__(self, index: int | slice) -> Split | list[Split]:
        """Return splits that have come."""
        return self._splits[index]

    def _read(self) -> bool:
        """Wait for bytes, and scan them. Return whether the stream goes on."""
        if self._scans.ended not in ("END", CUT):
            return False  # damaged: nothing behind it can be read
        self._before_wait()
        more = self._source.read(READ_BYTES)
        if not more:
            return False
        with self._path.open("ab") as file:
            file.write(more)
        self._scan()
        return True

    def _scan(self) -> None:
        """Scan the bytes behind the last record that is complete."""
        size = os.path.getsize(self._path)
        start = self._scans.entry.position
        part: ByteRange = replace(self._plan.ranges[0], size=size, start=start, limit=size)
        known = len(self._scans.splits)
        self._scans.add(scan_range(RangeTask(part, self._scans.entry)))
        for split in self._scans.splits[known:]:
            self._splits.append(replace(split, index=len(self._splits)))
