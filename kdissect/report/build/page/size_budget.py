"""How much of the page each part may take: a list that is ordered by weight ends where its room ends."""

import json
from collections.abc import Sequence
from typing import Any, TypeVar

PAGE = 2_800_000
"""Characters of all data: with scripts and style, the file stays below 3 MB."""

LONGEST = 240
"""Characters of a text: a client id may have 32,767, and the page has many of them."""

LONGEST_SENTENCE = 600
"""Characters of a sentence, which has several names in it and must be read to its end."""

T = TypeVar("T")


def json_size(value: Any) -> int:
    """Return the number of characters that a value takes in the page."""
    return len(json.dumps(value, separators=(",", ":")))


def fitting_rows(rows: Sequence[T], most: int) -> list[T]:
    """Return the first rows, as many as fit, at least one."""
    kept: list[T] = []
    for row in rows:
        most -= json_size(row) + 1
        if kept and most < 0:
            break
        kept.append(row)
    return kept


def shorten(value: Any, longest: int = LONGEST) -> Any:
    """Return a value with the middle of long texts left out; equal texts are shortened alike."""
    if isinstance(value, str):
        return value if len(value) <= longest else f"{value[: longest // 2]}…{value[-longest // 4 :]}"
    if isinstance(value, dict):
        return {shorten(name, longest): shorten(inner, longest) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [shorten(inner, longest) for inner in value]
    return value
