"""A file of frames that are written once and read by position, so that memory need not hold a capture.

Other files can be attached, and are read through the same positions: each has a range of them for itself.
"""

import os
import tempfile
from pathlib import Path
from typing import NamedTuple

BUFFER_BYTES = 1 << 20
RANGE_BITS = 48  # of positions, for each file
BLOCK_BITS, MOST_BLOCKS = 16, 8  # of an attached file, in memory


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
        self._attached: list[_AttachedFile] = []

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
        self._attached.append(_AttachedFile(path))
        return len(self._attached) << RANGE_BITS

    def get(self, slot: SpoolSlot | None) -> bytes | None:
        """Return the bytes of a slot; None for no slot."""
        if slot is None:
            return None
        number = slot.at >> RANGE_BITS
        if number:
            return self._attached[number - 1].read(slot.at - (number << RANGE_BITS), slot.size)
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
        for attached in self._attached:
            attached.close()


class _AttachedFile:
    """A file that is read by position, a block at a time.

    A run reads in the order of the file, some hundred bytes each time. A call of the system for each of them
    was a tenth of the processor time of a run.
    """

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("rb", buffering=0)  # noqa: SIM115 - closed by close
        self._blocks: dict[int, bytes] = {}  # by number, the oldest first

    def read(self, at: int, size: int) -> bytes:
        """Return bytes, fewer than asked for at the end of the file."""
        number, start = at >> BLOCK_BITS, at & ((1 << BLOCK_BITS) - 1)
        stop = start + size
        if stop > 1 << BLOCK_BITS:
            return os.pread(self._file.fileno(), size, at)
        block = self._blocks.get(number)
        if block is None:
            block = os.pread(self._file.fileno(), 1 << BLOCK_BITS, number << BLOCK_BITS)
            if len(self._blocks) >= MOST_BLOCKS:
                del self._blocks[next(iter(self._blocks))]
            self._blocks[number] = block
        return block[start:stop]

    def close(self) -> None:
        """Close the file."""
        self._file.close()
