"""Batches that are written are read by our own reader and by kafka-python, with every codec."""

import pytest
from kafka.record import MemoryRecords

from kdissect.protocol.records.batches import read_header, rest_of_field, whole_batches
from kdissect.protocol.records.record_decoder import Record, read_records
from kdissect.protocol.records.record_encoder import encode_batch
from tests.helpers.kafka_python_records import FORMATS, RECORDS, record_set


def good(data: bytes) -> list[Record]:
    """Return the records of a set, which are all good."""
    found = list(read_records(data))
    assert all(isinstance(record, Record) for record in found), found
    return [record for record in found if isinstance(record, Record)]


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_what_is_written_is_read(magic: int, codec: int) -> None:
    records = good(record_set(magic, codec))
    data = encode_batch(records)
    written = good(data)
    assert [(r.key, r.value, r.headers) for r in written] == [(r.key, r.value, r.headers) for r in records]
    assert [r.timestamp_ms for r in written] == [-1 if magic == 0 else r.timestamp_ms for r in records]
    assert [r.offset for r in written] == list(range(len(RECORDS)))
    assert (written[0].batch.codec, written[0].batch.checksum_holds) == (codec, True)


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_others_read_it(magic: int, codec: int) -> None:
    data = encode_batch(good(record_set(magic, codec)))
    batch = MemoryRecords(data).next_batch()
    assert batch.validate_crc()
    assert [(r.key, r.value) for r in batch] == [(r["key"], r["value"]) for r in RECORDS]


def test_the_header_of_a_new_batch_names_no_producer() -> None:
    data = encode_batch(good(record_set(1, 0))[:1])
    assert len(list(whole_batches(data))) == 1
    assert rest_of_field(data, len(data)) is None
    header = read_header(data)
    assert (header.base_offset, header.last_offset_delta, header.record_count) == (0, 0, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
