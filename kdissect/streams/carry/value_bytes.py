"""A tree of plain values as bytes: versioned, checked, compressed, and without pickle.

A tree is made of None, bool, int, str, bytes, NumPy arrays, lists, and dicts with keys of text. The bytes are
a header and a body:

    header   MAGIC, version, checksum of all that follows, bytes of the body before it was compressed
    body     zstd: length of the text, the tree as JSON, then arrays (in NumPy's format) and bytes

In the JSON, `{"array": n}` and `{"bytes": n}` stand for part n. A dict that could be taken for one of
these is refused. Bytes of another version, or damaged ones, raise CarriedStateError.
"""

import io
import json
import struct
import zlib
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from kdissect.errors import UserError

Value: TypeAlias = Any
"""None, bool, int, str, bytes, an array, a list of values, or a dict of values by text."""

MAGIC = b"kdissect carried\n"
VERSION = 1
_HEADER = struct.Struct(f"<{len(MAGIC)}sIIQ")
_COUNT = struct.Struct("<QQ")
_SIZE = struct.Struct("<Q")
CODEC = "zstd"
STAND_INS = ("array", "bytes")
MOST_BYTES = 1 << 34


class CarriedStateError(UserError):
    """State of another run cannot be used; the message is one sentence."""


def to_bytes(value: Value) -> bytes:
    """Return a tree as bytes. Raise TypeError for a value of another kind."""
    parts: list[bytes] = []
    text = json.dumps(_plain(value, parts), separators=(",", ":")).encode()
    pieces = [_COUNT.pack(len(text), len(parts)), text]
    for part in parts:
        pieces += [_SIZE.pack(len(part)), part]
    body = b"".join(pieces)
    packed = pa.compress(body, codec=CODEC, asbytes=True)
    return _HEADER.pack(MAGIC, VERSION, _checksum(packed, len(body)), len(body)) + packed


def from_bytes(data: bytes, name: str = "the carried state") -> Value:
    """Return the tree that `to_bytes` wrote. Raise CarriedStateError, which calls the bytes `name`."""
    if len(data) < _HEADER.size or not data.startswith(MAGIC):
        raise CarriedStateError(f"{name} is not a state of kdissect, or its beginning is damaged")
    _, version, checksum, size = _HEADER.unpack_from(data)
    if version != VERSION:
        raise CarriedStateError(f"{name} was written by another version of kdissect (format {version})")
    packed = data[_HEADER.size :]
    if _checksum(packed, size) != checksum or size > MOST_BYTES:
        raise CarriedStateError(f"{name} is damaged")
    body = memoryview(pa.decompress(packed, decompressed_size=size, codec=CODEC, asbytes=True))
    length, count = _COUNT.unpack_from(body)
    at = _COUNT.size + length
    text = bytes(body[_COUNT.size : at])
    parts = []
    for _ in range(count):
        (length,) = _SIZE.unpack_from(body, at)
        at += _SIZE.size
        parts.append(body[at : at + length])
        at += length
    return _full(json.loads(text), parts)


def _checksum(packed: bytes, size: int) -> int:
    return zlib.crc32(packed, zlib.crc32(_SIZE.pack(size)))


def _plain(value: Value, parts: list[bytes]) -> Any:
    """Return a value as JSON knows it; arrays and bytes go to `parts`."""
    if isinstance(value, np.ndarray):
        out = io.BytesIO()
        np.save(out, value, allow_pickle=False)
        parts.append(out.getvalue())
        return {"array": len(parts) - 1}
    if isinstance(value, bytes):
        parts.append(value)
        return {"bytes": len(parts) - 1}
    if isinstance(value, dict):
        if len(value) == 1 and set(value).intersection(STAND_INS):
            raise TypeError(f"a dict with nothing but {next(iter(value))!r} stands for a part")
        return {key: _plain(part, parts) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, parts) for part in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    raise TypeError(f"{type(value).__name__} cannot be carried")


def _full(value: Any, parts: list[memoryview]) -> Value:
    """Return a value of JSON with its arrays and bytes."""
    if isinstance(value, list):
        return [_full(part, parts) for part in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (kind, number), *_ = value.items()
        if kind == "bytes":
            return bytes(parts[number])
        if kind == "array":
            return np.load(io.BytesIO(parts[number]), allow_pickle=False)
    return {key: _full(part, parts) for key, part in value.items()}
