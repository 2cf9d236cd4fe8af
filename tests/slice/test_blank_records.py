"""Blanked batches are as long as before, have right checksums, and the same records without their content."""

import random

import pytest

from kdissect.protocol.records.record_decoder import (
    Record,
    RecordBatch,
    RecordFault,
    RecordHeader,
    read_records,
)
from kdissect.protocol.records.record_encoder import encode_batch
from kdissect.slice.blank_records import RecordBlanker
from kdissect.slice.same_length_names import SameLengthPseudonyms

SECRET = b"do not show"


def blanker() -> RecordBlanker:
    return RecordBlanker(SameLengthPseudonyms.new("a key"))


def batch(codec: int, count: int, size: int, seed: int = 1) -> bytes:
    chance = random.Random(seed)
    of = RecordBatch(0, 2, codec, 0, False, None)
    return encode_batch([
        Record(
            of, number, 1000 + number, SECRET + b"%d" % (number % 7) if number % 2 else None,
            bytes(chance.choices(b'abcdefgh {}":,', k=size)), (RecordHeader(b"source", SECRET),),
        )
        for number in range(count)
    ])  # fmt: skip


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize(("count", "size"), [(1, 20), (2, 200), (5, 1500), (50, 5), (400, 90)])
def test_records_keep_their_sizes(codec: int, count: int, size: int) -> None:
    data, made = batch(codec, count, size), blanker()
    blank = made.blank(data)
    assert len(blank) == len(data)
    before, after = list(read_records(data)), list(read_records(blank))
    assert made.opaque == 0
    for one, other in zip(before, after, strict=True):
        assert isinstance(one, Record)
        assert isinstance(other, Record)
        assert other.batch.checksum_holds
        assert (one.offset, one.timestamp_ms) == (other.offset, other.timestamp_ms)
        assert len(one.key or b"") == len(other.key or b"")
        assert len(one.value or b"") == len(other.value or b"")
        assert SECRET not in repr(other).encode()
    keys = {one.key: other.key for one, other in zip(before, after, strict=True)}  # type: ignore[union-attr]
    assert len(set(keys.values())) == len(keys)


def test_what_cannot_be_read_keeps_its_header_only() -> None:
    data, made = bytearray(batch(4, 9, 90)), blanker()
    data[70:90] = SECRET.ljust(20, b"!")
    blank = made.blank(bytes(data) + SECRET)
    assert len(blank) == len(data) + len(SECRET)
    assert made.opaque == 1
    assert blank[61:] == b"\xff" * (len(blank) - 61)
    assert blank[57:61] == data[57:61]  # number of records


def test_any_bytes_are_survived() -> None:
    chance = random.Random(7)
    good = batch(0, 20, 30)
    for _ in range(400):
        data = bytearray(good)
        for _change in range(3):
            data[chance.randrange(len(data))] = chance.randrange(256)
        blank = blanker().blank(bytes(data[: chance.randrange(len(data) + 1)]))
        assert SECRET not in blank
        assert not any(isinstance(one, RecordFault) and not one.reason for one in read_records(blank))
