"""kdissect/report/render/schema.json: the JSON Schema of a report, made from the model.

It is of draft 2020-12. Types become types, classes become `$defs`, and docstrings of classes and fields
become descriptions. Every field is required and no other is allowed. Classes whose fields stand beside those
of their row (`model.plain.FLATTENED`) are merged into it. Annotations (`Keywords`) add keywords.
"""

import ast
import dataclasses
import inspect
import json
import textwrap
import types
import typing
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from kdissect.report.model.plain import FLATTENED
from kdissect.report.model.summary import Summary

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "kdissect" / "report" / "render" / "schema.json"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
PRIMITIVES = {int: "integer", float: "number", str: "string", bool: "boolean"}

Schema = dict[str, Any]


def stale_schema() -> str | None:
    """Return the text that the schema should have, None if it has it."""
    text = schema_text()
    return None if SCHEMA.exists() and SCHEMA.read_text("utf-8") == text else text


def schema_text() -> str:
    """Return the schema of a report as JSON text."""
    definitions: dict[str, Schema] = {}
    root = _object(Summary, definitions)
    schema = {
        "$schema": DIALECT,
        "title": "kdissect report",
        **root,
        "$defs": dict(sorted(definitions.items())),
    }
    return json.dumps(schema, indent=1) + "\n"


def _object(model: type, definitions: dict[str, Schema]) -> Schema:
    """Return the schema of a dataclass; those of classes that it refers to go into `definitions`."""
    properties = _properties(model, definitions)
    return {
        "type": "object",
        "description": " ".join((inspect.getdoc(model) or "").split()),
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _properties(model: type, definitions: dict[str, Schema]) -> dict[str, Schema]:
    hints = typing.get_type_hints(model, include_extras=True)
    properties: dict[str, Schema] = {}
    for field in dataclasses.fields(model):
        hint = hints[field.name]
        if field.name in FLATTENED and dataclasses.is_dataclass(hint):
            properties |= _properties(typing.cast("type", hint), definitions)
            continue
        properties[field.name] = _type(hint, definitions)
        if description := _descriptions(model).get(field.name):
            properties[field.name] |= {"description": description}
    return properties


def _type(hint: Any, definitions: dict[str, Schema]) -> Schema:
    """Return the schema of a type. Raise TypeError for one that the model has not had so far."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in PRIMITIVES:
        return {"type": PRIMITIVES[hint]}
    if origin is typing.Annotated:
        return _type(arguments[0], definitions) | arguments[1]._asdict()
    if origin is typing.Literal:
        (value,) = arguments
        return {"type": PRIMITIVES[type(value)], "const": value}
    if origin in (types.UnionType, typing.Union) and len(arguments) == 2 and arguments[1] is type(None):
        return _nullable(_type(arguments[0], definitions))
    if origin is tuple:
        items = {"type": "array", "items": _type(arguments[0], definitions)}
        many = len(arguments) == 2 and arguments[1] is Ellipsis
        return items if many else items | {"minItems": len(arguments), "maxItems": len(arguments)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _type(arguments[1], definitions)}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"type": "string", "enum": [member.value for member in hint]}
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        if hint.__name__ not in definitions:
            definitions[hint.__name__] = {}
            definitions[hint.__name__] = _object(hint, definitions)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    raise TypeError(f"no schema for {hint}")


def _nullable(schema: Schema) -> Schema:
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return schema | {"type": [schema["type"], "null"]}


@cache
def _descriptions(model: type) -> dict[str, str]:
    """Return the docstrings below the fields of a class, by field."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(definition, ast.ClassDef)
    descriptions = {}
    for statement, following in zip(definition.body, definition.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
        ):
            descriptions[statement.target.id] = " ".join(str(following.value.value).split())
    return descriptions
