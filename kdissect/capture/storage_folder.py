"""A folder of files that appear whole: listed, read, written and removed by name, here or at a URI.

A file of an object store appears when it is complete. On other file systems it is written under a hidden
name, and renamed. So a reader finds a file as it was written, or none.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from kdissect.capture.storage import OBJECT_STORES, file_system, is_uri, local_path
from kdissect.files import UnfinishedOutput

COPIED_BYTES = 4 << 20


class StoredFile(NamedTuple):
    """A file of a folder."""

    name: str
    size: int
    modified_ns: int


class StorageFolder(Protocol):
    """Files of one folder. Methods raise OSError. A name may lead to a folder below: `a/b`."""

    appears_whole: bool
    """True if a file that others write is seen when it is complete, and not before."""

    def files(self) -> list[StoredFile]:
        """Return the files of the folder itself; none without the folder."""

    def read(self, name: str) -> bytes:
        """Return the contents of a file."""

    def write(self, name: str, data: bytes) -> None:
        """Write a file, or replace it."""

    def take(self, name: str, path: Path) -> None:
        """Put a file of this machine there under a name; a local one is moved."""

    def remove(self, name: str) -> None:
        """Remove a file; one that is missing is no error."""

    def below(self, name: str) -> "StorageFolder":
        """Return a folder in this one."""


def open_folder(place: str | Path) -> StorageFolder:
    """Return the folder at a path or a URI. Raise OSError if there is no file system for it."""
    if not is_uri(str(place)):
        return _NearFolder(Path(local_path(str(place))))
    system, inside = file_system(str(place))
    return _FarFolder(system, inside.rstrip("/"))


class _NearFolder:
    appears_whole = False

    def __init__(self, path: Path) -> None:
        self._path = path

    def files(self) -> list[StoredFile]:
        found = []
        with suppress(FileNotFoundError), os.scandir(self._path) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # removed in the meantime
                    if entry.is_file():
                        status = entry.stat()
                        found.append(StoredFile(entry.name, status.st_size, status.st_mtime_ns))
        return found

    def read(self, name: str) -> bytes:
        return Path(self._path, name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        path = self._made(name)
        with UnfinishedOutput(path) as part:
            with part.binary_file() as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.move()

    def take(self, name: str, path: Path) -> None:
        path.replace(self._made(name))

    def remove(self, name: str) -> None:
        Path(self._path, name).unlink(missing_ok=True)

    def below(self, name: str) -> StorageFolder:
        return _NearFolder(self._path / name)

    def _made(self, name: str) -> Path:
        path = self._path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


class _FarFolder:
    def __init__(self, system: Any, inside: str) -> None:
        self._system, self._inside = system, inside
        self.appears_whole = system.type_name in OBJECT_STORES

    def files(self) -> list[StoredFile]:
        from pyarrow.fs import FileSelector  # noqa: PLC0415 - takes time, and is seldom wanted

        found = self._system.get_file_info(FileSelector(self._inside, allow_not_found=True))
        return [StoredFile(one.base_name, one.size, one.mtime_ns or 0) for one in found if one.is_file]

    def read(self, name: str) -> bytes:
        with self._system.open_input_stream(self._path(name), compression=None) as file:
            data: bytes = file.read()
        return data

    def write(self, name: str, data: bytes) -> None:
        target = self._begun(name)
        with self._system.open_output_stream(target, compression=None) as file:
            file.write(data)
        self._done(target, name)

    def take(self, name: str, path: Path) -> None:
        target = self._begun(name)
        with path.open("rb") as source, self._system.open_output_stream(target, compression=None) as file:
            while data := source.read(COPIED_BYTES):
                file.write(data)
        self._done(target, name)

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._system.delete_file(self._path(name))

    def below(self, name: str) -> StorageFolder:
        return _FarFolder(self._system, self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._inside}/{name}"

    def _begun(self, name: str) -> str:
        """Return the path under which a file is written."""
        if self.appears_whole:
            return self._path(name)
        folder, _, last = self._path(name).rpartition("/")
        self._system.create_dir(folder)
        return f"{folder}/.{last}.{secrets.token_hex(8)}.part"

    def _done(self, target: str, name: str) -> None:
        if not self.appears_whole:
            self.remove(name)  # HDFS renames to a free name only
            self._system.move(target, self._path(name))
