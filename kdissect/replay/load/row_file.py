"""Rows of numbers, all of one size: the last ones that were added are in memory, all others on disk.

Holders of a row for each request keep it here, so that their memory does not grow with the capture.
Rows that are read stand near those that were read before, so some blocks of them stay in memory, too.

A file that is opened before processes are forked (`shared`) is written by one of them, and read by another
one when the writer has ended: then only the number of rows travels.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

TAIL_BYTES = 4 << 20  # that wait in memory until they are written together
BLOCK_BYTES = 1 << 18  # about as many are read at once
KEPT_BLOCKS = 64


class RowFile:
    """Rows by their number. Raise OSError when the disk is full."""

    def __init__(self, size: int, shared: bool = False) -> None:
        """`size` is that of a row in bytes."""
        self._size, self._shared = size, shared
        self._rows_of_block = max(BLOCK_BYTES // size, 1)
        self._block_bytes = self._rows_of_block * size
        self._tail = bytearray()
        self._written = 0  # bytes in the file
        self._blocks: dict[int, bytes] = {}
        self._file = _nameless_file() if shared else -1

    def __len__(self) -> int:
        return (self._written + len(self._tail)) // self._size

    def append(self, rows: bytes | memoryview) -> None:
        """Add one row or several."""
        self._tail += rows
        if len(self._tail) >= TAIL_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what waits in memory."""
        if self._file < 0:
            self._file = _nameless_file()
        self._blocks.pop(self._written // self._block_bytes, None)  # it was read before it was complete
        begin, rows = 0, bytes(self._tail)
        while begin < len(rows):
            begin += os.pwrite(self._file, memoryview(rows)[begin:], self._written + begin)
        self._written += len(rows)
        self._tail.clear()

    def place(self, number: int) -> tuple[bytes | bytearray, int]:
        """Return bytes with a row, and the position of the row in them."""
        at = number * self._size
        if at >= self._written:
            return self._tail, at - self._written
        block = number // self._rows_of_block
        data = self._blocks.get(block)
        if data is None:
            if len(self._blocks) >= KEPT_BLOCKS:
                del self._blocks[next(iter(self._blocks))]
            data = self._blocks[block] = self._read(block * self._block_bytes, self._written)
        return data, at - block * self._block_bytes

    def blocks(self, first: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yield all rows from a number on, or those up to another one, many at a time."""
        last = len(self) if stop is None else min(stop, len(self))
        position, end = first * self._size, min(self._written, last * self._size)
        while position < end:
            data = self._read(position, end)
            yield data
            position += len(data)
        rest = bytes(self._tail[position - self._written : max(last * self._size - self._written, 0)])
        if rest:
            yield rest

    def column(
        self,
        kind: DTypeLike,
        of_block: Callable[[bytes], NDArray[Any]],
        first: int = 0,
        stop: int | None = None,
    ) -> NDArray[Any]:
        """Return a column of values of a kind, of all rows or of some.

        `of_block` returns it of the rows in a block.
        """
        last = len(self) if stop is None else min(stop, len(self))
        column, begin = np.empty(max(last - first, 0), kind), 0
        for block in self.blocks(first, stop):
            values = of_block(block)
            column[begin : begin + len(values)] = values
            begin += len(values)
        return column

    def _read(self, position: int, end: int) -> bytes:
        return os.pread(self._file, min(self._block_bytes, end - position), position)

    # Between processes

    def __getstate__(self) -> dict[str, Any]:
        """Return the rows; of a shared file only how many there are, see `take_over`."""
        if self._shared:
            self.flush()
            return {"size": self._size, "written": self._written, "rows": None}
        return {"size": self._size, "written": 0, "rows": b"".join(self.blocks())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["size"])  # type: ignore[misc]  # made anew
        if state["rows"] is None:
            self._written = state["written"]
        else:
            self.append(state["rows"])

    def take_over(self, other: "RowFile") -> None:
        """Have the rows that another process has written to this shared file, by what it told of them."""
        self._written = len(other) * self._size

    def __del__(self) -> None:
        if self._file >= 0:
            with suppress(OSError):
                os.close(self._file)


def _nameless_file() -> int:
    """Return a file that goes away when it is closed."""
    number, path = tempfile.mkstemp(prefix="kdissect-")
    os.unlink(path)
    return number
