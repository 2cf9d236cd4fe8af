"""Values of Avro, by fastavro, which is loaded when the first schema comes.

In come a schema and the bytes of one value, out goes a tree of JSON's types. Numbers with a unit (decimals,
dates, times) become text, bytes and fixed become base64.

fastavro reads what bytes claim, and its lists have no limit but the end of the bytes. An item without bytes
(null, an empty record) would make a list of any length out of a few bytes. Schemas with such lists are
refused, and so everything that is read takes a byte for each item.

Its compiled reader calls itself without a limit, so values that are deep enough end the process. Only a type
that contains itself can have such values. It is read by the reader in Python, which Python stops in time.
"""

import datetime as dt
import decimal
import io
import json
import math
import uuid
from base64 import b64encode
from collections.abc import Callable
from typing import Any

from kdissect.payload.schema_store import Schema

MISSING = "Avro needs fastavro: pip install 'kdissect[payload]'"
MOST_DEPTH = 64
NO_BYTES = ("null",)

Read = Callable[[bytes], Any]


def avro_reader(schema: Schema) -> Read:
    """Return the function that reads values of a schema. Raise ValueError if there cannot be one."""
    try:
        import fastavro
        from fastavro._read_py import schemaless_reader as careful_reader
    except ImportError:
        raise ValueError(MISSING) from None
    parsed, named = parse_avro(schema)
    reader = careful_reader if _contains_itself(parsed, named, (), set()) else fastavro.schemaless_reader

    def read(data: bytes) -> Any:
        source = io.BytesIO(data)
        value = reader(source, parsed, None)
        left = len(data) - source.tell()
        if left:
            raise ValueError(f"{left} bytes left over")
        return plain_value(value)

    return read


def parse_avro(schema: Schema) -> tuple[Any, dict[str, Any]]:
    """Return a parsed schema, and the types that it names. Raise ValueError for what is none, or refused."""
    try:
        import fastavro
        from fastavro.schema import SchemaParseException, UnknownType
    except ImportError:
        raise ValueError(MISSING) from None
    named: dict[str, Any] = {}
    try:
        for part in schema.parts:
            fastavro.parse_schema(json.loads(part), named_schemas=named)
        parsed = fastavro.parse_schema(json.loads(schema.definition), named_schemas=named)
        parsed = named.get(parsed, parsed) if isinstance(parsed, str) else parsed
        if _has_empty_items(parsed, named, set()):
            raise ValueError("its lists may hold items without bytes")
    except (SchemaParseException, UnknownType, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no Avro schema: {type(error).__name__}: {error}") from None
    return parsed, named


def plain_value(value: Any, depth: int = 0) -> Any:
    """Return a value with JSON's types only. Raise ValueError beyond MOST_DEPTH."""
    if depth > MOST_DEPTH:
        raise ValueError(f"deeper than {MOST_DEPTH} levels")
    if isinstance(value, dict):
        return {str(name): plain_value(inside, depth + 1) for name, inside in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(inside, depth + 1) for inside in value]
    if isinstance(value, bytes | bytearray):
        return b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, decimal.Decimal | uuid.UUID | dt.timedelta):
        return str(value)
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return value


def _contains_itself(schema: Any, named: dict[str, Any], around: tuple[str, ...], done: set[str]) -> bool:
    """Return whether a type in a schema contains itself.

    `around` names the types around the schema, `done` those that are known to end.
    """
    if isinstance(schema, list):
        return any(_contains_itself(one, named, around, done) for one in schema)
    if isinstance(schema, str):
        if schema in around:
            return True
        if schema in done or schema not in named:
            return False
        found = _contains_itself(named[schema], named, around, done)
        done.add(schema)
        return found
    inside = [schema.get("items"), schema.get("values"), *(one["type"] for one in schema.get("fields", ()))]
    kind = schema.get("type")
    inside += [kind] if isinstance(kind, dict | list) else []
    around = (*around, schema["name"]) if "name" in schema else around
    return any(_contains_itself(one, named, around, done) for one in inside if one is not None)


def _has_empty_items(schema: Any, named: dict[str, Any], seen: set[str]) -> bool:
    """Return whether a list or map in a schema may hold items that take no bytes."""
    if isinstance(schema, list):
        return any(_has_empty_items(one, named, seen) for one in schema)
    if isinstance(schema, str):
        if schema in seen or schema not in named:
            return False
        seen.add(schema)
        return _has_empty_items(named[schema], named, seen)
    kind = schema.get("type")
    if kind == "array":
        items = schema["items"]
        return _may_be_empty(items, named, set()) or _has_empty_items(items, named, seen)
    if kind == "map":
        return _has_empty_items(schema["values"], named, seen)
    if kind in ("record", "error"):
        seen.add(schema.get("name", ""))
        return any(_has_empty_items(field["type"], named, seen) for field in schema["fields"])
    return isinstance(kind, dict | list) and _has_empty_items(kind, named, seen)


def _may_be_empty(schema: Any, named: dict[str, Any], seen: set[str]) -> bool:
    """Return whether a value may take no bytes; a union takes one for its index."""
    if isinstance(schema, list):
        return False
    if isinstance(schema, str):
        if schema in seen or schema not in named:
            return schema in NO_BYTES
        return _may_be_empty(named[schema], named, seen | {schema})
    kind = schema.get("type")
    if kind == "fixed":
        return int(schema["size"]) <= 0
    if kind in ("record", "error"):
        inside = seen | {schema.get("name", "")}
        return all(_may_be_empty(field["type"], named, inside) for field in schema["fields"])
    if isinstance(kind, dict | list):
        return _may_be_empty(kind, named, seen)
    return kind in NO_BYTES
