"""Which files of a directory there are, and which are closed: nobody writes to them any more.

A file is closed when a newer one of its series exists, or when it has not grown for some time. Files whose
names differ in digits only are a series, as those of `tcpdump -G`, `tcpdump -C` and `dumpcap -b`. Rings of
several hosts may share a directory, and a newer file of one host closes none of another.
"""

import os
import re
from collections.abc import Iterable
from typing import NamedTuple

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
    closed = {file.path for file in closed_files(list_files(directory), now_ns, settle_ns)}
    return sorted((file._replace(is_closed=file.path in closed) for file in list_files(directory)), key=_age)


def list_files(directory: str) -> list[SeenFile]:
    """Return the regular files of a directory that are not empty or hidden. Raise OSError."""
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
    return re.sub(r"\d+", "#", os.path.basename(path))


def _age(file: SeenFile) -> tuple[int, str]:
    return file.modified_ns, file.path
