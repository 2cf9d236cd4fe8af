"""Decompression of gzip and zstd: several members, cut and damaged streams, bounded pieces."""

import gzip
import random
from collections.abc import Callable, Iterable, Iterator

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kdissect.capture.formats.decompress import (
    DECOMPRESSORS,
    LONGEST_MAGIC,
    PIECE_BYTES,
    BrokenStreamError,
    gunzip,
    is_compressed,
    unzstd,
)

Decompress = Callable[[Iterable[bytes]], Iterator[bytes]]
NOISE = random.Random(4).randbytes(20_000)
DATA = NOISE + bytes(30_000) + b"text " * 1000
CUT, DAMAGED = "the compressed data is cut off", "the compressed data is damaged"


def gzipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


FORMATS: dict[str, tuple[Decompress, Callable[[bytes], bytes]]] = {
    "gzip": (gunzip, gzipped),
    "zstd": (unzstd, zstd),
}
EVERY_FORMAT = pytest.mark.parametrize(("decompress", "compress"), FORMATS.values(), ids=FORMATS)


def chunked(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def read(pieces: Iterator[bytes]) -> tuple[bytes, str]:
    """Return the readable bytes, and why reading ended: the message of the error, empty without one."""
    out = bytearray()
    try:
        for piece in pieces:
            out += piece
    except BrokenStreamError as error:
        return bytes(out), str(error)
    return bytes(out), ""


@EVERY_FORMAT
def test_members_in_chunks_of_any_size(decompress: Decompress, compress: Callable[[bytes], bytes]) -> None:
    packed = compress(DATA) + compress(b"") + compress(NOISE[:1]) + compress(DATA)
    for size in (1, 7, 1024, 1025, 1 << 20):
        assert read(decompress(chunked(packed, size))) == (DATA + NOISE[:1] + DATA, "")


@given(st.lists(st.binary(max_size=200), max_size=5), st.integers(1, 50))
@pytest.mark.slow
def test_any_members_come_out_one_after_another(members: list[bytes], size: int) -> None:
    for decompress, compress in FORMATS.values():
        packed = b"".join(compress(member) for member in members)
        assert read(decompress(chunked(packed, size))) == (b"".join(members), "")


def test_zero_padding_between_and_behind_gzip_members() -> None:
    packed = gzipped(b"one") + bytes(700) + gzipped(b"two") + bytes(700)
    for size in (1, 300, 5000):
        assert read(gunzip(chunked(packed, size))) == (b"onetwo", "")


@EVERY_FORMAT
def test_a_stream_cut_anywhere_in_its_second_member(
    decompress: Decompress, compress: Callable[[bytes], bytes]
) -> None:
    first, second = compress(b"first"), compress(NOISE[:300])
    for kept in range(1, len(second)):
        out, why = read(decompress([first + second[:kept]]))
        assert why == CUT
        assert out.startswith(b"first")
        assert (b"first" + NOISE[:300]).startswith(out)
    assert read(decompress([first])) == (b"first", "")


@EVERY_FORMAT
def test_the_readable_part_of_a_cut_stream_is_returned(
    decompress: Decompress, compress: Callable[[bytes], bytes]
) -> None:
    data = random.Random(6).randbytes(1 << 20)
    packed = compress(data)
    out, why = read(decompress(chunked(packed[: len(packed) * 2 // 3], 5000)))
    assert why == CUT
    assert data.startswith(out)
    assert len(out) > len(data) // 2


@EVERY_FORMAT
def test_damage_in_the_second_member_keeps_the_first(
    decompress: Decompress, compress: Callable[[bytes], bytes]
) -> None:
    first, second = compress(b"first"), compress(NOISE)
    assert read(decompress([first + b"garbage behind the end"])) == (b"first", DAMAGED)
    broken = bytearray(second)
    broken[-5] ^= 0xFF  # in the checksum or its neighbourhood
    out, why = read(decompress([first + broken]))
    assert why in (DAMAGED, CUT)
    assert out.startswith(b"first")


@given(st.data())
def test_any_mutation_ends_in_bytes_or_in_one_error(data: st.DataObject) -> None:
    for decompress, compress in FORMATS.values():
        packed = bytearray(compress(b"some text, " * 40) + compress(NOISE[:100]))
        at = data.draw(st.integers(0, len(packed) - 1))
        packed[at] ^= data.draw(st.integers(1, 255))
        out, why = read(decompress(chunked(bytes(packed), data.draw(st.integers(1, 600)))))
        assert why in ("", CUT, DAMAGED)
        assert len(out) <= 1 << 20


@EVERY_FORMAT
def test_pieces_of_a_bomb_are_bounded(decompress: Decompress, compress: Callable[[bytes], bytes]) -> None:
    size = 64 << 20
    packed = compress(bytes(size))
    assert len(packed) < size // 500
    lengths = [len(piece) for piece in decompress([packed])]
    assert sum(lengths) == size
    # A zstd block of four bytes stands for 128 KiB, and the input is passed on in steps of a kilobyte.
    assert max(lengths) <= (PIECE_BYTES if decompress is gunzip else 256 * (128 << 10))


def test_nothing_is_nothing() -> None:
    for decompress, _ in FORMATS.values():
        assert read(decompress([])) == (b"", "")
        assert read(decompress([b"", b""])) == (b"", "")


def test_the_first_bytes_choose_the_decompressor() -> None:
    for decompress, compress in FORMATS.values():
        (chosen,) = [each for magic, each in DECOMPRESSORS.items() if compress(DATA).startswith(magic)]
        assert chosen is decompress


def test_the_first_bytes_tell_what_is_compressed() -> None:
    assert all(is_compressed(compress(DATA)[:LONGEST_MAGIC]) for _, compress in FORMATS.values())
    assert not any(map(is_compressed, (b"", b"\xd4\xc3\xb2\xa1", b"\x0a\x0d\x0d\x0a", b"\x1f\x8b")))
