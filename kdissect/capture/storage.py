"""The bytes of captures, read by offset: from local files, or from objects that a URI names.

`s3://`, `s3a://`, `hdfs://`, `gs://` and `abfs://` go through the file systems of pyarrow, which take their
own settings (environment, profile, Hadoop's configuration). Each worker reads the ranges that it needs. A
request to such a system costs milliseconds, so a worker fetches whole blocks and keeps the last few, about as
much as one split.

For HDFS, pyarrow loads Hadoop's libhdfs, and with it a JVM into every worker. If the package hdfs-native is
installed, which implements the protocol of HDFS itself, it is used instead.
"""

import os
import secrets
import shutil
import threading
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
NO_HDFS = (
    "reading HDFS needs the package hdfs-native (pip install 'kdissect[hdfs]'), or "
    "Hadoop's libhdfs with JAVA_HOME, HADOOP_HOME and CLASSPATH"
)
OBJECT_STORES = ("s3", "gcs", "abfs")
"""Names that pyarrow has for file systems in which a file appears when it is complete."""

SAME_SYSTEM = {"s3a://": "s3://", "s3n://": "s3://"}  # names that Hadoop uses


class CaptureStorage(Protocol):
    """A capture that is open for reading."""

    @property
    def size(self) -> int:
        """Bytes in all."""

    @property
    def descriptor(self) -> int | None:
        """Return the descriptor of a file of this machine, None for others."""

    def read_into(self, view: memoryview, offset: int) -> int:
        """Fill the view, or a part of it, from the offset on. Return the number of bytes, 0 at the end."""

    def read(self, length: int, offset: int) -> bytes:
        """Return up to `length` bytes."""

    def close(self) -> None:
        """Close the capture."""


def is_uri(path: str) -> bool:
    """Return whether a path is a URI of another file system."""
    return "://" in path and not path.startswith(LOCAL)


def local_path(path: str) -> str:
    """Return a path without the scheme file://."""
    return path.removeprefix(LOCAL)


_made_client = threading.Event()
"""Set when this process makes a client of another file system."""


def has_clients() -> bool:
    """Return whether this process has made a client of another file system.

    Such a client has threads, which a fork loses: a client of S3 would wait for them without end.
    """
    return _made_client.is_set()


def file_system(uri: str) -> tuple[Any, str]:
    """Return the file system of pyarrow for a URI, and the path in it. Raise OSError if there is none."""
    from pyarrow import fs  # noqa: PLC0415 - takes time, and is seldom wanted

    _made_client.set()
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
    """Return pyarrow's file system for HDFS, which needs Hadoop.

    Without a class path libhdfs would end the process.
    """
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
    """Open a capture for a `with` block. Raise OSError if it cannot be read."""
    source: CaptureStorage = _Remote(path) if is_uri(path) else _File(path)
    try:
        yield source
    finally:
        source.close()


@contextmanager
def create_file(path: str) -> Iterator[BinaryIO]:
    """Create a local file or one at a URI, for a `with` block. Raise OSError if that fails."""
    if not is_uri(path):
        with Path(path).open("wb") as file:
            yield file
        return
    system, inside = file_system(path)
    with system.open_output_stream(inside) as stream:
        yield stream


def remove_file(path: str) -> None:
    """Remove a local file or one at a URI. Raise OSError."""
    if not is_uri(path):
        Path(path).unlink()
        return
    system, inside = file_system(path)
    system.delete_file(inside)


def modified_ns(uri: str) -> int:
    """Return when a file at a URI was written to for the last time. Raise OSError."""
    system, inside = file_system(uri)
    info = system.get_file_info(inside)
    if not info.is_file:
        raise FileNotFoundError(uri)
    return int(info.mtime_ns or 0)


def check_bucket(uri: str) -> None:
    """Raise OSError if the store of a URI cannot be reached, or has no such bucket.

    A folder that is missing in it looks like an empty one.
    """
    system, inside = file_system(uri)
    root = inside.strip("/").partition("/")[0] or "/"
    if system.type_name in OBJECT_STORES and system.get_file_info(root).type.name == "NotFound":
        raise FileNotFoundError(f"there is no bucket {root}")


@contextmanager
def shared_scratch(place: str) -> Iterator[str]:
    """Create a folder in a place that several machines share, local or at a URI, for a `with` block.

    Other users may read a file there if they know its name, which has 64 random bits, since executors often
    run as another user. Raise OSError if the folder cannot be created.
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
    """Return the path of a file in a folder, which may be a URI with settings."""
    place, mark, settings = folder.partition("?") if is_uri(folder) else (folder, "", "")
    return f"{place.rstrip('/')}/{name}{mark}{settings}"


class _File:
    def __init__(self, path: str) -> None:
        self.descriptor: int = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        self.size = os.fstat(self.descriptor).st_size

    def read_into(self, view: memoryview, offset: int) -> int:
        return os.preadv(self.descriptor, [view], offset)

    def read(self, length: int, offset: int) -> bytes:
        return os.pread(self.descriptor, length, offset)

    def close(self) -> None:
        os.close(self.descriptor)


class _Remote:
    descriptor = None

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
