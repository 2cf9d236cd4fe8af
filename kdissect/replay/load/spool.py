"""A file of frames that are written once and read by position, so that memory need not hold a capture.

Other files can be attached, and are read through the same positions: each has a range of them for itself.
"""

import os
import tempfile
from pathlib import Path
from typing import IO, NamedTuple

BUFFER_BYTES = 1 << 20
RANGE_BITS = 48  # of positions, for each file


class SpoolSlot(NamedTuple):
    """Place of bytes in a spool."""

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
        self._attached: list[IO[bytes]] = []

    def put(self, data: bytes) -> SpoolSlot:
        """Append bytes, and return where they lie."""
        return SpoolSlot(self.add(data), len(data))

    def add(self, data: bytes) -> int:
        """Append bytes, and return only where they begin."""
        at = self._end
        self._file.write(data)
        self._end = at + len(data)
        return at

    def attach(self, path: str) -> int:
        """Return the position at which a file begins, which is read only."""
        self._attached.append(Path(path).open("rb", buffering=0))  # noqa: SIM115 - closed by close
        return len(self._attached) << RANGE_BITS

    def get(self, slot: SpoolSlot | None) -> bytes | None:
        """Return the bytes of a slot; None for no slot."""
        if slot is None:
            return None
        number = slot.at >> RANGE_BITS
        if number:
            file = self._attached[number - 1]
            return os.pread(file.fileno(), slot.size, slot.at - (number << RANGE_BITS))
        if slot.at + slot.size > self._written:
            self.flush()
        return os.pread(self._file.fileno(), slot.size, slot.at)

    def flush(self) -> None:
        """Write what is buffered, so that other processes can read it too."""
        self._file.flush()
        self._written = self._end

    def close(self) -> None:
        """Remove the file."""
        for file in (self._file, *self._attached):
            file.close()
