"""Where the bytes of a capture come from: a file of this machine, or an object that a URI names, read by offset either way.

`s3://`, `s3a://`, `hdfs://`, `gs://` and `abfs://` go through the file systems of pyarrow, configured as they are (environment,
profile, Hadoop's own settings). Each worker reads the ranges that it needs by itself. Since a request to such a system costs
milliseconds, a worker fetches whole blocks and keeps the last few: as much as a split is long.

For HDFS pyarrow loads Hadoop's libhdfs, and with it a JVM into every worker; where the package hdfs-native is installed,
which speaks HDFS's protocol by itself, it takes that place.
"""

import os
import secrets
import shutil
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol
from urllib.parse import urlsplit

BLOCK_BYTES = 4 << 20
BLOCKS_KEPT = 12
LOCAL = "file://"
HDFS = "hdfs://"
NO_HDFS = "reading HDFS needs the package hdfs-native (pip install 'kdissect[hdfs]'), or Hadoop's libhdfs with JAVA_HOME, HADOOP_HOME and CLASSPATH"
SAME_SYSTEM = {"s3a://": "s3://", "s3n://": "s3://"}  # Hadoop's names for it


class CaptureStorage(Protocol):
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
        found: tuple[Any, str] = _hdfs(uri) if uri.startswith(HDFS) else fs.FileSystem.from_uri(uri)
    except (ValueError, RuntimeError) as error:  # pyarrow's ArrowInvalid is one; hdfs-native raises the other
        raise OSError(f"no file system for it: {error}") from None
    return found


def _hdfs(uri: str) -> tuple[Any, str]:
    from pyarrow import fs  # noqa: PLC0415

    try:
        from hdfs_native.fsspec import HdfsFileSystem  # noqa: PLC0415
    except ImportError:
        return _hdfs_by_java(uri)
    parts = urlsplit(uri)
    return fs.PyFileSystem(fs.FSSpecHandler(HdfsFileSystem(parts.hostname, parts.port))), parts.path or "/"


def _hdfs_by_java(uri: str) -> tuple[Any, str]:
    """Give pyarrow's own file system, which needs an installed Hadoop. Without a class path libhdfs ends the process: ask first."""
    from pyarrow import fs  # noqa: PLC0415

    if not os.environ.get("CLASSPATH"):
        raise OSError(NO_HDFS)
    try:
        found: tuple[Any, str] = fs.FileSystem.from_uri(uri)
    except OSError as error:
        raise OSError(f"{error}: {NO_HDFS}" if "load" in str(error) else str(error)) from None
    return found


@contextmanager
def open_storage(path: str) -> Iterator[CaptureStorage]:
    """Open a capture for the length of a block. Raises OSError for one that cannot be read."""
    source: CaptureStorage = _Remote(path) if is_uri(path) else _File(path)
    try:
        yield source
    finally:
        source.close()


@contextmanager
def create_file(path: str) -> Iterator[BinaryIO]:
    """Make a file, here or where a URI says, for the length of a block. Raises OSError if that cannot be."""
    if not is_uri(path):
        with Path(path).open("wb") as file:
            yield file
        return
    system, inside = file_system(path)
    with system.open_output_stream(inside) as stream:
        yield stream


@contextmanager
def shared_scratch(place: str) -> Iterator[str]:
    """Make a folder in a folder that several machines see, here or where a URI says; its end removes it.

    Others may read a file there if they know its name, which has 64 random bits: executors often run as another user. Raises
    OSError if the folder cannot be made.
    """
    name = f"kdissect-{secrets.token_hex(8)}"
    if not is_uri(place):
        near = Path(local_path(place), name).absolute()
        near.mkdir(0o711)
        try:
            yield str(near)
        finally:
            shutil.rmtree(near, ignore_errors=True)
        return
    folder = within(place, name)
    system, inside = file_system(folder)
    system.create_dir(inside)
    try:
        yield folder
    finally:
        system.delete_dir(inside)


def within(folder: str, name: str) -> str:
    """Give the path of a file in a folder, which may be a URI with settings."""
    place, mark, settings = folder.partition("?") if is_uri(folder) else (folder, "", "")
    return f"{place.rstrip('/')}/{name}{mark}{settings}"


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
