"""CRC-32C against published vectors and another library.

Batch checksums on batches that kafka-python made.
"""

from random import Random

import numpy as np
import pytest
from kafka.record import MemoryRecordsBuilder

from kdissect.protocol.records.crc32c import checksum_holds, crc32c

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
    assert int(crc32c(np.frombuffer(data, np.uint8), 0, len(data))) == value


def test_parts_of_an_array() -> None:
    other = pytest.importorskip("crc32c")
    data = Random(1).randbytes(200)
    array = np.frombuffer(data, np.uint8)
    for start, stop in ((0, 200), (1, 200), (3, 11), (5, 5), (7, 8), (0, 7)):
        assert int(crc32c(array, start, stop)) == other.crc32c(data[start:stop])


def batch(magic: int) -> bytes:
    """Make one batch, or message, by kafka-python."""
    builder = MemoryRecordsBuilder(magic, 0, 1000)
    builder.append(timestamp=1, key=b"key", value=b"value", headers=[])
    builder.close()
    return bytes(builder.buffer())


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_checksums_of_batches(magic: int) -> None:
    data = batch(magic)
    good = np.frombuffer(b"??" + data, np.uint8)
    assert checksum_holds(good, 2, len(good)) is True
    for at in range(16 if magic < 2 else 21, len(data)):
        bad = good.copy()
        bad[2 + at] ^= 1
        assert checksum_holds(bad, 2, len(bad)) in ((False, None) if at == 16 else (False,))
    for stop in range(2, len(good)):
        assert checksum_holds(good, 2, stop) is None


def test_an_unknown_magic_has_no_checksum() -> None:
    assert checksum_holds(np.full(100, 9, np.uint8), 0, 100) is None
