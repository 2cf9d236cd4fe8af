"""Destinations of reports: a local directory or one that a URI names, checked before any work is done."""

import os
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kdissect.capture.storage import (
    file_system,
    is_uri,
    local_path,
)
from kdissect.errors import OutputError
from kdissect.files import check_replaceable, write_atomically


@dataclass(frozen=True, slots=True)
class OutputFolder:
    """A directory into which files are written atomically."""

    place: str
    system: Any = None
    """The file system of pyarrow; None is the local one."""

    def write(self, name: str, text: str) -> None:
        """Write a file. Raise OutputError if there is no room for it."""
        try:
            if self.system is None:
                write_atomically(Path(self.place, name), text)
                return
            with self.system.open_output_stream(f"{self.place}/{name}") as file:
                file.write(text.encode())
        except OSError as error:
            raise OutputError.of(f"{self.place}/{name}", error) from None


def output_folder(folder: str) -> OutputFolder:
    """Return a folder, created if needed. Raise OutputError if nothing can be written there."""
    try:
        if is_uri(folder):
            system, inside = file_system(folder.rstrip("/"))
            system.create_dir(inside, recursive=True)
            return OutputFolder(inside, system)
        near = Path(local_path(folder))
        near.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=near):
            return OutputFolder(str(near))
    except OSError as error:
        raise OutputError.of(folder, error) from None


def output_file(path: str) -> tuple[OutputFolder, str]:
    """Return folder and name of a file. Raise OutputError if it cannot be written."""
    if is_uri(path):
        folder, _, name = path.partition("?")[0].rpartition("/")
        settings = path.partition("?")[1:]
        return output_folder(folder + "".join(settings)), name
    near = Path(local_path(path))
    if os.path.isdir(near):  # no error for a name that is too long
        raise OutputError(f"cannot write to {near}: it is a directory")

    from kdissect.capture.inputs import is_capture

    try:
        check_replaceable(near)
        if near.exists() and is_capture(near):
            raise OutputError(
                f"cannot write to {near}: it is a packet capture, which nobody could make again"
            )
    except OSError as error:
        raise OutputError.of(near, error) from None
    return output_folder(str(near.parent)), near.name


def stop_printing() -> None:
    """Drop what could not be written to standard output: Python would try again, and fail, when it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
