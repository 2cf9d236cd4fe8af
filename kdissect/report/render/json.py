"""The report as JSON: the fields of `Summary` under their own names, in their own order, and the schema it keeps to."""

import json
import re
from dataclasses import fields, is_dataclass
from importlib.resources import files
from typing import Any

from kdissect.report.model.summary import Summary

FLATTENED = ("figures", "name")
"""Groups of fields that stand beside the row they belong to."""


def to_json(summary: Summary, *, indent: int | None = 2) -> str:
    """Give the report as JSON text in ASCII, so that no terminal is moved by it; the same summary gives the same bytes."""
    text = json.dumps(to_plain(summary), indent=indent, allow_nan=False)
    return re.sub(r"\[\n[\s\d,]+\]", _on_one_line, text) if indent else text


def _on_one_line(numbers: re.Match[str]) -> str:
    return re.sub(r"\s+", " ", numbers[0]).replace("[ ", "[").replace(" ]", "]")


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
