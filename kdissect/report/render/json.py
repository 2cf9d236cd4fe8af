"""The report as JSON: the fields of `Summary` under their own names and in their own order.

schema.json is the JSON Schema of a report; it is made from the model (`python -m tests.docs`).
"""

import json
import re
from importlib.resources import files
from typing import Any

from kdissect.report.model.plain import to_plain
from kdissect.report.model.summary import Summary


def to_json(summary: Summary, *, indent: int | None = 2) -> str:
    """Return the report as JSON in ASCII, which no terminal interprets; equal summaries give equal bytes."""
    text = json.dumps(to_plain(summary), indent=indent, allow_nan=False)
    return re.sub(r"\[\n[\s\d,]+\]", _on_one_line, text) if indent else text


def _on_one_line(numbers: re.Match[str]) -> str:
    return re.sub(r"\s+", " ", numbers[0]).replace("[ ", "[").replace(" ]", "]")


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) that every report satisfies."""
    schema: dict[str, Any] = json.loads(files(__package__).joinpath("schema.json").read_text("utf-8"))
    return schema
