"""Avro as fastavro writes it, and what hostile bytes and schemas do."""

import datetime as dt
import decimal
import io
import json
import random
from typing import Any

import fastavro
import pytest

from kdissect.payload.avro_reader import avro_reader
from kdissect.payload.schema_store import Schema, SchemaKind

ORDER: dict[str, Any] = {
    "type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "string"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "extra", "type": {"type": "map", "values": ["null", "long", "double"]}},
        {"name": "raw", "type": {"type": "fixed", "name": "Four", "size": 4}},
        {"name": "next", "type": ["null", "Order"]},
    ],
}  # fmt: skip
VALUE = {
    "id": "o1", "amount": decimal.Decimal("12.50"), "at": dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
    "tags": ["a", "b"], "extra": {"n": None, "x": 2**60, "d": 1.5}, "raw": b"\1\2\3\4", "next": None,
}  # fmt: skip


def schema(definition: Any, *parts: Any) -> Schema:
    return Schema(SchemaKind.AVRO, json.dumps(definition), tuple(map(json.dumps, parts)))


def written(value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(ORDER), value)
    return out.getvalue()


def test_values_as_they_were_written() -> None:
    read = avro_reader(schema(ORDER))
    assert read(written(VALUE | {"next": VALUE})) == {
        "id": "o1", "amount": "12.50", "at": "2026-01-02T00:00:00+00:00", "tags": ["a", "b"],
        "extra": {"n": None, "x": 2**60, "d": 1.5}, "raw": "AQIDBA==",
        "next": {
            "id": "o1", "amount": "12.50", "at": "2026-01-02T00:00:00+00:00", "tags": ["a", "b"],
            "extra": {"n": None, "x": 2**60, "d": 1.5}, "raw": "AQIDBA==", "next": None,
        },
    }  # fmt: skip


def test_references_come_first() -> None:
    address = {"type": "record", "name": "a.Address", "fields": [{"name": "city", "type": "string"}]}
    person = {"type": "record", "name": "a.P", "fields": [{"name": "at", "type": "a.Address"}]}
    assert avro_reader(schema(person, address))(b"\x04Ul") == {"at": {"city": "Ul"}}


@pytest.mark.parametrize("items", ["null", {"type": "record", "name": "E", "fields": []},
                                   {"type": "fixed", "name": "F", "size": 0}])  # fmt: skip
def test_lists_of_items_without_bytes_are_refused(items: Any) -> None:
    with pytest.raises(ValueError, match="items without bytes"):
        avro_reader(schema({"type": "record", "name": "R", "fields": [
            {"name": "list", "type": {"type": "array", "items": items}}]}))  # fmt: skip


@pytest.mark.parametrize("definition", [7, {"type": "record"}, {"type": "nothing"}, ["x"], {"type": "array"}])
def test_what_is_no_schema_is_refused(definition: Any) -> None:
    with pytest.raises(ValueError, match="no Avro schema"):
        avro_reader(schema(definition))


def test_any_bytes_end_soon() -> None:
    read, chance, good = avro_reader(schema(ORDER)), random.Random(4), written(VALUE)
    outcomes = set()
    for _ in range(2000):
        data = bytearray(good)
        for _change in range(2):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            read(bytes(data))
            outcomes.add("read")
        except (ValueError, EOFError, IndexError, OverflowError, KeyError, TypeError):
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}
    deep = b"\x04o1" + written(VALUE)[3:-1] + b"\x02"
    with pytest.raises((ValueError, RecursionError, EOFError)):
        read(deep * 100_000)
