"""Bytes that tasks of one machine hand to each other in files, of which only the places go through Spark.

Spark's JVM holds several copies of what it shuffles, compresses it, and keeps the memory for the rest of a
run. So where all tasks share a machine, descriptors of segments stay in files of the run's directory, which
only its user may enter and which goes with the run.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

SHARED_FOLDER = "spark.kdissect.sharedFolder"
"""The setting with that directory. A Spark that kdissect did not start has none."""


class FilePart(NamedTuple):
    """The place of some bytes."""

    path: str
    offset: int
    size: int

    def read(self) -> bytes:
        """Return the bytes. Raise OSError if they cannot be read, EOFError if the file ends before them."""
        with Path(self.path).open("rb") as file:
            file.seek(self.offset)
            content = file.read(self.size)
        if len(content) < self.size:
            raise EOFError(f"{self.path} ends within a part of it")
        return content


class FilePartWriter:
    """A file that takes parts, one behind the other. They can be read as soon as they were put."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        self._file, self._path = file, path
        self._end = 0

    def put(self, content: bytes) -> FilePart:
        """Append bytes. Return their place. Raise OSError."""
        self._file.write(content)
        self._file.flush()
        part = FilePart(self._path, self._end, len(content))
        self._end += len(content)
        return part


@contextmanager
def parts_in(path: Path) -> Iterator[FilePartWriter]:
    """Write parts into a new file."""
    with path.open("wb") as file:
        yield FilePartWriter(file, str(path))


def new_path(folder: str) -> Path:
    """Return a path in a folder that no other task takes."""
    return Path(folder, f"parts-{secrets.token_hex(8)}")
