"""Values of a record for expressions and beside its bytes."""

from kdissect.exchanges.decoded_record import decode_record
from kdissect.exchanges.describe_records import PayloadOptions, RecordsPlace, describe_records
from kdissect.payload.payload_decoder import PayloadDecoder
from kdissect.payload.where import parse_where
from kdissect.protocol.records.record_decoder import Record, RecordBatch, RecordHeader
from kdissect.protocol.records.record_encoder import encode_batch

BATCH = RecordBatch(0, 2, 0, 0, False, None)
PLACE = RecordsPlace("orders", 3)


def record(number: int, value: bytes | None) -> Record:
    headers = (RecordHeader(b"source", b"mobile"), RecordHeader(b"raw", b"\xff"), RecordHeader(b"none", None))
    return Record(BATCH, number, 1000 + number, b"k%d" % number, value, headers)


def test_fields_of_an_expression() -> None:
    one = record(7, b'{"amount": 5}')
    fields = decode_record(one, "orders", PayloadDecoder()).fields(one, PLACE)
    assert fields == {
        "key": "k7", "value": {"amount": 5}, "headers": {"source": "mobile", "raw": "ff", "none": None},
        "topic": "orders", "partition": 3, "offset": 7, "timestamp": 1007,
    }  # fmt: skip


def test_notes_stand_beside_json_only() -> None:
    one = record(7, b'{"amount": 5}')
    notes = dict(decode_record(one, "orders", PayloadDecoder()).notes(one))
    assert notes == {"key": None, "value": {"format": "json", "fields": {"amount": 5}}}
    null = record(7, None)
    assert dict(decode_record(null, "orders", PayloadDecoder()).notes(null)) == {"key": None, "value": None}


def test_only_records_that_match_are_described() -> None:
    data = encode_batch([record(number, b'{"amount": %d}' % number) for number in range(9)])
    place = PLACE._replace(options=PayloadOptions(where=parse_where("value.amount >= 7 and key != 'k8'")))
    (batch,) = describe_records(data, True, place=place)["batches"]
    assert [one["offset"] for one in batch["records"]] == [7]
    assert batch["record_count"] == 9
