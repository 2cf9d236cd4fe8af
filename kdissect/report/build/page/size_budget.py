"""How much of the page each part of it may take: what is listed by weight ends where its room ends."""

import json
from collections.abc import Sequence
from typing import Any, TypeVar

PAGE = 2_800_000
"""Characters of the whole data: with scripts and style the file stays below 3 MB."""

LONGEST = 240
"""Characters of a text: a client id may have 32,767, and the page has many of them."""

T = TypeVar("T")


def json_size(value: Any) -> int:
    """Give the characters that a value takes in the page."""
    return len(json.dumps(value, separators=(",", ":")))


def fitting_rows(rows: Sequence[T], most: int) -> list[T]:
    """Give the first rows, as many as have room, one at least."""
    kept: list[T] = []
    for row in rows:
        most -= json_size(row) + 1
        if kept and most < 0:
            break
        kept.append(row)
    return kept


def shorten(value: Any) -> Any:
    """Give a value with the middle left out of texts that are too long; the same text is always cut alike."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST else f"{value[: LONGEST // 2]}…{value[-LONGEST // 4 :]}"
    if isinstance(value, dict):
        return {shorten(name): shorten(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [shorten(inner) for inner in value]
    return value
