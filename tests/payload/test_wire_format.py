"""Ids in front of values and in headers, of Confluent and of Apicurio."""

from uuid import UUID

import pytest

from kdissect.payload.wire_format import FramedValue, framed_value, message_indexes
from kdissect.protocol.records.record_decoder import RecordHeader


def test_confluent() -> None:
    assert framed_value(b"\0\0\0\0\x11body", "value", (), lambda _: True) == FramedValue(17, b"body")
    assert framed_value(b"\1\0\0\0\x11body", "value", (), lambda _: True) is None
    assert framed_value(b"\0\0\0\0", "value", (), lambda _: True) is None


def test_apicurio() -> None:
    long = b"\0" + (17).to_bytes(8) + b"body"
    assert framed_value(long, "value", (), lambda number: number == 17) == FramedValue(17, b"body")
    unknown = framed_value(long, "value", (), lambda _: False)
    assert unknown == FramedValue(17, b"body")  # no registry has an id of 0
    headers = [RecordHeader(b"apicurio.value.globalId", (17).to_bytes(8))]
    assert framed_value(b"body", "value", headers, lambda _: True) == FramedValue(17, b"body")
    assert framed_value(b"body", "key", headers, lambda _: True) is None


def test_message_indexes() -> None:
    assert message_indexes(b"\0body") == ((0,), b"body")
    assert message_indexes(b"\x04\x02\x06body") == ((1, 3), b"body")
    for wrong in (b"", b"\x80", b"\x7f", b"\x03", b"\xff" * 12, b"\x04\x02"):
        with pytest.raises(ValueError, match="message indexes"):
            message_indexes(wrong)


def test_confluent_headers() -> None:
    guid = UUID(int=17 << 64)
    headers = [RecordHeader(b"__value_schema_id", b"\1" + guid.bytes)]
    assert framed_value(b"body", "value", headers, lambda _: True) == FramedValue(guid, b"body")
    assert framed_value(b"body", "key", headers, lambda _: True) is None
    with_path = [RecordHeader(b"__key_schema_id", b"\1" + guid.bytes + b"\x02\x02")]
    assert framed_value(b"body", "key", with_path, lambda _: True) == FramedValue(guid, b"\x02\x02body")
    number = [RecordHeader(b"__value_schema_id", b"\0\0\0\0\x11")]
    assert framed_value(b"body", "value", number, lambda _: True) == FramedValue(17, b"body")
    for wrong in (b"", b"\1", b"\1short", b"\2" + guid.bytes, b"\0\0\0\0", None):
        headers = [RecordHeader(b"__value_schema_id", wrong)]
        assert framed_value(b"body", "value", headers, lambda _: True) is None
