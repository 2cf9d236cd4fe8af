"""Decompression against what compressed it: every codec and framing, cut, damaged, and far too large."""

import gzip
import subprocess
import sys
from collections.abc import Callable
from random import Random

import lz4.frame
import pytest
import snappy
import zstandard
from kafka.codec import snappy_encode

from kdissect.protocol.records.compression import (
    LZ4_HAS_CONTENT_SIZE,
    Damage,
    _header_checksum,
    decompress,
)

PLAIN = b"orders and payments " * 300 + Random(1).randbytes(3000)


def old_lz4(data: bytes, store_size: bool = True) -> bytes:
    """Make the lz4 of a client before Kafka 0.10: its header checksum covers the magic number."""
    good = lz4.frame.compress(data, store_size=store_size)
    at = 14 if good[4] & LZ4_HAS_CONTENT_SIZE else 6
    assert good[at] == _header_checksum(good[4:at])  # ours is xxHash32 if lz4's own header agrees
    return good[:at] + bytes([_header_checksum(good[:at])]) + good[at + 1 :]


def streamed_zstd(data: bytes) -> bytes:
    """Make a zstd frame that does not say its size in front."""
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(data) + stream.flush()


COMPRESSORS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "none": (0, bytes),
    "gzip": (1, gzip.compress),
    "snappy, raw": (2, snappy.compress),
    "snappy, xerial": (2, lambda data: snappy_encode(data, xerial_compatible=True, xerial_blocksize=1024)),
    "lz4": (3, lz4.frame.compress),
    "lz4, old": (3, old_lz4),
    "lz4, old, no size": (3, lambda data: old_lz4(data, store_size=False)),
    "zstd": (4, zstandard.compress),
    "zstd, streamed": (4, streamed_zstd),
}
compressors = pytest.mark.parametrize(("codec", "compress"), COMPRESSORS.values(), ids=COMPRESSORS)


@compressors
@pytest.mark.parametrize("data", [b"", b"x", PLAIN], ids=len)
def test_both_ways(codec: int, compress: Callable[[bytes], bytes], data: bytes) -> None:
    assert decompress(codec, compress(data)) == data


@compressors
def test_the_limit_itself_is_allowed(codec: int, compress: Callable[[bytes], bytes]) -> None:
    assert decompress(codec, compress(PLAIN), limit=len(PLAIN)) == PLAIN


@compressors
def test_what_is_cut_is_damaged(codec: int, compress: Callable[[bytes], bytes]) -> None:
    data = compress(PLAIN)
    if codec:
        for size in (0, 1, 5, 20, len(data) // 2, len(data) - 1):
            assert isinstance(decompress(codec, data[:size]), Damage)


@compressors
def test_no_more_than_the_limit(codec: int, compress: Callable[[bytes], bytes]) -> None:
    result = decompress(codec, compress(PLAIN), limit=5000)
    assert isinstance(result, Damage)


@pytest.mark.parametrize("codec", [1, 3, 4])
def test_frames_may_follow_one_another(codec: int) -> None:
    compress = {1: gzip.compress, 3: lz4.frame.compress, 4: zstandard.compress}[codec]
    assert decompress(codec, compress(PLAIN) + compress(b"more")) == PLAIN + b"more"
    assert isinstance(decompress(codec, compress(PLAIN) + b"garbage"), Damage)


def test_bombs_are_given_up() -> None:
    for codec, bomb in ((1, gzip.compress(bytes(1 << 26))), (4, zstandard.compress(bytes(1 << 26)))):
        assert decompress(codec, bomb, 1 << 20) in (
            Damage("gzip: more than 1048576 bytes when decompressed", too_large=True),
            Damage("zstd: more than 1048576 bytes when decompressed", too_large=True),
        )
    for promise in (b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x08"):
        assert decompress(2, promise) == Damage("snappy: more is promised than the block can hold")
    assert decompress(2, snappy.compress(bytes(1 << 20))) == bytes(1 << 20)


def zstd_of_a_window(size_log: int) -> bytes:
    """Make a zstd frame that asks for a window of this power of two."""
    parameters = zstandard.ZstdCompressionParameters(window_log=size_log)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return stream.compress(PLAIN) + stream.flush()


def test_a_zstd_window_may_be_that_of_the_highest_level() -> None:
    stream = zstandard.ZstdCompressor(level=22).compressobj()
    assert decompress(4, stream.compress(PLAIN) + stream.flush()) == PLAIN
    refused = decompress(4, zstd_of_a_window(28))
    assert isinstance(refused, Damage)
    assert "too much memory" in refused.reason


def test_a_large_window_takes_no_memory_before_it_is_used() -> None:
    code = (
        "import resource; from kdissect.protocol.records.compression import decompress;"
        "used = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; before = used();"
        f"assert isinstance(decompress(4, {zstd_of_a_window(27)!r}), bytes); print(used() - before)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 16 << 10  # KiB


def test_unknown_codecs() -> None:
    assert decompress(7, b"") == Damage("codec 7 is not known")


def test_random_damage_never_raises() -> None:
    rng = Random(3)
    for codec, compress in COMPRESSORS.values():
        good = compress(PLAIN[:2000])
        for _ in range(300):
            data = bytearray(good)
            for _ in range(rng.choice((1, 3))):
                data[min(rng.randrange(len(data)), rng.choice((8, 40, len(data) - 1)))] = rng.randrange(256)
            assert isinstance(decompress(codec, bytes(data), 1 << 16), bytes | Damage)
