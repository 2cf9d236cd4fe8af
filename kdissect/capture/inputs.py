"""Which files to read: PATH arguments become capture files that every worker can read at any offset.

A path is a capture, a directory of captures (one level), or '-' for standard input. Captures and directories
may be URIs (see `storage`), whose last name may be a pattern (`*`, `[…]`). Captures may be compressed with
gzip or zstd, which their first bytes show. A source that cannot be read at an offset (compressed files,
standard input, pipes) is spooled to a directory of the caller, in bounded memory. A wrong argument raises
InputError with one sentence. A compressed file that is cut off is read as far as possible, with a warning.
"""

import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path

from kdissect.capture.formats import pcap, pcapng
from kdissect.capture.formats.decompress import DECOMPRESSORS, BrokenStreamError, is_compressed
from kdissect.capture.formats.file_types import (
    STANDARD_INPUT,
    InputError,
    not_a_capture,
)
from kdissect.capture.stoppable_pipe import ByteSource, StoppablePipe
from kdissect.capture.storage import (
    create_file,
    file_system,
    is_uri,
    local_path,
    within,
)
from kdissect.text import readable, without_password

SNIFFED_BYTES = 64
CHUNK_BYTES = 1 << 20
OF_THIS_PROCESS = ("/dev/", "/proc/")
"""Beginnings of names, such as /dev/stdin, that mean something else in another process."""


@dataclass(frozen=True, slots=True)
class CaptureFile:
    """One capture: where it can be read, its name for the user, and what was lost in spooling it."""

    path: str
    name: str
    spooled: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Inputs:
    """The captures that the arguments name, and why files of directories were skipped.

    `left` counts captures that were not opened, or not unpacked to their end, after an interrupt.
    """

    files: tuple[CaptureFile, ...]
    skipped: tuple[str, ...] = ()
    left: int = 0


def unshared_spool(name: str) -> InputError:
    """Return the refusal of a capture that is unpacked where the tasks of a cluster do not see it."""
    return InputError(
        f"{name}: a cluster cannot read compressed captures or standard input without --spool DIR, "
        "a directory that all executors share"
    )


