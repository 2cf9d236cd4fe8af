"""Decompress record batches: gzip, snappy, lz4 and zstd, in all framings that Kafka's clients have used.

In come compressed bytes from a capture, out come plain bytes or a `Damage`: wrong bytes never raise. No
more than `limit` bytes of a stream are produced before it is given up, so a bomb costs at most that much.
Everything must be there: a stream that ends early, or has bytes after its end, is damaged.

Two old framings need their own rule: the snappy of Java clients comes in the blocks of the xerial library,
and the lz4 of clients before Kafka 0.10 has a frame header checksum taken over the magic number as well
(KIP-57).
"""

import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import lz4.frame
import snappy
import zstandard

from kdissect import limits

LIMIT = limits.DECOMPRESSED_BYTES

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = len(XERIAL_MAGIC) + 4 + 4  # two version numbers follow the magic
LZ4_MAGIC = b"\x04\x22\x4d\x18"
LZ4_HAS_CONTENT_SIZE, LZ4_HAS_DICTIONARY = 0x08, 0x01
SNAPPY_RATIO = 22  # three bytes copy 64 at most
# The memory that a frame may ask for before it gives a byte: level 22, Kafka's highest, asks for as much
# (KIP-390). Its pages are used as bytes are made, so that `limit` bounds them.
ZSTD_WINDOW = 128 << 20
MASK = 0xFFFFFFFF
ZSTD_STEP = 1024  # one block of a few bytes makes 128 KiB: feeding so few bounds what one call can produce


class Damage(NamedTuple):
    """Why bytes could not be decompressed."""

    reason: str
    too_large: bool = False  # they may well be right, and become more than the limit


class _Stop(Exception):
    """Ends a decompressor early; never leaves this module."""


class _TooLarge(_Stop):
    """The limit is reached."""


def decompress(codec: int, data: bytes, limit: int = LIMIT) -> bytes | Damage:
    """Decompress `data` by a record batch's codec number, to at most `limit` bytes.

    >>> decompress(1, gzip.compress(b"orders"))
    b'orders'
    >>> decompress(1, b"not gzip")
    Damage(reason='gzip: Error -3 while decompressing data: incorrect header check')
    """
    if codec not in DECOMPRESSORS:
        return Damage(f"codec {codec} is not known")
    name, read = DECOMPRESSORS[codec]
    try:
        return read(data, limit)
    except _Stop as stop:
        return Damage(f"{name}: {stop}", isinstance(stop, _TooLarge))
    except (zlib.error, snappy.UncompressError, RuntimeError, ValueError, zstandard.ZstdError) as error:
        return Damage(f"{name}: {error or 'not a valid block'}")


def _plain(data: bytes, limit: int) -> bytes:
    _require_room(len(data), limit)
    return data


def _gzip(data: bytes, limit: int) -> bytes:
    pieces, size = [], 0
    while data:  # RFC 1952: members may follow one another
        stream = zlib.decompressobj(wbits=31)
        pieces.append(stream.decompress(data, limit - size + 1))
        size += len(pieces[-1])
        _require_room(size, limit)
        _require_end(stream.eof)
        data = stream.unused_data
    _require_end(bool(pieces))
    return b"".join(pieces)


def _snappy(data: bytes, limit: int) -> bytes:
    blocks = _xerial_blocks(data) if data.startswith(XERIAL_MAGIC) else iter([data])
    pieces, size = [], 0
    for block in blocks:
        size += _snappy_size(block)
        _require_room(size, limit)
        pieces.append(snappy.uncompress(block))
    return b"".join(pieces)


def _xerial_blocks(data: bytes) -> Iterator[bytes]:
    offset = XERIAL_HEADER
    _require_end(len(data) >= offset)
    while offset < len(data):
        _require_end(offset + 4 <= len(data))
        size = int.from_bytes(data[offset : offset + 4])
        offset += 4
        _require_end(offset + size <= len(data))
        yield data[offset : offset + size]
        offset += size


def _snappy_size(block: bytes) -> int:
    """Read the size that a raw snappy block promises.

    The decompressor allocates it before it looks at the rest.
    """
    size = 0
    for index, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if size > SNAPPY_RATIO * len(block):
                raise _Stop("more is promised than the block can hold")
            return size
    raise _Stop("no uncompressed size")


def _lz4(data: bytes, limit: int) -> bytes:
    data = _with_true_header_checksum(data)
    pieces, size = [], 0
    while data:
        stream = lz4.frame.LZ4FrameDecompressor()
        pieces.append(stream.decompress(data, limit - size + 1))
        size += len(pieces[-1])
        _require_room(size, limit)
        _require_end(stream.eof)
        data = stream.unused_data or b""
    _require_end(bool(pieces))
    return b"".join(pieces)


def _with_true_header_checksum(data: bytes) -> bytes:
    """Repair the header checksum of old clients, which covered the magic number too (KIP-57)."""
    if not data.startswith(LZ4_MAGIC) or len(data) < 7 or data[4] & LZ4_HAS_DICTIONARY:
        return data
    offset = 14 if data[4] & LZ4_HAS_CONTENT_SIZE else 6
    if offset >= len(data) or data[offset] != _header_checksum(data[:offset]):
        return data
    return data[:offset] + bytes([_header_checksum(data[4:offset])]) + data[offset + 1 :]


def _header_checksum(data: bytes) -> int:
    return (_xxh32(data) >> 8) & 0xFF


def _xxh32(data: bytes) -> int:
    """Return the xxHash32 of fewer than 16 bytes with seed 0, by the algorithm's specification.

    A header has at most 14 bytes. The library would be half a megabyte more to install for the one byte that
    only clients before Kafka 0.10 got wrong.
    """
    first, second, third, fourth, fifth = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
    value = fifth + len(data)
    words = len(data) // 4 * 4
    for offset in range(0, words, 4):
        value = (
            _rotated(value + int.from_bytes(data[offset : offset + 4], "little") * third, 17) * fourth & MASK
        )
    for byte in data[words:]:
        value = _rotated(value + byte * fifth, 11) * first & MASK
    value = (value ^ (value >> 15)) * second & MASK
    value = (value ^ (value >> 13)) * third & MASK
    return value ^ (value >> 16)


def _rotated(value: int, bits: int) -> int:
    value &= MASK
    return value << bits | value >> (32 - bits)


def _zstd(data: bytes, limit: int) -> bytes:
    pieces, size = [], 0
    while data:
        stream = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj()
        offset = 0
        while offset < len(data) and not stream.eof:
            pieces.append(stream.decompress(data[offset : offset + ZSTD_STEP]))
            size += len(pieces[-1])
            _require_room(size, limit)
            offset += ZSTD_STEP
        _require_end(stream.eof)
        data = stream.unused_data + data[offset:]
    _require_end(bool(pieces))
    return b"".join(pieces)


def _require_room(size: int, limit: int) -> None:
    if size > limit:
        raise _TooLarge(f"more than {limit} bytes when decompressed")


def _require_end(reached: bool) -> None:
    if not reached:
        raise _Stop("ends early")


DECOMPRESSORS: dict[int, tuple[str, Callable[[bytes, int], bytes]]] = {
    0: ("none", _plain),
    1: ("gzip", _gzip),
    2: ("snappy", _snappy),
    3: ("lz4", _lz4),
    4: ("zstd", _zstd),
}
