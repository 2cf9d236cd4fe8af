"""Arrow types of schemas in all languages: what becomes which type, and what stays text."""

import json
from typing import Any

import pyarrow as pa
import pytest

from kdissect.payload.schema_store import Schema, SchemaKind
from kdissect.payload.value_types import TIMESTAMP, UINT64, count_fields, value_type
from tests.payload.test_protobuf_reader import SCHEMA as PROTOBUF

LONG, TEXT = pa.int64(), pa.string()


def avro(*fields: tuple[str, Any]) -> pa.DataType | None:
    members = [{"name": one, "type": kind} for one, kind in fields]
    record = {"type": "record", "name": "R", "fields": members}
    return value_type(Schema(SchemaKind.AVRO, json.dumps(record)))


def of_json(schema: Any) -> pa.DataType | None:
    return value_type(Schema(SchemaKind.JSON, json.dumps(schema)))


def test_avro() -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "next", "type": ["null", "R"]}]}
    money = {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}
    assert avro(
        ("a", "long"), ("b", ["null", "int"]), ("c", {"type": "array", "items": "string"}),
        ("d", {"type": "map", "values": "double"}), ("e", inner), ("f", money), ("g", ["int", "string"]),
        ("h", {"type": "long", "logicalType": "timestamp-millis"}),
        ("i", {"type": "int", "logicalType": "date"}),
        ("j", "bytes"), ("k", {"type": "enum", "name": "E", "symbols": ["X"]}), ("l", "I"),
        ("m", {"type": "long", "logicalType": "local-timestamp-millis"}),
    ) == pa.struct([
        ("a", LONG), ("b", pa.int32()), ("c", pa.list_(TEXT)), ("d", pa.map_(TEXT, pa.float64())),
        ("e", pa.struct([("next", TEXT)])), ("f", pa.decimal128(8, 2)), ("g", TEXT), ("h", TIMESTAMP),
        ("i", pa.date32()), ("j", TEXT), ("k", TEXT), ("l", pa.struct([("next", TEXT)])), ("m", TEXT),
    ])  # fmt: skip
    assert value_type(Schema(SchemaKind.AVRO, '"long"')) is None


def test_protobuf() -> None:
    inner = pa.struct([("count", LONG), ("again", TEXT)])
    assert value_type(PROTOBUF) == pa.struct([("a", TEXT)])
    assert value_type(PROTOBUF, (1,)) == pa.struct(
        [("order_id", LONG), ("tags", pa.list_(TEXT)), ("totals", pa.list_(UINT64)), ("inner", inner)]
    )
    with pytest.raises(ValueError, match="no message type"):
        value_type(PROTOBUF, (7,))


def test_json_schema() -> None:
    tree = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "child": {"$ref": "#/$defs/tree~1x"}},
    }
    assert of_json({
        "properties": {
            "a": {"type": ["null", "integer"]}, "b": {"oneOf": [{"type": "null"}, {"type": "number"}]},
            "c": {"type": "array", "items": {"type": "boolean"}}, "d": {"$ref": "#/$defs/tree~1x"},
            "e": {"type": "object", "additionalProperties": {"type": "integer"}}, "f": {"type": "object"},
            "g": True, "h": {"$ref": "http://elsewhere"}, "i": {"type": ["string", "integer"]},
            "j": {"enum": [1]},
        },
        "$defs": {"tree/x": tree},
    }) == pa.struct([
        ("a", LONG), ("b", pa.float64()), ("c", pa.list_(pa.bool_())),
        ("d", pa.struct([("name", TEXT), ("child", TEXT)])), ("e", pa.map_(TEXT, LONG)), ("f", TEXT),
        ("g", TEXT), ("h", TEXT), ("i", TEXT), ("j", TEXT),
    ])  # fmt: skip
    assert of_json({"type": "array", "items": {}}) is None
    assert of_json([]) is None
    with pytest.raises(ValueError, match="no JSON Schema"):
        value_type(Schema(SchemaKind.JSON, "{"))


def test_types_have_bounds() -> None:
    def level(name: str) -> dict[str, Any]:
        return {"type": "object", "properties": {f"p{one}": {"$ref": f"#/$defs/{name}"} for one in range(10)}}

    wide = level("0") | {"$defs": {str(number): level(str(number + 1)) for number in range(20)}}
    with pytest.raises(ValueError, match="more than 1,000 fields"):
        of_json(wide)
    deep: Any = {"type": "integer"}
    for _ in range(50):
        deep = {"type": "object", "properties": {"x": deep}}
    found = of_json(deep)
    assert found is not None
    assert count_fields(found) < 20
