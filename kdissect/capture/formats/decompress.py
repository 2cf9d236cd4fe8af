"""Decompress whole files in bounded memory: gzip and zstd, with several members one after another.

All readable bytes are returned; then, if the stream is cut off or damaged, BrokenStreamError is raised.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator

PIECE_BYTES = 1 << 20  # at most this much is decompressed at a time
ZSTD_INPUT_BYTES = 1 << 10  # input at a time, since a zstd block of 4 bytes may stand for 128 KiB


class BrokenStreamError(Exception):
    """A compressed stream is cut off or damaged; the message says which."""


def gunzip(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Return the bytes of a gzip stream (RFC 1952). Zero padding after the last member is allowed."""
    inflate = zlib.decompressobj(wbits=31)
    begun = False
    for chunk in chunks:
        rest = chunk
        while rest:
            if not begun and not (rest := rest.lstrip(b"\0")):
                break
            begun = True
            try:
                piece = inflate.decompress(rest, PIECE_BYTES)
            except zlib.error:
                raise BrokenStreamError("the compressed data is damaged") from None
            if piece:
                yield piece
            rest = inflate.unconsumed_tail
            if inflate.eof:
                rest, inflate, begun = inflate.unused_data, zlib.decompressobj(wbits=31), False
    if begun:
        yield from _last_of(inflate)
        raise BrokenStreamError("the compressed data is cut off")


def _last_of(inflate: "zlib._Decompress") -> Iterator[bytes]:
    if piece := inflate.flush():
        yield piece


def unzstd(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Return the bytes of a zstd stream (RFC 8878)."""
    import zstandard  # noqa: PLC0415 - Java would wait for it in the start of each run

    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 31)
    frame = decompressor.decompressobj()
    begun = False
    for chunk in chunks:
        for at in range(0, len(chunk), ZSTD_INPUT_BYTES):
            rest = chunk[at : at + ZSTD_INPUT_BYTES]
            while rest:
                begun = True
                try:
                    piece = frame.decompress(rest)
                except zstandard.ZstdError:
                    raise BrokenStreamError("the compressed data is damaged") from None
                if piece:
                    yield piece
                rest = b""
                if frame.eof:
                    rest, frame, begun = frame.unused_data, decompressor.decompressobj(), False
    if begun:
        raise BrokenStreamError("the compressed data is cut off")


DECOMPRESSORS: dict[bytes, Callable[[Iterable[bytes]], Iterator[bytes]]] = {
    b"\x1f\x8b\x08": gunzip,
    b"\x28\xb5\x2f\xfd": unzstd,
    b"\x50\x2a\x4d\x18": unzstd,  # pzstd writes a skippable frame in front of each other one
}
LONGEST_MAGIC = max(map(len, DECOMPRESSORS))


def is_compressed(first: bytes) -> bool:
    """Return whether the first bytes of a file are those of a compressed one."""
    return first.startswith(tuple(DECOMPRESSORS))
