"""A file of frames that are written once and read by position, so that memory need not hold a capture."""

import os
import tempfile
from typing import NamedTuple

BUFFER_BYTES = 1 << 20


class SpoolSlot(NamedTuple):
    """Where bytes lie in a spool."""

    at: int
    size: int


class Spool:
    """A temporary file that goes away with the object. Raise OSError when the disk is full."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(  # noqa: SIM115 - closed by close
            prefix="kdissect-", buffering=BUFFER_BYTES
        )
        self._end = 0
        self._written = 0

    def put(self, data: bytes) -> SpoolSlot:
        """Append bytes, and return where they lie."""
        return SpoolSlot(self.add(data), len(data))

    def add(self, data: bytes) -> int:
        """Append bytes, and return only where they begin."""
        at = self._end
        self._file.write(data)
        self._end = at + len(data)
        return at

    def get(self, slot: SpoolSlot | None) -> bytes | None:
        """Return the bytes of a slot; None for no slot."""
        if slot is None:
            return None
        if slot.at + slot.size > self._written:
            self.flush()
        return os.pread(self._file.fileno(), slot.size, slot.at)

    def flush(self) -> None:
        """Write what is buffered, so that other processes can read it too."""
        self._file.flush()
        self._written = self._end

    def close(self) -> None:
        """Remove the file."""
        self._file.close()
