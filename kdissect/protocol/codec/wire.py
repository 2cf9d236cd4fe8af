"""The primitive types on the wire: how each is read, how it is written, and the fewest bytes it takes.

A reader is `read(data, offset, end) -> (value, next)`; it never looks at bytes from `end` on, and when the
bytes are wrong it raises `DecodeError`, which `messages` turns into a fault. A writer is `write(out, value)`.

Values are those on the wire. Times stay integers, UUIDs stay 16 bytes, -1 stays -1. Strings are UTF-8 with
surrogate escapes, so text that is not UTF-8 keeps its bytes; a bool that is neither 0 nor 1 stays that
integer. These readers are as lenient as Kafka's own: they accept null in a field that cannot be null, and a
varint that is longer than necessary (the only value that is written back differently). Lengths below -1 are
wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any

Reader = Callable[[bytes, int, int], tuple[Any, int]]
Writer = Callable[[bytearray, Any], None]

# Types of fixed size, as struct codes (all big-endian).
FIXED = {
    "bool": "B",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}

NOTHING: Any = object()  # stands for a value of which no part could be read

VARINT_LIMIT = 0xFFFFFFFF


class CodecError(Exception):
    """A message cannot be decoded or encoded, whatever its bytes or values are."""


class EncodeError(CodecError):
    """A value does not fit its field."""


class DecodeError(CodecError):
    """The bytes at `offset` cannot be what the schema says; `path` and `partial` grow on the way out."""

    def __init__(self, offset: int, reason: str, partial: Any = NOTHING) -> None:
        super().__init__(reason)
        self.offset = offset
        self.reason = reason
        self.partial = partial
        self.path: list[str] = []  # innermost first


def fixed_reader(kind: str) -> Reader:
    """Return the reader of one value of a type of `FIXED`."""
    layout = Struct(f">{FIXED[kind]}")
    size, unpack = layout.size, layout.unpack_from

    def read(data: bytes, offset: int, end: int) -> tuple[Any, int]:
        if end - offset < size:
            raise DecodeError(offset, f"only {end - offset} of {size} bytes")
        return unpack(data, offset)[0], offset + size

    def read_bool(data: bytes, offset: int, end: int) -> tuple[Any, int]:
        byte, offset = read(data, offset, end)
        return as_bool(byte), offset

    return read_bool if kind == "bool" else read


def fixed_writer(kind: str) -> Writer:
    """Return the writer of one value of a type of `FIXED`."""
    pack = Struct(f">{FIXED[kind]}").pack

    def write(out: bytearray, value: Any) -> None:
        out += pack(value)

    return write


def as_bool(byte: int) -> bool | int:
    """Return a byte as a bool; one that is neither 0 nor 1 stays a number."""
    return byte == 1 if byte < 2 else byte


def read_uvarint(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits in at most 5 bytes (KIP-482)."""
    if offset < end and data[offset] < 0x80:
        return data[offset], offset + 1
    value = 0
    for index, byte in enumerate(data[offset : min(end, offset + 5)]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80 and value <= VARINT_LIMIT:
            return value, offset + index + 1
    raise DecodeError(offset, "varint ends early" if end - offset < 5 else "varint longer than 32 bits")


def read_tag_count(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """Read how many tagged fields follow (KIP-482); each takes two bytes at least."""
    count, start = read_uvarint(data, offset, end)
    if count * 2 > end - start:
        raise DecodeError(offset, f"{count} tagged fields, but {end - start} bytes left")
    return count, start


def read_tag(data: bytes, offset: int, end: int, previous: int) -> tuple[int, int, int]:
    """Read what precedes the value of a tagged field: return its tag, and where the value begins and ends."""
    tag, size_at = read_uvarint(data, offset, end)
    size, start = read_uvarint(data, size_at, end)
    if tag <= previous:
        raise DecodeError(offset, f"tag {tag} after tag {previous}")
    if size > end - start:
        raise DecodeError(offset, f"tag {tag} has {size} bytes, but {end - start} are left")
    return tag, start, start + size


def write_uvarint(out: bytearray, value: int) -> None:
    """Write an unsigned varint in as few bytes as it takes."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _read_compact(data: bytes, offset: int, end: int) -> tuple[int, int]:
    if offset < end and data[offset] < 0x80:
        return data[offset] - 1, offset + 1
    value, offset = read_uvarint(data, offset, end)
    return value - 1, offset


def _write_compact(out: bytearray, value: int) -> None:
    write_uvarint(out, value + 1)


@dataclass(frozen=True, slots=True)
class Length:
    """How a length or a count is written; -1 stands for null."""

    read: Reader
    write: Writer
    size: int  # the fewest bytes it takes

    def reader(self, decode: Callable[[bytes], Any], keep_cut: bool = False) -> Reader:
        """Return the reader of a value that is a length and as many bytes.

        With `keep_cut`, a value that is cut off keeps its bytes.
        """
        read_length = self.read

        def read(data: bytes, offset: int, end: int) -> tuple[Any, int]:
            size, start = read_length(data, offset, end)
            stop = start + size
            if size > end - start:
                cut = data[start:end] if keep_cut else NOTHING
                raise DecodeError(offset, f"length {size}, but {end - start} bytes left", cut)
            if size >= 0:
                return decode(data[start:stop]), stop
            if size == -1:
                return None, start
            raise DecodeError(offset, f"negative length {size}")

        return read

    def writer(self, encode: Callable[[Any], bytes]) -> Writer:
        """Return the writer of a value that is a length and as many bytes."""
        write_length = self.write

        def write(out: bytearray, value: Any) -> None:
            if value is None:
                write_length(out, -1)
            else:
                raw = encode(value)
                write_length(out, len(raw))
                out += raw

        return write


def _read_text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _write_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


INT16_LENGTH = Length(fixed_reader("int16"), fixed_writer("int16"), 2)
INT32_LENGTH = Length(fixed_reader("int32"), fixed_writer("int32"), 4)
COMPACT_LENGTH = Length(_read_compact, _write_compact, 1)

# Types with a length: (length outside flexible versions, length in them).
SIZED = {
    "string": (INT16_LENGTH, COMPACT_LENGTH),
    "int16_string": (INT16_LENGTH, INT16_LENGTH),
    "bytes": (INT32_LENGTH, COMPACT_LENGTH),
    "records": (INT32_LENGTH, COMPACT_LENGTH),
}


def sized_reader(kind: str, flexible: bool) -> Reader:
    """Return the reader of a type of `SIZED`; a records field that is cut off keeps its bytes."""
    length = SIZED[kind][flexible]
    return length.reader(_read_text if "string" in kind else bytes, keep_cut=kind == "records")


def sized_writer(kind: str, flexible: bool) -> Writer:
    """Return the writer of a type of `SIZED`."""
    return SIZED[kind][flexible].writer(_write_text if "string" in kind else bytes)


def count_length(flexible: bool) -> Length:
    """Return how the elements of an array are counted."""
    return COMPACT_LENGTH if flexible else INT32_LENGTH
