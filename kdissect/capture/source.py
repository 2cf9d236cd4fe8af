"""Where the bytes of a capture come from: a file of this machine, or an object that a URI names, read by offset either way.

`s3://`, `s3a://`, `hdfs://`, `gs://` and `abfs://` go through the file systems of pyarrow, configured as they are (environment,
profile, Hadoop's own settings). Each worker reads the ranges that it needs by itself. Since a request to such a system costs
milliseconds, a worker fetches whole blocks and keeps the last few: as much as a split is long.
"""

import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

BLOCK_BYTES = 4 << 20
BLOCKS_KEPT = 12
LOCAL = "file://"
SAME_SYSTEM = {"s3a://": "s3://", "s3n://": "s3://"}  # Hadoop's names for it


class Source(Protocol):
    """A capture that is open for reading."""

    @property
    def size(self) -> int:
        """Bytes in all."""

    def read_into(self, view: memoryview, offset: int) -> int:
        """Fill the view, or some of it, from the offset on; give how many bytes there were, 0 at the end."""

    def read(self, length: int, offset: int) -> bytes:
        """Give up to `length` bytes."""

    def close(self) -> None:
        """Let go of it."""


def is_uri(path: str) -> bool:
    """Say whether a path names something on another file system."""
    return "://" in path and not path.startswith(LOCAL)


def local_path(path: str) -> str:
    """Give a path without the scheme that says nothing but that it is one."""
    return path.removeprefix(LOCAL)


def file_system(uri: str) -> tuple[Any, str]:
    """Give pyarrow's file system for a URI, and the path there. Raises OSError when there is none."""
    from pyarrow import fs  # noqa: PLC0415 - takes time, and is seldom wanted

    for name, same in SAME_SYSTEM.items():
        if uri.startswith(name):
            uri = same + uri[len(name) :]
    try:
        found: tuple[Any, str] = fs.FileSystem.from_uri(uri)
    except ValueError as error:  # pyarrow's ArrowInvalid is one
        raise OSError(f"no file system for it: {error}") from None
    return found


@contextmanager
def opened(path: str) -> Iterator[Source]:
    """Open a capture for the length of a block. Raises OSError for one that cannot be read."""
    source: Source = _Remote(path) if is_uri(path) else _File(path)
    try:
        yield source
    finally:
        source.close()


class _File:
    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        self.size = os.fstat(self._descriptor).st_size

    def read_into(self, view: memoryview, offset: int) -> int:
        return os.preadv(self._descriptor, [view], offset)

    def read(self, length: int, offset: int) -> bytes:
        return os.pread(self._descriptor, length, offset)

    def close(self) -> None:
        os.close(self._descriptor)


class _Remote:
    def __init__(self, uri: str) -> None:
        system, path = file_system(uri)
        self._file = system.open_input_file(path)
        self.size = int(self._file.size())
        self._blocks: OrderedDict[int, memoryview] = OrderedDict()

    def read_into(self, view: memoryview, offset: int) -> int:
        number, inside = divmod(offset, BLOCK_BYTES)
        part = self._block(number)[inside : inside + view.nbytes]
        view.cast("B")[: len(part)] = part
        return len(part)

    def read(self, length: int, offset: int) -> bytes:
        found = bytearray(max(0, min(length, self.size - offset)))
        at = 0
        while at < len(found) and (got := self.read_into(memoryview(found)[at:], offset + at)):
            at += got
        return bytes(found[:at])

    def close(self) -> None:
        self._file.close()

    def _block(self, number: int) -> memoryview:
        if number in self._blocks:
            self._blocks.move_to_end(number)
            return self._blocks[number]
        size = max(0, min(BLOCK_BYTES, self.size - number * BLOCK_BYTES))
        block = memoryview(self._file.read_at(size, number * BLOCK_BYTES)) if size else memoryview(b"")
        self._blocks[number] = block
        if len(self._blocks) > BLOCKS_KEPT:
            self._blocks.popitem(last=False)
        return block
