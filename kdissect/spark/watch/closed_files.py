"""Which files of a directory there are, and which are closed: nobody writes to them any more.

A file is closed when a newer one of its series exists, or when it has not grown for some time. Files whose
names differ in digits only are a series, as those of `tcpdump -G`, `tcpdump -C` and `dumpcap -b`. Rings of
several hosts may share a directory, and a newer file of one host closes none of another. In an object store a
file is seen when it is complete, so all of its files are closed.

A directory may be a URI (`capture.storage`); then so are the paths of its files.
"""

import os
import re
from collections.abc import Iterable
from typing import NamedTuple

from kdissect.capture.storage import is_uri, within
from kdissect.capture.storage_folder import open_folder

HEAD_BYTES = 4096
"""So many bytes tell a file from another one under its name: they hold the time of the first packet."""


class SeenFile(NamedTuple):
    """A file as a listing shows it."""

    path: str
    size: int
    modified_ns: int
    is_closed: bool = True


def files_to_read(directory: str, now_ns: int, settle_ns: int) -> list[SeenFile]:
    """Return the files of a directory, oldest first, and which of them are closed. Raise OSError.

    Sizes are those of a second listing: a file that is closed in the first one has its final size then.
    """
    if is_uri(directory) and open_folder(directory).appears_whole:
        return sorted(list_files(directory), key=_age)
    closed = {file.path for file in closed_files(list_files(directory), now_ns, settle_ns)}
    return sorted((file._replace(is_closed=file.path in closed) for file in list_files(directory)), key=_age)


def list_files(directory: str) -> list[SeenFile]:
    """Return the regular files of a directory that are not empty or hidden. Raise OSError."""
    if is_uri(directory):
        return [
            SeenFile(within(directory, file.name), file.size, file.modified_ns)
            for file in open_folder(directory).files()
            if file.size and not file.name.startswith(".")
        ]
    found = []
    with os.scandir(directory) as entries:
        for entry in entries:
            try:
                if entry.name.startswith(".") or not entry.is_file():
                    continue
                status = entry.stat()
            except FileNotFoundError:  # removed by its ring in the meantime
                continue
            if status.st_size:
                found.append(SeenFile(os.path.abspath(entry.path), status.st_size, status.st_mtime_ns))
    return found


def closed_files(files: Iterable[SeenFile], now_ns: int, settle_ns: int) -> list[SeenFile]:
    """Return the closed ones of the files of a directory, oldest first.

    A file that was not written to for `settle_ns` is closed.
    """
    files = list(files)
    newest: dict[str, tuple[int, str]] = {}
    for file in files:
        newest[series(file.path)] = max(newest.get(series(file.path), (0, "")), _age(file))
    return sorted(
        (
            file
            for file in files
            if _age(file) < newest[series(file.path)] or now_ns - file.modified_ns >= settle_ns
        ),
        key=_age,
    )


def series(path: str) -> str:
    """Return what the names of a series have in common.

    >>> series("/ring/broker-1_20260501.pcap2")
    'broker-#_#.pcap#'
    """
    return re.sub(r"\d+", "#", last_name(path))


def last_name(path: str) -> str:
    """Return the last name of a path, or of a URI that may have settings.

    >>> last_name("s3://bucket/ring/a.pcap?region=eu-west-1")
    'a.pcap'
    """
    return os.path.basename(path.partition("?")[0] if is_uri(path) else path)


def _age(file: SeenFile) -> tuple[int, str]:
    return file.modified_ns, file.path
