"""Values of the model as dictionaries, lists, texts and numbers, for JSON and for comparisons."""

from dataclasses import fields, is_dataclass
from typing import Any

FLATTENED = ("figures", "name")
"""Attributes whose own fields stand beside the other fields of their row, if they are dataclasses."""


def to_plain(value: Any) -> Any:
    """Return dataclasses as dictionaries and tuples as lists, at all depths; fields keep names and order."""
    if is_dataclass(value) and not isinstance(value, type):
        plain: dict[str, Any] = {}
        for field in fields(value):
            inner = to_plain(getattr(value, field.name))
            plain |= inner if field.name in FLATTENED and isinstance(inner, dict) else {field.name: inner}
        return plain
    if isinstance(value, tuple):
        return [to_plain(item) for item in value]
    return value
