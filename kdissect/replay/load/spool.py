"""A file of bytes that wait: frames are put once and read by position, so that memory need not hold a capture."""

import os
import tempfile
from typing import NamedTuple

BUFFER = 1 << 20


class SpoolSlot(NamedTuple):
    """Where bytes lie."""

    at: int
    size: int


class Spool:
    """A temporary file that goes away with it. Raises OSError when the disk is full."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="kdissect-", buffering=BUFFER)  # noqa: SIM115 - closed by close
        self._end = 0
        self._written = 0

    def put(self, data: bytes) -> SpoolSlot:
        """Keep bytes."""
        return SpoolSlot(self.add(data), len(data))

    def add(self, data: bytes) -> int:
        """Keep bytes; give only where they begin."""
        at = self._end
        self._file.write(data)
        self._end = at + len(data)
        return at

    def get(self, place: SpoolSlot | None) -> bytes | None:
        """Read bytes back."""
        if place is None:
            return None
        if place.at + place.size > self._written:
            self.flush()
        return os.pread(self._file.fileno(), place.size, place.at)

    def flush(self) -> None:
        """Write what waits, so that other processes can read it too."""
        self._file.flush()
        self._written = self._end

    def close(self) -> None:
        """Remove the file."""
        self._file.close()
