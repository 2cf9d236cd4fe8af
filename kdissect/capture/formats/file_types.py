"""What is no capture, told from its first bytes and in one sentence; importing this loads nothing that takes time.

`check_paths` looks at the paths of a command before anything is started for them: it refuses what `files.open_inputs`
would refuse later, as far as a glance can tell. Directories, URIs and standard input are left to it.
"""

import errno
import os
import stat
from collections.abc import Iterable

from kdissect.errors import UserError

STANDARD_INPUT = "-"
GLANCE_BYTES = 12


class InputError(UserError):
    """An argument that cannot be used; the message is one sentence for the user."""

    @classmethod
    def of(cls, name: str, error: OSError) -> "InputError":
        """Say what the operating system said of a file."""
        said = error.strerror or str(error).partition("\n")[0]
        number = error.errno or (errno.ENOENT if isinstance(error, FileNotFoundError) else 0)
        return cls(f"{name}: {REASONS.get(number) or said[:1].lower() + said[1:]}")


def check_paths(paths: Iterable[str]) -> None:
    """Raise InputError for a path that is not there, cannot be read, is empty or begins like no capture."""
    for path in paths:
        if path == STANDARD_INPUT or "://" in path:  # a URI: see `source`
            continue
        try:
            mode = os.stat(path).st_mode
            if stat.S_ISDIR(mode):
                os.scandir(path).close()
            if not stat.S_ISREG(mode):
                continue
            with open(path, "rb") as file:  # noqa: PTH123 - pathlib takes longer to load than this to run
                first = file.read(GLANCE_BYTES)
        except OSError as error:
            raise InputError.of(path, error) from None
        if not first:
            raise InputError(f"{path} is empty")
        if not first.startswith(BEGINNINGS):
            raise not_a_capture(path, first)


def not_a_capture(name: str, first: bytes) -> InputError:
    """Say that a file is no capture, and what it looks like."""
    kind = next((kind for magic, kind in LOOKS_LIKE.items() if first.startswith(magic)), None)
    return InputError(
        f"{name} is not a packet capture (pcap or pcapng)" + (f": it looks like {kind}" if kind else "")
    )


BEGINNINGS = tuple(
    bytes.fromhex(magic)
    for magic in (
        "a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1", "a1b2cd34", "34cdb2a1", "a1b23c34", "343cb2a1",  # pcap, and its variants
        "0a0d0d0a",  # pcapng
        "1f8b", "28b52ffd",  # gzip, zstd
    )
)  # fmt: skip
"""How captures begin, and what they may be packed in; a test holds them against the readers' own."""

REASONS = {
    errno.ENOENT: "no such file or directory",
    errno.EACCES: "permission denied",
    errno.ENOSPC: "no space left for decompressing it (set TMPDIR to a larger disk)",
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
