"""Bytes of records with and without schemas: values, formats, and faults with their reasons."""

import json
from pathlib import Path

import pytest

from kdissect.payload.payload_decoder import MOST_BYTES, Payload, PayloadDecoder
from kdissect.payload.schema_files import SchemaFolder
from kdissect.payload.schema_store import SchemaStore
from kdissect.protocol.records.record_decoder import RecordHeader
from tests.payload.test_protobuf_reader import FILES, message

USER = {"type": "record", "name": "User", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture
def decoder(tmp_path: Path) -> PayloadDecoder:
    (tmp_path / "17.avsc").write_text(json.dumps(USER))
    (tmp_path / "18.desc").write_bytes(FILES.SerializeToString())
    (tmp_path / "19.json").write_text("{}")
    (tmp_path / "20.avsc").write_text("{}")
    (tmp_path / "users-value.avsc").write_text(json.dumps(USER))
    return PayloadDecoder(SchemaStore([SchemaFolder(str(tmp_path))]))


def framed(number: int, body: bytes) -> bytes:
    return b"\0" + number.to_bytes(4) + body


def test_without_schemas() -> None:
    decoder = PayloadDecoder()
    assert decoder.decode(None, "t") is None
    assert decoder.decode(b'{"a": 1}', "t") == Payload("json", {"a": 1})
    assert decoder.decode(b"{not json", "t") == Payload("text", "{not json")
    assert decoder.decode(b"k7", "t", "key") == Payload("text", "k7")
    assert decoder.decode(b"\xff\xfe", "t") == Payload("bytes")
    large = decoder.decode(b"x" * (MOST_BYTES + 1), "t")
    assert large is not None
    assert "are not decoded" in str(large.fault)


def test_by_id(decoder: PayloadDecoder) -> None:
    assert decoder.decode(framed(17, b"\x0e"), "t") == Payload("avro", {"id": 7}, 17)
    first = framed(18, b"\0" + message("shop.First", a="x").SerializeToString())
    assert decoder.decode(first, "t") == Payload("protobuf", {"a": "x"}, 18)
    assert decoder.decode(framed(19, b'{"a": 1}'), "t") == Payload("json", {"a": 1}, 19)
    headers = [RecordHeader(b"apicurio.value.globalId", (17).to_bytes(8))]
    assert decoder.decode(b"\x0e", "t", "value", headers) == Payload("avro", {"id": 7}, 17)
    assert decoder.decode(b"\0" + (17).to_bytes(8) + b"\x0e", "t") == Payload("avro", {"id": 7}, 17)


def test_by_subject(decoder: PayloadDecoder) -> None:
    assert decoder.decode(b"\x0e", "users") == Payload("avro", {"id": 7})
    assert decoder.decode(b"\x0e", "others") == Payload("bytes")


def test_faults_have_their_reason(decoder: PayloadDecoder) -> None:
    for data, reason in (
        (framed(99, b"\x0e"), "unknown schema id 99"),
        (framed(17, b"\x80"), "no value of its schema"),
        (framed(17, b"\x0e\x0e"), "no value of its schema: 1 bytes left over"),
        (framed(18, b"\x02\x20"), "no value of its schema: the schema has no message type"),
        (framed(19, b"{"), "no value of its schema: no JSON"),
        (framed(20, b"{"), "no Avro schema"),
    ):
        found = decoder.decode(data, "t")
        assert found is not None
        assert found.value is None
        assert reason in str(found.fault)
