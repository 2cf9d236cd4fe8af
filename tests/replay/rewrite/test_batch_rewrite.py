"""Rewritten headers of batches: kafka-python reads the same records, and checksums hold or stay wrong."""

import crc32c
import pytest
from kafka.record import MemoryRecords, MemoryRecordsBuilder

from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.rewrite.batch_rewrite import (
    batches_of,
    modern,
    rewritten,
)

RECORDS = [(1_700_000_000_000 + number, b"key-%d" % number, b"value-%d" % number * 9) for number in range(12)]


def made(magic: int, codec: int, count: int = 12) -> bytes:
    builder = MemoryRecordsBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
    for timestamp, key, value in RECORDS[:count]:
        builder.append(timestamp=timestamp, key=key, value=value)
    builder.close()
    return bytes(builder.buffer())


def read(data: bytes) -> list[tuple[int | None, bytes, bytes]]:
    records, found = MemoryRecords(data), []
    while (batch := records.next_batch()) is not None:
        assert batch.validate_crc()
        found += [(record.timestamp, record.key, record.value) for record in batch]
    return found


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_another_producer_and_the_same_records(codec: int) -> None:
    (batch,) = batches_of(made(2, codec))
    out = rewritten(batch, 77, 3, 1234)
    assert read(out) == RECORDS
    again = batches_of(out)[0]
    assert (again.producer_id, again.producer_epoch, again.base_sequence, again.records) == (77, 3, 1234, 12)
    assert int.from_bytes(out[17:21], "big") == crc32c.crc32c(out[21:])
    assert out[61:] == batch.data[61:]


def test_time_moves_without_looking_at_records() -> None:
    (batch,) = batches_of(made(2, 4))
    assert read(rewritten(batch, -1, -1, -1, shift_ms=86_400_000)) == [
        (timestamp + 86_400_000, key, value) for timestamp, key, value in RECORDS
    ]


def test_a_wrong_checksum_stays_wrong_by_the_same_bits() -> None:
    data = bytearray(made(2, 0))
    data[17:21] = (int.from_bytes(data[17:21], "big") ^ 0x00FF00).to_bytes(4, "big")
    out = rewritten(batches_of(bytes(data))[0], 5, 1, 9)
    assert int.from_bytes(out[17:21], "big") ^ crc32c.crc32c(out[21:]) == 0x00FF00


@pytest.mark.parametrize("codec", [0, 1, 2, 3])
@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_become_one_batch(magic: int, codec: int) -> None:
    batch = modern(made(magic, codec))
    times = [timestamp if magic else -1 for timestamp, _, _ in RECORDS]
    assert batch.attributes & 7 == codec
    assert read(batch.data) == [(at, key, value) for at, (_, key, value) in zip(times, RECORDS, strict=True)]


def test_several_batches_are_cut_apart() -> None:
    parts = [made(2, codec, count) for codec, count in ((0, 1), (1, 5), (4, 12))]
    assert [batch.data for batch in batches_of(b"".join(parts))] == parts


@pytest.mark.parametrize("data", [b"\0" * 70, made(2, 0)[:-1], b"\xff" * 100, b"\0" * 11])
def test_what_is_no_batch_is_refused(data: bytes) -> None:
    with pytest.raises(SkipRequest) as refused:
        batches_of(data)
    assert refused.value.bucket is Disposition.UNDECODABLE


def test_control_batches_are_for_brokers() -> None:
    data = bytearray(made(2, 0))
    data[22] |= 0x20
    with pytest.raises(SkipRequest, match="control"):
        rewritten(batches_of(bytes(data))[0], 1, 1, 1)
