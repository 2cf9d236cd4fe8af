"""Shown parts of a records field: headers of batches, on request records, and what is wrong."""

import struct

import pytest

from kdissect.exchanges import describe_records as module
from kdissect.exchanges.describe_records import RecordsKind, describe_records, timestamp_text
from kdissect.protocol.codec.messages import encode_embedded
from kdissect.protocol.records.batches import HEADER
from tests.helpers.kafka_python_records import FORMATS, RECORDS, expected, record_set


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_records_are_shown_on_request_only(magic: int, codec: int) -> None:
    data = record_set(magic, codec)
    without = describe_records(data, with_records=False)
    assert without["bytes"] == len(data)
    assert all(batch["magic"] == magic and "records" not in batch for batch in without["batches"])
    assert "value" not in repr(without)
    shown = [record for batch in describe_records(data, True)["batches"] for record in batch["records"]]
    assert [(r["offset"], r["timestamp"], r["key"], r["value"]) for r in shown] == [
        record[:4] for record in expected(magic)
    ]
    headers = [[(h["key"].decode(), h["value"]) for h in record.get("headers", [])] for record in shown]
    assert headers == [record[4] for record in expected(magic)]


def test_attributes_get_words() -> None:
    (batch,) = describe_records(record_set(2, 4), False)["batches"]
    assert batch["_attributes"] == "zstd, create_time"
    data = bytearray(record_set(2, 0))
    data[21:23] = struct.pack(">h", 0x38)  # log append time, transactional, control
    (batch,) = describe_records(bytes(data), False)["batches"]
    assert batch["_attributes"] == "none, log_append_time, transactional, control"
    assert batch["_crc"] == "wrong"
    data[21:23] = struct.pack(">h", 0x40)  # delete horizon, in place of the base timestamp (KIP-534)
    data[27:35] = struct.pack(">q", 1_700_000_000_000)
    (batch,) = describe_records(bytes(data), False)["batches"]
    assert batch["_attributes"] == "none, create_time, delete horizon 2023-11-14T22:13:20.000Z"


def test_a_batch_that_is_cut_off_is_not_a_fault() -> None:
    data = record_set(2, 0)
    first, last = describe_records(data + data[:-9], True)["batches"]
    assert len(first["records"]) == len(RECORDS)
    assert last == {"cut": f"{len(data) - 9} of {len(data)} bytes of a batch"}
    assert describe_records(data[:5], False)["batches"] == [{"cut": "5 bytes of a batch"}]


def test_bytes_that_are_no_batch_are_a_fault_at_their_place() -> None:
    data = record_set(2, 0)
    _, last = describe_records(data + struct.pack(">qi", 0, 60) + b"\0" * 4 + b"\x07" + bytes(60), False)[
        "batches"
    ]
    assert last == {"fault": f"no batch at byte {len(data)}: magic 7, length 60"}


def test_records_that_cannot_be_read_are_a_fault_of_their_batch() -> None:
    data = bytearray(record_set(2, 1))
    data[-6] ^= 0xFF
    good, bad = describe_records(record_set(2, 0) + bytes(data), True)["batches"]
    assert "fault" not in good
    assert bad["_crc"] == "wrong"
    assert bad["fault"]


def test_no_more_records_of_a_field_are_shown_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RECORDS", 2)
    (batch,) = describe_records(record_set(2, 0), True)["batches"]
    assert len(batch["records"]) == 2
    assert batch["fault"] == "more than 2 records in one field: the rest is not shown"


def control_batch(kind: int, value: bytes) -> bytes:
    """Return a batch with one control record (KIP-98): a version and a type are its key."""
    record = RECORDS[0] | {"key": struct.pack(">hh", 0, kind), "value": value}
    batch = bytearray(record_set(2, 0, (record,)))
    header = HEADER.unpack_from(batch)
    batch[: HEADER.size] = HEADER.pack(*header[:5], header[5] | 0x20, *header[6:])
    return bytes(batch)


def test_keys_and_values_of_control_records_are_decoded() -> None:
    marker = encode_embedded("EndTxnMarker", 0, {"coordinator_epoch": 7})
    for kind, name in ((0, "abort"), (1, "commit")):
        (batch,) = describe_records(control_batch(kind, marker), True)["batches"]
        (record,) = batch["records"]
        assert (record["_key"], record["_value"]) == (name, {"coordinator_epoch": 7})
    (batch,) = describe_records(control_batch(77, marker), True)["batches"]
    assert (batch["records"][0]["_key"], "_value" in batch["records"][0]) == ("type 77", False)
    (batch,) = describe_records(control_batch(1, marker[:-1]), True)["batches"]
    assert batch["records"][0]["_value"]["_fault"].startswith("coordinator_epoch at byte ")


METADATA = b"\x01\x02\x00the topic"  # frame version 1, type 2 (TopicRecord), version 0
SECRET = b"\x01\x0b\x00the password"  # type 11: UserScramCredentialRecord


def metadata_records(kind: RecordsKind) -> list[dict[str, object]]:
    records = tuple(RECORDS[0] | {"value": value} for value in (METADATA, SECRET, b""))
    (batch,) = describe_records(record_set(2, 0, records), True, kind)["batches"]
    shown: list[dict[str, object]] = batch["records"]
    return shown


def test_metadata_records_are_named() -> None:
    topic, secret, empty = metadata_records(RecordsKind.METADATA)
    assert topic["_value"]["_type"] == "TopicRecord"
    assert secret["value"] == SECRET
    assert empty["_value"] == {"bytes": 0}


def test_metadata_records_that_may_be_secret_are_not_shown_when_redacted() -> None:
    topic, secret, unreadable = metadata_records(RecordsKind.METADATA_REDACTED)
    assert topic["value"] == METADATA
    for record in (secret, unreadable):
        assert record["value"] is None
        assert "body" in record["_value"]
    assert b"the password" not in repr(secret).encode()


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [(-1, None), (0, None), (1, "1970-01-01T00:00:00.001Z"), (253_402_300_800_000, None)],
)
def test_a_timestamp_is_text_only_if_it_is_a_time(time_ms: int, text: str | None) -> None:
    assert timestamp_text(time_ms) == text
