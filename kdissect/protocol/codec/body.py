"""The plain codec: bytes of a message to dicts and lists, and back to the same bytes.

A `Message` at one version is compiled, once, to closures over `wire`'s readers and writers. `decode` gives a dict per
struct and a list per array, with exactly the tagged fields that were on the wire; tagged fields that the schema does not
know stand under `UNKNOWN_TAGS` as (tag, bytes). `encode` takes the same tree; what is missing in it takes its default.

Wrong bytes never raise: `decode` stops at the first one, keeps what it has read until there, and says in a `Fault` which
field it was in and at which byte that field starts. Wrong are, besides bytes that are missing or left over: lengths below
-1, counts that cannot fit, a nullable struct that is marked neither present (1) nor absent (-1), a tagged field whose size
is not that of its value, and tags that do not ascend. Work is bounded by the bytes given, memory by `limits` too, depth by the
schema.

Values that a field cannot hold raise `EncodeError`: a number or a length that does not fit. A caller's mistake raises
ValueError: a field or version that the message does not have.
"""

import struct
from functools import cache
from typing import Any, NamedTuple

from kdissect.protocol.codec.decode import message_reader
from kdissect.protocol.codec.encode import struct_writer
from kdissect.protocol.codec.wire import (
    DecodeError,
    Reader,
    Writer,
)
from kdissect.protocol.schema.definition import (
    EMPTY_ARRAY,
    UNKNOWN_TAGS,
    Message,
)

__all__ = [
    "UNKNOWN_TAGS",
    "Decoded",
    "EncodeError",
    "Fault",
    "decode",
    "decode_start",
    "encode",
    "fault_of",
    "reader",
    "writer",
]


class EncodeError(Exception):
    """A value does not fit its field; the message names the API message and says why."""


class Fault(NamedTuple):
    """Where captured bytes stop making sense."""

    path: str  # the field, as in topics[2].partitions[0].records; "" is the message itself
    offset: int  # where that field starts in the bytes that were given
    reason: str

    def __str__(self) -> str:
        return f"{self.path or 'message'} at byte {self.offset}: {self.reason}"


class Decoded(NamedTuple):
    """What was read: all of it, or all that stands before the fault."""

    value: dict[str, Any]
    consumed: int  # the position after the last byte that was read; where the fault is, if there is one
    fault: Fault | None


def decode(message: Message, version: int, data: bytes, at: int = 0) -> Decoded:
    """Decode a message that fills `data` from `at` on; bytes left over are a fault too."""
    decoded = decode_start(message, version, data, at)
    if decoded.fault is None:
        return decoded._replace(fault=left_over(message, version, data, decoded.consumed))
    return decoded


def left_over(message: Message, version: int, data: bytes, at: int) -> Fault | None:
    """Say what is wrong with what stands behind a message."""
    left = len(data) - at
    if left == 0 or (version in message.trailing and data[at:] == EMPTY_ARRAY):
        return None
    return Fault("", at, f"{left} bytes left over")


def decode_start(message: Message, version: int, data: bytes, at: int = 0) -> Decoded:
    """Decode a message that starts at `at`; whatever follows it is left alone."""
    try:
        value, stop = reader(message, version)(data, at, len(data))
    except DecodeError as wrong:
        return Decoded(wrong.partial, wrong.offset, fault_of(wrong))
    return Decoded(value, stop, None)


def encode(message: Message, version: int, value: dict[str, Any]) -> bytes:
    """Return the bytes of a message; those that it was decoded from, if it was.

    Raise EncodeError for a value that does not fit, ValueError for a field or version that the message does not have.
    """
    out = bytearray()
    try:
        writer(message, version)(out, value)
    except struct.error as wrong:
        raise EncodeError(f"{message.name} v{version}: {wrong}") from None
    return bytes(out)


@cache
def reader(message: Message, version: int) -> Reader:
    """Compile the reader of a message in one version."""
    _check_version(message, version)
    return message_reader(message, version, version in message.flexible)


@cache
def writer(message: Message, version: int) -> Writer:
    """Compile the writer of a message in one version."""
    _check_version(message, version)
    return struct_writer(message, version, version in message.flexible)


def _check_version(message: Message, version: int) -> None:
    if version not in message.versions:
        raise ValueError(f"{message.name} has no version {version}")


def fault_of(wrong: DecodeError) -> Fault:
    """Make a fault of what a reader met."""
    parts = (part if part.startswith("[") else f".{part}" for part in reversed(wrong.path))
    return Fault("".join(parts).removeprefix("."), wrong.offset, wrong.reason)
