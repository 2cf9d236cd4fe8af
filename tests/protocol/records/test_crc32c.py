"""CRC-32C against published vectors and another library, and on batches that kafka-python made."""

from random import Random

import pytest
from kafka.record import MemoryRecordsBuilder

from kdissect.protocol.records.crc32c import checksum_holds, crc32c, patched_crc32c

VECTORS = (  # RFC 3720, appendix B.4, and the usual check value
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(reversed(range(32))), 0x113FDB5C),
    (b"123456789", 0xE3069283),
    (b"", 0),
)


@pytest.mark.parametrize(("data", "value"), VECTORS)
def test_published_vectors(data: bytes, value: int) -> None:
    assert crc32c(data) == value


def test_patched_checksums_are_those_of_the_changed_bytes() -> None:
    other = pytest.importorskip("crc32c")
    rng = Random(1)
    for behind in (0, 1, 7, 100, 1 << 16):
        before, after, rest = rng.randbytes(40), rng.randbytes(40), rng.randbytes(behind)
        old, new = other.crc32c(before + rest), other.crc32c(after + rest)
        assert patched_crc32c(old, before, after, behind) == new
        assert patched_crc32c(old ^ 5, before, after, behind) == new ^ 5  # what was wrong stays wrong


def batch(magic: int) -> bytes:
    """Make one batch, or message, by kafka-python."""
    builder = MemoryRecordsBuilder(magic, 0, 1000)
    builder.append(timestamp=1, key=b"key", value=b"value", headers=[])
    builder.close()
    return bytes(builder.buffer())


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_checksums_of_batches(magic: int) -> None:
    data = batch(magic)
    good = b"??" + data
    assert checksum_holds(good, 2, len(good)) is True
    for at in range(16 if magic < 2 else 21, len(data)):
        bad = bytearray(good)
        bad[2 + at] ^= 1
        assert checksum_holds(bytes(bad), 2, len(bad)) in ((False, None) if at == 16 else (False,))
    for stop in range(2, len(good)):
        assert checksum_holds(good, 2, stop) is None


def test_an_unknown_magic_has_no_checksum() -> None:
    assert checksum_holds(bytes([9] * 100), 0, 100) is None
