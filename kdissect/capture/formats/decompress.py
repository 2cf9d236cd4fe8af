"""Decompress whole files piece by piece: gzip and zstd, several members one after another, in bounded memory.

Whatever is readable comes out; then, if the stream is cut off or damaged, `BrokenStreamError` says so.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator

import zstandard

PIECE_BYTES = 1 << 20  # most that comes out at once of gzip
ZSTD_INPUT_BYTES = 1 << 10  # a zstd block of 4 bytes may stand for 128 KiB: little is given in at a time


class BrokenStreamError(Exception):
    """A compressed stream that ends too early or makes no sense; the message says which."""


def gunzip(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Decompress gzip (RFC 1952). Zero padding after the last member is allowed."""
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
    """Decompress zstd (RFC 8878)."""
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
}
