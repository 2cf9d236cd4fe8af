"""Files that are not captures, recognised by their first bytes.

Importing this module loads nothing that takes time.

`check_paths` checks the paths of a command before anything is started for them. It refuses what
`inputs.open_inputs` would refuse later, as far as the first bytes show it. Directories, URIs and standard
input are checked later.
"""

import errno
import os
import stat
from collections.abc import Iterable

from kdissect.errors import UserError
from kdissect.text import without_password

STANDARD_INPUT = "-"
GLANCE_BYTES = 12


class InputError(UserError):
    """A path that cannot be read as a capture; the message is one sentence."""

    @classmethod
    def of(cls, name: str, error: OSError) -> "InputError":
        """Return the error for a file that the operating system refused to read."""
        reason = error.strerror or str(error).partition("\n")[0]
        number = error.errno or (errno.ENOENT if isinstance(error, FileNotFoundError) else 0)
        return cls(without_password(f"{name}: {REASONS.get(number) or reason[:1].lower() + reason[1:]}"))


def check_paths(paths: Iterable[str]) -> None:
    """Raise InputError for a path that cannot be read, is empty or does not begin like a capture."""
    for path in paths:
        if path == STANDARD_INPUT or "://" in path:  # a URI: see `storage`
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
    """Return the error for a file that is not a capture, with what it looks like."""
    kind = next((kind for magic, kind in LOOKS_LIKE.items() if first.startswith(magic)), None)
    return InputError(
        f"{name} is not a packet capture (pcap or pcapng)" + (f": it looks like {kind}" if kind else "")
    )


BEGINNINGS = tuple(
    bytes.fromhex(magic)
    for magic in (
        # Pcap, and its variants.
        "a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1", "a1b2cd34", "34cdb2a1", "a1b23c34", "343cb2a1",
        "0a0d0d0a",  # pcapng
        "1f8b", "28b52ffd", "502a4d18",  # gzip, zstd, pzstd
    )
)  # fmt: skip
"""The first bytes of captures and of compressed captures; a test compares them with those of the readers."""

REASONS = {
    errno.ENOENT: "no such file or directory",
    errno.EACCES: "permission denied",
    errno.ENOSPC: "no space left for decompressing it (set TMPDIR to a larger disk)",
}

# Files that people pass by mistake, with an alternative if there is one.
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
