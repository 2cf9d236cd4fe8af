"""Records against kafka-python's writers: every format and codec, control batches, wrappers, damage."""

import gzip
from dataclasses import replace
from random import Random

import pytest

from kdissect.protocol.records.compression import LIMIT
from kdissect.protocol.records.record_decoder import (
    CONTROL_NAMES,
    Record,
    RecordFault,
    RecordHeader,
    count_records,
    read_records,
)
from tests.helpers.kafka_python_records import FORMATS, RECORDS, expected, record_set


def records_in(data: bytes) -> list[Record]:
    """Read records that all are good."""
    found = list(read_records(data))
    assert all(isinstance(record, Record) for record in found), found
    return [record for record in found if isinstance(record, Record)]


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_everything_in_a_record(magic: int, codec: int) -> None:
    found = records_in(record_set(magic, codec))
    assert [
        (r.offset, r.timestamp_ms, r.key, r.value, [(h.key.decode(), h.value) for h in r.headers])
        for r in found
    ] == list(expected(magic))
    for record in found:
        assert (record.batch.magic, record.batch.codec, record.control) == (magic, codec, None)
        assert record.batch.checksum_holds is True


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_counting_is_reading(magic: int, codec: int) -> None:
    data = record_set(magic, codec) + record_set(2, 1) + record_set(magic, codec)[:-1]
    assert count_records(data) == len(records_in(data))


@pytest.mark.parametrize("offset", [0, 9, 1002])
def test_offsets_in_a_wrapper_of_magic_1_are_relative(offset: int) -> None:
    data = offset.to_bytes(8) + record_set(1, 1)[8:]
    first = offset - 2 if offset else 0  # a producer that does not care says 0
    assert [record.offset for record in records_in(data)] == [first, first + 1, first + 2]
    assert {record.batch.base_offset for record in records_in(data)} == {first}


def test_offsets_in_a_wrapper_of_magic_0_are_absolute() -> None:
    data = (1002).to_bytes(8) + record_set(0, 1)[8:]
    assert [record.offset for record in records_in(data)] == [0, 1, 2]
    assert {record.batch.base_offset for record in records_in(data)} == {0}


def test_the_time_of_the_broker_stands_for_all_inside() -> None:
    old = bytearray(record_set(1, 1))
    old[17] |= 0x08
    old[18:26] = (1234).to_bytes(8)
    new = bytearray(record_set(2, 0))
    new[22] |= 0x08
    new[35:43] = (1234).to_bytes(8)
    for data in (old, new):
        found = records_in(bytes(data))
        assert [record.timestamp_ms for record in found] == [1234] * 3
        assert found[0].batch.log_append_time
        assert found[0].batch.checksum_holds is False


def test_control_records() -> None:
    commit = {"timestamp": 5, "key": b"\0\0\0\1", "value": b"\0\0\0\0\0\7", "headers": []}
    data = bytearray(record_set(2, 0, (commit,)))
    data[21:23] = (0x30).to_bytes(2)
    data[43:53] = (77).to_bytes(8) + (3).to_bytes(2)
    (record,) = records_in(bytes(data))
    assert record.control is not None
    assert CONTROL_NAMES[record.control] == "commit"
    assert (record.batch.control, record.batch.transactional) == (True, True)
    assert (record.batch.producer_id, record.batch.producer_epoch, record.batch.base_sequence) == (77, 3, -1)


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_a_cut_batch_is_left_out(magic: int, codec: int) -> None:
    one = record_set(magic, codec, RECORDS[:1])
    for size in range(len(one)):
        assert len(records_in(one + one[:size])) == 1


def test_the_batch_after_a_bad_one_is_read() -> None:
    good, bad = record_set(2, 0), bytearray(record_set(2, 0))
    bad[57:61] = (4).to_bytes(4)
    found = list(read_records(bytes(bad) + good))
    assert found[3] == RecordFault(0, "1 bytes wanted, 0 left")
    assert len(found) == 3 + 1 + 3


FAULTS = {
    "magic 3 is not known": (2, 16, b"\3"),
    "length 48 is too small": (2, 8, (48).to_bytes(4)),
    "codec 5 is not known": (2, 22, b"\5"),
    "-1 records": (2, 57, b"\xff\xff\xff\xff"),
    "length -2": (1, 26, b"\xff\xff\xff\xfe"),
}


@pytest.mark.parametrize(("reason", "change"), FAULTS.items())
def test_faults(reason: str, change: tuple[int, int, bytes]) -> None:
    magic, at, raw = change
    data = bytearray(record_set(magic, 0, RECORDS[:1]))
    data[at : at + len(raw)] = raw
    assert list(read_records(bytes(data))) == [RecordFault(0, reason)]


def test_bytes_left_over_in_a_batch() -> None:
    data = bytearray(record_set(2, 0, RECORDS[:1]) + b"xx")
    data[8:12] = (len(data) - 12).to_bytes(4)
    assert list(read_records(bytes(data)))[1:] == [RecordFault(0, "2 bytes left at the end of a batch")]


def test_a_wrapper_in_a_wrapper_is_a_fault() -> None:
    inner = record_set(1, 1)
    value = gzip.compress(inner)
    size = 4 + 1 + 1 + 8 + 4 + 4 + len(value)
    head = bytes(8) + size.to_bytes(4) + bytes(4) + b"\1\1" + bytes(8) + b"\xff" * 4
    data = head + len(value).to_bytes(4) + value
    assert list(read_records(data)) == [RecordFault(0, "a compressed message inside a compressed message")]
    assert count_records(data) == RecordFault(0, "not a whole message set when decompressed")


def test_the_limit_holds_for_the_whole_set() -> None:
    data = record_set(2, 1)
    assert len(list(read_records(data * 3, limit=600))) < 3 * 3
    assert len(list(read_records(data * 3, limit=LIMIT))) == 3 * 3
    assert isinstance(count_records(record_set(1, 1) * 3, limit=600), RecordFault)


def test_random_changes_never_raise() -> None:
    rng = Random(5)
    for magic, codec in FORMATS:
        good = record_set(magic, codec)
        for _ in range(100):
            data = bytearray(good)
            data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            found = list(read_records(bytes(data), limit=1 << 16))
            assert all(isinstance(record, Record | RecordFault) for record in found)
            assert isinstance(count_records(bytes(data), limit=1 << 16), int | RecordFault)


def test_records_are_values() -> None:
    first, *_ = records_in(record_set(2, 0))
    assert first.headers == (RecordHeader(b"trace", b"1"), RecordHeader(b"empty", b""))
    assert replace(first, offset=5) != first
