"""The Arrow type of what a schema describes: from Avro, Protobuf or JSON Schema to columns that SQL can name.

In comes a schema, out goes a struct with its fields, or None if it describes no object. A value is read by
its own reader first (`payload_decoder`), and put into this type later (`tables.record_structs`). So the types
say what the readers' trees of JSON's types become:

- numbers, truth values and texts what they are; of whole numbers 64 bits, unsigned ones of 64 bits as
  decimals
- Avro's decimals, dates and timestamps, and Protobuf's Timestamp, the types of SQL; times of day and bytes
  text
- lists and maps of one type lists and maps; an optional field the type that it may have
- anything else (a union of two types, a type that contains itself, an object without fields) text: its JSON

Schemas are hostile: a type has at most MOST_LEVELS levels, text below, and at most MOST_FIELDS fields.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from kdissect.payload.avro_reader import parse_avro
from kdissect.payload.protobuf_reader import message_types
from kdissect.payload.schema_store import Schema, SchemaKind

MOST_LEVELS = 16
MOST_FIELDS = 1000
TEXT, TIMESTAMP = pa.string(), pa.timestamp("us", "UTC")
UINT64 = pa.decimal128(20, 0)
MOST_PRECISION = 38

AVRO_TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
}
AVRO_LOGICAL = {"date": pa.date32(), "timestamp-millis": TIMESTAMP, "timestamp-micros": TIMESTAMP}
JSON_TYPES = {"boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64(), "string": TEXT}
PROTOBUF_TYPES = {
    "CPPTYPE_INT32": pa.int32(), "CPPTYPE_INT64": pa.int64(), "CPPTYPE_UINT32": pa.int64(),
    "CPPTYPE_UINT64": UINT64, "CPPTYPE_DOUBLE": pa.float64(), "CPPTYPE_FLOAT": pa.float32(),
    "CPPTYPE_BOOL": pa.bool_(),
}  # fmt: skip
KNOWN_MESSAGES = {
    "google.protobuf.Timestamp": TIMESTAMP,
    "google.protobuf.BoolValue": pa.bool_(),
    "google.protobuf.Int32Value": pa.int32(),
    "google.protobuf.DoubleValue": pa.float64(),
}
"""Messages that the library writes as something else than an object; others of that package become text."""


def value_type(schema: Schema, path: tuple[int, ...] = (0,)) -> pa.DataType | None:
    """Return the struct of what a schema describes, None if that is no object.

    `path` leads to a message of Protobuf in its file. Raise ValueError for a schema that cannot be read.
    """
    if schema.kind is SchemaKind.AVRO:
        parsed, named = parse_avro(schema)
        found = _avro_type(parsed, named, _Walk())
    elif schema.kind is SchemaKind.PROTOBUF:
        found = _message_type(message_types(schema)(path).DESCRIPTOR, _Walk())
    else:
        try:
            parsed = json.loads(schema.definition)
        except (ValueError, RecursionError):
            raise ValueError("no JSON Schema") from None
        found = _json_type(parsed, parsed, _Walk())
    return found if pa.types.is_struct(found) else None


def count_fields(kind: pa.DataType) -> int:
    """Return the number of fields in a type, with those inside."""
    return sum(1 + count_fields(kind.field(number).type) for number in range(kind.num_fields))


def _struct(fields: Mapping[str, pa.DataType]) -> pa.DataType:
    return pa.struct([pa.field(_clean(name), kind) for name, kind in fields.items()]) if fields else TEXT


def _clean(name: str) -> str:
    return name.encode("utf-8", "replace").decode()


class _Walk:
    """The way into a schema: the names of the types around, and how many fields a type may still have.

    A few types that contain each other several times would make any number of fields.
    """

    def __init__(self, names: tuple[str, ...] = (), left: list[int] | None = None) -> None:
        self.names = names
        self._left = [MOST_FIELDS] if left is None else left

    @property
    def is_deep(self) -> bool:
        """Return whether what is below becomes text."""
        return len(self.names) >= MOST_LEVELS

    def into(self, name: str) -> "_Walk":
        """Return the way one level deeper."""
        return _Walk((*self.names, name), self._left)

    def struct(self, fields: Mapping[str, Any], type_of: Callable[[Any], pa.DataType]) -> pa.DataType:
        """Return the struct of some fields. Raise ValueError if there are too many."""
        self._left[0] -= len(fields)
        if self._left[0] < 0:
            raise ValueError(f"it has more than {MOST_FIELDS:,} fields")
        return _struct({name: type_of(one) for name, one in fields.items()})


def _avro_type(schema: Any, named: dict[str, Any], walk: _Walk) -> pa.DataType:
    if walk.is_deep:
        return TEXT
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        return _avro_type(others[0], named, walk) if len(others) == 1 else TEXT
    if isinstance(schema, str):
        if schema in walk.names or schema not in named:
            return AVRO_TYPES.get(schema, TEXT)
        return _avro_type(named[schema], named, walk)
    kind, inside = schema["type"], walk.into(str(schema.get("name", "")))
    if "logicalType" in schema:
        return _avro_logical(schema, AVRO_TYPES.get(kind, TEXT))
    if kind in ("record", "error"):
        fields = {field["name"]: field["type"] for field in schema["fields"]}
        return walk.struct(fields, lambda one: _avro_type(one, named, inside))
    if kind == "array":
        return pa.list_(_avro_type(schema["items"], named, inside))
    if kind == "map":
        return pa.map_(TEXT, _avro_type(schema["values"], named, inside))
    return _avro_type(kind, named, inside) if isinstance(kind, dict | list) else AVRO_TYPES.get(kind, TEXT)


def _avro_logical(schema: dict[str, Any], plain: pa.DataType) -> pa.DataType:
    logical = schema["logicalType"]
    if logical == "decimal" and schema["type"] in ("bytes", "fixed"):
        precision, scale = schema.get("precision", 0), schema.get("scale", 0)
        is_possible = 0 < precision <= MOST_PRECISION and 0 <= scale <= precision
        return pa.decimal128(precision, scale) if is_possible else TEXT
    if logical in ("time-millis", "time-micros", "local-timestamp-millis", "local-timestamp-micros"):
        return TEXT  # as the reader writes them
    return AVRO_LOGICAL.get(logical, plain)


def _message_type(descriptor: Any, walk: _Walk) -> pa.DataType:
    name = descriptor.full_name
    if name in KNOWN_MESSAGES:
        return KNOWN_MESSAGES[name]
    if name in walk.names or walk.is_deep or name.startswith("google.protobuf."):
        return TEXT
    fields = {field.name: field for field in descriptor.fields}
    return walk.struct(fields, lambda field: _protobuf_type(field, walk.into(name)))


def _protobuf_type(field: Any, walk: _Walk) -> pa.DataType:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        return pa.map_(TEXT, _protobuf_type(message.fields_by_name["value"], walk))
    one = _message_type(message, walk) if message is not None else _scalar_type(field)
    is_repeated = getattr(field, "is_repeated", None)  # since protobuf 6; `label` is gone since 7
    if is_repeated is None:
        is_repeated = field.label == field.LABEL_REPEATED
    return pa.list_(one) if is_repeated else one


def _scalar_type(field: Any) -> pa.DataType:
    return next(
        (kind for name, kind in PROTOBUF_TYPES.items() if field.cpp_type == getattr(field, name)), TEXT
    )


def _json_type(schema: Any, whole: Any, walk: _Walk) -> pa.DataType:
    if not isinstance(schema, dict) or walk.is_deep:
        return TEXT
    if "$ref" in schema:
        name = str(schema["$ref"])
        return TEXT if name in walk.names else _json_type(_at_pointer(whole, name), whole, walk.into(name))
    inside = walk.into("")
    for choice in ("oneOf", "anyOf"):
        if isinstance(schema.get(choice), list):
            others = [one for one in schema[choice] if one != {"type": "null"}]
            return _json_type(others[0], whole, inside) if len(others) == 1 else TEXT
    kind = schema.get("type", "object" if "properties" in schema else None)
    if isinstance(kind, list):
        others = [one for one in kind if one != "null"]
        kind = others[0] if len(others) == 1 else None
    if kind == "object" and isinstance(schema.get("properties"), dict):
        return walk.struct(schema["properties"], lambda one: _json_type(one, whole, inside))
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return pa.map_(TEXT, _json_type(schema["additionalProperties"], whole, inside))
    if kind == "array" and isinstance(schema.get("items"), dict):
        return pa.list_(_json_type(schema["items"], whole, inside))
    return JSON_TYPES.get(kind, TEXT) if isinstance(kind, str) else TEXT


def _at_pointer(whole: Any, reference: str) -> Any:
    """Return what a reference inside a document points to (RFC 6901); None for others."""
    if not reference.startswith("#"):
        return None
    found = whole
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    return found
