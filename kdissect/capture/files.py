"""Which files to read: PATH arguments become capture files that every worker can read at any offset.

A path is a capture, a directory of captures (one level), or '-' for standard input. Captures may be compressed
with gzip or zstd, told by their first bytes, not by their names. What cannot be read at an offset (compressed files,
standard input, pipes) is spooled to a directory that the caller owns, in bounded memory. What is wrong with an
argument is one `InputError` with one sentence; what is lost of a compressed file that was cut off is a warning on
the file.
"""

import errno
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from kdissect.capture import pcap, pcapng
from kdissect.capture.decompress import DECOMPRESSORS, BrokenStream

SNIFFED_BYTES = 64
CHUNK_BYTES = 1 << 20
STANDARD_INPUT = "-"


class InputError(Exception):
    """An argument that cannot be used; the message is one sentence for the user."""

    @classmethod
    def of(cls, name: str, error: OSError) -> "InputError":
        """Say what the operating system said of a file."""
        return cls(f"{name}: {REASONS.get(error.errno or 0) or (error.strerror or str(error)).lower()}")


@dataclass(frozen=True, slots=True)
class CaptureFile:
    """One capture: where it can be read, how the user knows it, and what was lost in spooling it."""

    path: str
    name: str
    spooled: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Inputs:
    """The captures that the arguments name, and why files in directories were left out."""

    files: tuple[CaptureFile, ...]
    skipped: tuple[str, ...] = ()


def open_inputs(paths: Sequence[str], spool: str, stdin: BinaryIO | None = None) -> Inputs:
    """Find the captures that `paths` name; put what must be spooled into the directory `spool`.

    Raises InputError for a path that does not exist, cannot be read or is no capture, and for a directory
    without any. A file named twice is read once.
    """
    found: dict[object, CaptureFile] = {}
    skipped: list[str] = []

    def take(name: str) -> None:
        identity = _identity(name)
        if identity not in found:
            found[identity] = _open(name, os.path.join(spool, f"{len(found)}.capture"), stdin)

    for path in paths:
        if path == STANDARD_INPUT or not os.path.isdir(path):
            take(path)
            continue
        names, refused = _files_in(path), []
        for name in names:
            try:
                take(name)
            except InputError as error:
                refused.append(str(error))
        if len(refused) == len(names):
            raise InputError(f"{path}: no packet captures in this directory")
        skipped += refused
    return Inputs(tuple(found.values()), tuple(skipped))


def _files_in(directory: str) -> list[str]:
    """Give the regular files in a directory, by name."""
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.path for entry in entries if entry.is_file())
    except OSError as error:
        raise InputError.of(directory, error) from None


def _identity(name: str) -> object:
    if name == STANDARD_INPUT:
        return name
    try:
        status = os.stat(name)
    except OSError as error:
        raise InputError.of(name, error) from None
    return status.st_dev, status.st_ino


def _open(name: str, spool: str, stdin: BinaryIO | None) -> CaptureFile:
    """Make one capture readable at any offset: as it is, or spooled to the path `spool`."""
    if name == STANDARD_INPUT:
        return _open_stream(stdin or sys.stdin.buffer, "standard input", None, spool)
    try:
        with Path(name).open("rb", buffering=0) as stream:
            regular = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
            return _open_stream(stream, name, name if regular else None, spool)
    except OSError as error:
        raise InputError.of(name, error) from None


def _open_stream(stream: BinaryIO, name: str, path: str | None, spool: str) -> CaptureFile:
    first = _read_first(stream)
    if not first:
        raise InputError(f"{name} is empty")
    decompress = next((reader for magic, reader in DECOMPRESSORS.items() if first.startswith(magic)), None)
    if path and not decompress:
        check_magic(name, first)
        return CaptureFile(os.path.abspath(path), name)  # executors have working directories of their own
    chunks: Iterator[bytes] = chain([first], iter(lambda: stream.read(CHUNK_BYTES), b""))
    warnings = _spool(name, decompress(chunks) if decompress else chunks, spool)
    return CaptureFile(spool, name, spooled=True, warnings=warnings)


def _read_first(stream: BinaryIO) -> bytes:
    """Read enough to tell what the stream is; a pipe may give less than asked for at a time."""
    first = b""
    while len(first) < SNIFFED_BYTES and (more := stream.read(SNIFFED_BYTES - len(first))):
        first += more
    return first


def _spool(name: str, chunks: Iterator[bytes], spool: str) -> tuple[str, ...]:
    """Write the chunks to `spool` once their first bytes are known to be a capture; give warnings."""
    warnings: tuple[str, ...] = ()
    first = b""
    try:
        for chunk in chunks:
            first += chunk
            if len(first) >= SNIFFED_BYTES:
                break
    except BrokenStream as error:
        warnings, chunks = (f"{error}; what came before was read",), iter(())
    if not first:
        raise InputError(f"{name}: {warnings[0].split(';')[0]}" if warnings else f"{name} is empty")
    check_magic(name, first)
    with Path(spool).open("wb") as file:
        try:
            file.write(first)
            for chunk in chunks:
                file.write(chunk)
        except BrokenStream as error:
            warnings = (f"{error}; what came before was read",)
    return warnings


def check_magic(name: str, first: bytes) -> None:
    """Raise InputError unless `first`, the first bytes of a file, begin a capture."""
    if pcap.read_header(first) or pcapng.section_order(first) is not None:
        return
    if first[:4] in pcap.MAGICS or first[:4] == pcapng.SECTION_MAGIC:
        raise InputError(f"{name}: the header of this capture is cut off or damaged")
    kind = next((kind for magic, kind in LOOKS_LIKE.items() if first.startswith(magic)), None)
    raise InputError(
        f"{name} is not a packet capture (pcap or pcapng)" + (f": it looks like {kind}" if kind else "")
    )


REASONS = {
    errno.ENOENT: "no such file or directory",
    errno.EACCES: "permission denied",
    errno.ENOSPC: "no space left for decompressing it",
}

# What people give by mistake; an alternative where there is one.
LOOKS_LIKE = {
    b"PK\x03\x04": "a zip archive",
    b"BZh": "a bzip2 file (decompress it first)",
    b"\xfd7zXZ\0": "an xz file (decompress it first)",
    b"\x04\x22\x4d\x18": "an lz4 file (decompress it first)",
    b"\x1f\x8b": "a gzip file in a gzip file",
    b"7z\xbc\xaf": "a 7-Zip archive",
    b"snoop\0\0\0": "a snoop capture (editcap converts it)",
    b"GMBU": "a Network Monitor capture (editcap converts it)",
    b"RTSS": "a Network Monitor capture (editcap converts it)",
    b"TRSNIFF data": "a Sniffer capture (editcap converts it)",
    b"XCP\0": "a NetXray capture (editcap converts it)",
    b"PAR1": "a Parquet file",
    b"SQLite format 3": "an SQLite database",
    b"\x7fELF": "a program",
    b"\x89PNG": "a picture",
    b"%PDF": "a PDF document",
    b"<": "HTML or XML text",
    b"{": "JSON text",
    b"[": "JSON text",
    b"#": "a text file",
}