def open_inputs(
    paths: Sequence[str],
    spool: str,
    stdin: ByteSource | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Inputs:
    """Return the captures that `paths` name; files that must be spooled go into the directory `spool`.

    Once `is_stopped`, files are not unpacked any further, and no more of them are opened. A file that is
    named twice is read once. Raise InputError for a path that does not exist, cannot be read or is not a
    capture, and for a directory without captures.
    """
    found: dict[object, CaptureFile] = {}
    skipped: list[str] = []
    refused: list[str]
    left = 0

    def take(name: str) -> None:
        nonlocal left
        if is_stopped():
            left += 1
            return
        identity = _identity(name)
        if identity not in found:
            found[identity] = _open(name, within(spool, f"{len(found)}.capture"), stdin, is_stopped)
            left += found[identity].spooled and is_stopped() and name != STANDARD_INPUT

    for given in paths:
        path = local_path(given)
        if _is_pattern(given):
            names, refused = _files_like(path), []
        elif path == STANDARD_INPUT or not _is_directory(path):
            take(path)
            continue
        else:
            names, refused = _files_in(path), []
        for name in names:
            try:
                take(name)
            except InputError as error:
                refused.append(str(error))
        if len(refused) == len(names):
            where = "of this name" if _is_pattern(given) else "in this directory"
            raise InputError(f"{path}: no packet captures {where}")
        skipped += refused
    return Inputs(tuple(found.values()), tuple(skipped), left)


def _is_pattern(given: str) -> bool:
    return "://" in given and bool(set("*[").intersection(_last_name(given)))


def _last_name(path: str) -> str:
    return path.partition("?")[0].rpartition("/")[2]


def _files_like(pattern: str) -> list[str]:
    place, mark, settings = pattern.partition("?")
    names = _files_in(place.rpartition("/")[0] + mark + settings)
    return [name for name in names if fnmatchcase(_last_name(name), _last_name(pattern))]


def _is_directory(path: str) -> bool:
    if not is_uri(path):
        return os.path.isdir(path)
    try:
        system, inside = file_system(path)
        return bool(system.get_file_info(inside).type.name == "Directory")
    except OSError as error:
        raise InputError.of(path, error) from None


def _files_in(directory: str) -> list[str]:
    """Return the regular files of a directory, sorted by name."""
    try:
        if is_uri(directory):
            from pyarrow.fs import FileSelector  # noqa: PLC0415 - as in `source`

            system, inside = file_system(directory)
            names = (found.base_name for found in system.get_file_info(FileSelector(inside)) if found.is_file)
            return sorted(within(directory, name) for name in names)
        with os.scandir(directory) as entries:
            return sorted(entry.path for entry in entries if entry.is_file())
    except OSError as error:
        raise InputError.of(directory, error) from None


def _identity(name: str) -> object:
    if name == STANDARD_INPUT or is_uri(name):
        return name
    try:
        status = os.stat(name)
    except OSError as error:
        raise InputError.of(name, error) from None
    return status.st_dev, status.st_ino


def _open(name: str, spool: str, stdin: ByteSource | None, is_stopped: Callable[[], bool]) -> CaptureFile:
    """Return one capture, readable at any offset: as it is, or spooled to the path `spool`."""
    shown = readable(without_password(name))
    if name == STANDARD_INPUT:
        return _open_stream(stdin or sys.stdin.buffer, "standard input", None, spool, is_stopped)
    try:
        if is_uri(name):
            system, inside = file_system(name)
            with system.open_input_stream(inside, compression=None) as stream:
                return _open_stream(stream, shown, name, spool, is_stopped)
        with open(name, "rb", buffering=0, opener=_open_at_once) as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return _open_stream(file, shown, name, spool, is_stopped)
            return _open_stream(StoppablePipe(file.fileno(), is_stopped), shown, None, spool, is_stopped)
    except OSError as error:
        raise InputError.of(shown, error) from None


def _open_at_once(name: str, flags: int) -> int:
    """Open a file. Opening a named pipe does not wait until somebody writes to it."""
    return os.open(name, flags | os.O_NONBLOCK)


def _open_stream(
    stream: ByteSource, name: str, path: str | None, spool: str, is_stopped: Callable[[], bool]
) -> CaptureFile:
    first = _read_first(stream)
    if not first:
        raise InputError(f"{name} is empty")
    decompress = next((reader for magic, reader in DECOMPRESSORS.items() if first.startswith(magic)), None)
    if path and not decompress:
        check_magic(name, first)
        if is_uri(path):
            return CaptureFile(path, name)
        # Executors have working directories of their own, and workers other files at /dev/fd.
        place = os.path.realpath(path) if path.startswith(OF_THIS_PROCESS) else os.path.abspath(path)
        if os.path.exists(place):
            return CaptureFile(place, name)
    chunks: Iterator[bytes] = iter(lambda: b"" if is_stopped() else stream.read(CHUNK_BYTES), b"")
    chunks = chain([first], chunks)
    warnings = _spool(name, decompress(chunks) if decompress else chunks, spool)
    return CaptureFile(spool, name, spooled=True, warnings=() if is_stopped() else warnings)


def _read_first(stream: ByteSource) -> bytes:
    """Return the first SNIFFED_BYTES of a stream, in several reads if a pipe returns fewer bytes."""
    first = b""
    while len(first) < SNIFFED_BYTES and (more := stream.read(SNIFFED_BYTES - len(first))):
        first += more
    return first


def _spool(name: str, chunks: Iterator[bytes], spool: str) -> tuple[str, ...]:
    """Write the chunks to `spool` if their first bytes begin a capture. Return warnings."""
    warnings: tuple[str, ...] = ()
    first = b""
    try:
        for chunk in chunks:
            first += chunk
            if len(first) >= SNIFFED_BYTES:
                break
    except BrokenStreamError as error:
        warnings, chunks = (f"{error}; what came before was read",), iter(())
    if not first:
        raise InputError(f"{name}: {warnings[0].split(';')[0]}" if warnings else f"{name} is empty")
    check_magic(name, first)
    with create_file(spool) as file:
        try:
            file.write(first)
            for chunk in chunks:
                file.write(chunk)
        except BrokenStreamError as error:
            warnings = (f"{error}; what came before was read",)
    return warnings


def is_capture(path: Path) -> bool:
    """Return whether a file begins as a capture does, plain or compressed. Raise OSError."""
    with path.open("rb") as file:
        first = file.read(SNIFFED_BYTES)
    return _has_header(first) or is_compressed(first)


def check_magic(name: str, first: bytes) -> None:
    """Raise InputError unless `first`, the first bytes of a file, begin a capture."""
    if _has_header(first):
        return
    if first[:4] in pcap.MAGICS or first[:4] == pcapng.SECTION_MAGIC:
        raise InputError(f"{name}: the header of this capture is cut off or damaged")
    raise not_a_capture(name, first)


def _has_header(first: bytes) -> bool:
    return pcap.read_header(first) is not None or pcapng.section_order(first) is not None
