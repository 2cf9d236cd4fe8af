"""The report as JSON: the fields of `Summary` under their own names, in their own order, and the schema it keeps to."""

import json
from dataclasses import fields, is_dataclass
from importlib.resources import files
from typing import Any

from kdissect.report.summary import Summary

FLATTENED = ("figures", "name")
"""Groups of fields that stand beside the row they belong to."""


def to_json(summary: Summary, *, indent: int | None = 2) -> str:
    """Give the report as JSON text; the same summary gives the same bytes."""
    return json.dumps(to_plain(summary), indent=indent, ensure_ascii=False, allow_nan=False)


def json_schema() -> dict[str, Any]:
    """Give the JSON Schema (draft 2020-12) that every report satisfies."""
    loaded: dict[str, Any] = json.loads(files(__package__).joinpath("schema.json").read_text("utf-8"))
    return loaded


def to_plain(value: Any) -> Any:
    """Turn dataclasses and tuples into dictionaries and lists."""
    if is_dataclass(value) and not isinstance(value, type):
        plain: dict[str, Any] = {}
        for field in fields(value):
            inner = to_plain(getattr(value, field.name))
            plain |= inner if field.name in FLATTENED and isinstance(inner, dict) else {field.name: inner}
        return plain
    if isinstance(value, tuple):
        return [to_plain(item) for item in value]
    return value
