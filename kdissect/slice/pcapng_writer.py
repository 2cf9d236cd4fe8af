"""The blocks of a pcapng file, laid out as bytes.

In come interfaces, packets, names and secrets, out go blocks of one little-endian section. Times are in
nanoseconds, the finest unit that kdissect reads, so no time of an input loses digits. Layout:
https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html
"""

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kdissect import __version__
from kdissect.capture.formats import pcapng
from kdissect.streams.tls.keylog import TLS_KEY_LOG

COMMENT = 1  # option of every block
APPLICATION = 4  # option of a section header block
NAME, DESCRIPTION, RESOLUTION = 2, 3, 9  # options of an interface description block
FLAGS = 2  # option of an enhanced packet block
NANOSECONDS = b"\x09"  # 10^-9 s
IPV4_NAME, IPV6_NAME = 1, 2  # records of a name resolution block
UNKNOWN_LENGTH = -1
MOST_OPTION_BYTES = 0xFFFF

Option = tuple[int, bytes]


class InterfaceInfo(NamedTuple):
    """Facts of an interface description block."""

    link_type: int
    snap_length: int
    name: str = ""
    description: str = ""


def section_block() -> bytes:
    """Return the section header that a file begins with."""
    body = struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, UNKNOWN_LENGTH)
    return _block(pcapng.SECTION, body + _options([(APPLICATION, f"kdissect {__version__}".encode())]))


def interface_block(interface: InterfaceInfo) -> bytes:
    """Return an interface description; its times are in nanoseconds."""
    texts = ((NAME, interface.name), (DESCRIPTION, interface.description))
    options = [(code, text.encode("utf-8", "replace")) for code, text in texts if text]
    body = struct.pack("<HHI", interface.link_type & 0xFFFF, 0, interface.snap_length)
    return _block(pcapng.INTERFACE, body + _options([*options, (RESOLUTION, NANOSECONDS)]))


def packet_block(
    interface: int, time_ns: int, data: bytes, original: int, options: Sequence[Option] = ()
) -> bytes:
    """Return an enhanced packet: the bytes that were captured, and how many were on the wire."""
    head = struct.pack(
        "<IIIII", interface, time_ns >> 32, time_ns & 0xFFFFFFFF, len(data), original & 0xFFFFFFFF
    )
    return _block(pcapng.ENHANCED_PACKET, head + _padded(data) + _options(options))


def secrets_block(lines: bytes) -> bytes:
    """Return a decryption secrets block with lines of a TLS key log."""
    return _block(pcapng.SECRETS, struct.pack("<II", TLS_KEY_LOG, len(lines)) + _padded(lines))


def names_block(records: Iterable[tuple[int, bytes]]) -> bytes:
    """Return a name resolution block; a record is a kind (IPV4_NAME …) and an address with its names."""
    parts = [struct.pack("<HH", kind, len(value)) + _padded(value) for kind, value in records]
    return _block(pcapng.NAMES, b"".join(parts) + bytes(4))


def comment_option(text: str) -> Option:
    """Return a comment as an option."""
    return COMMENT, text.encode("utf-8", "backslashreplace")


def _block(kind: int, body: bytes) -> bytes:
    length = struct.pack("<I", len(body) + pcapng.BLOCK_OVERHEAD)
    return struct.pack("<I", kind) + length + body + length


def _options(options: Iterable[Option]) -> bytes:
    parts = [
        struct.pack("<HH", code, len(value)) + _padded(value)
        for code, value in ((code, value[:MOST_OPTION_BYTES]) for code, value in options)
    ]
    return b"".join([*parts, bytes(4)]) if parts else b""


def _padded(data: bytes) -> bytes:
    """Return bytes filled up to a multiple of four."""
    return data + bytes(-len(data) % 4)
