"""Where reports are written: a directory of this machine, or one that a URI names, tried before any work is done."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kdissect.capture.storage import (
    file_system,
    is_uri,
    local_path,
)
from kdissect.errors import OutputError
from kdissect.files import write_atomically


@dataclass(frozen=True, slots=True)
class Folder:
    """A directory that files can be written to, each whole or not at all."""

    place: str
    system: Any = None
    """pyarrow's file system; None: this machine's."""

    def write(self, name: str, text: str) -> None:
        """Write a file; raise OutputRefused if there is no room for it."""
        try:
            if self.system is None:
                write_atomically(Path(self.place, name), text)
                return
            with self.system.open_output_stream(f"{self.place}/{name}") as file:
                file.write(text.encode())
        except OSError as error:
            raise OutputError.of(f"{self.place}/{name}", error) from None


def usable_folder(folder: str) -> Folder:
    """Make the folder and try to write there; raise OutputRefused if that cannot be."""
    try:
        if is_uri(folder):
            system, inside = file_system(folder.rstrip("/"))
            system.create_dir(inside, recursive=True)
            return Folder(inside, system)
        near = Path(local_path(folder))
        near.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=near):
            return Folder(str(near))
    except OSError as error:
        raise OutputError.of(folder, error) from None


def usable_file(path: str) -> tuple[Folder, str]:
    """Give folder and name of a file that can be written; raise OutputRefused if it cannot."""
    if is_uri(path):
        folder, _, name = path.partition("?")[0].rpartition("/")
        settings = path.partition("?")[1:]
        return usable_folder(folder + "".join(settings)), name
    near = Path(local_path(path))
    if near.is_dir():
        raise OutputError(f"cannot write to {near}: it is a directory")
    return usable_folder(str(near.parent)), near.name
