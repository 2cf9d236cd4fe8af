"""The JSON Schema of a report is made from the model, and the file in the package is that schema."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import pytest

from kdissect.report.model.findings import Keywords
from tests.docs import report_schema
from tests.docs.report_schema import SCHEMA, schema_text, stale_schema


class Colour(StrEnum):
    """Colours."""

    RED = "red"
    BLUE = "blue"


@dataclass
class Inner:
    """Inner part."""

    size: float | None


@dataclass
class Outer:
    """One thing.

    In several words.
    """

    name: Inner
    """Not seen, since its fields are merged."""
    count: Annotated[int, Keywords(minimum=0)]
    """How many."""
    colour: Colour
    pair: tuple[int, int] | None
    inner: Inner | None
    rows: tuple[Inner, ...]
    amounts: dict[str, int]


def test_the_schema_in_the_package_is_that_of_the_model():
    assert stale_schema() is None, "run python -m tests.docs"


def test_a_stale_schema_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(report_schema, "SCHEMA", tmp_path / "schema.json")
    assert stale_schema() == schema_text()
    (tmp_path / "schema.json").write_text(SCHEMA.read_text("utf-8").replace("Latency", "Latencies"), "utf-8")
    assert stale_schema() == schema_text()


def test_each_type_has_its_schema():
    definitions = {}
    made = report_schema._object(Outer, definitions)
    assert made["description"] == "One thing. In several words."
    assert made["required"] == list(made["properties"])
    assert made["additionalProperties"] is False
    assert made["properties"] == {
        "size": {"type": ["number", "null"]},
        "count": {"type": "integer", "minimum": 0, "description": "How many."},
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "pair": {"type": ["array", "null"], "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
        "inner": {"anyOf": [{"$ref": "#/$defs/Inner"}, {"type": "null"}]},
        "rows": {"type": "array", "items": {"$ref": "#/$defs/Inner"}},
        "amounts": {"type": "object", "additionalProperties": {"type": "integer"}},
    }
    assert list(definitions) == ["Inner"]


def test_a_type_that_json_does_not_have_is_refused():
    with pytest.raises(TypeError, match="no schema for"):
        report_schema._type(bytes, {})
