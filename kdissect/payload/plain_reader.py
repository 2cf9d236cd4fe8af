"""Values without a schema: JSON and text.

In come bytes, out goes a tree, a text, or None for what is neither. JSON is taken for JSON if it is an object
or an array; a number or a word alone is text.
"""

import json
from math import isfinite
from typing import Any

MOST_DEPTH = 64
OPENING = (b"{", b"[")


def read_json(data: bytes) -> Any:
    """Return the value of a JSON text. Raise ValueError for any other bytes, and beyond MOST_DEPTH."""
    try:
        text = data.decode("utf-8")
        if _depth(text) > MOST_DEPTH:
            raise ValueError(f"deeper than {MOST_DEPTH} levels")
        return json.loads(text, parse_float=_read_number, parse_constant=str)
    except UnicodeDecodeError:
        raise ValueError("no text in UTF-8") from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"no JSON: {error}") from None


def _read_number(text: str) -> float | str:
    """Return a number, or its text if it is beyond what a float holds: JSON has no infinity."""
    number = float(text)
    return number if isfinite(number) else text


def looks_like_json(data: bytes) -> bool:
    """Return whether bytes begin as an object or an array does."""
    return data.lstrip(b" \t\r\n")[:1] in OPENING


def read_text(data: bytes) -> str | None:
    """Return bytes that are printable text, None for others."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text if all(sign.isprintable() or sign in "\t\r\n" for sign in text) else None


def _depth(text: str) -> int:
    """Return an upper bound of the depth of a JSON text, which counts brackets inside strings too."""
    depth = most = 0
    for sign in text:
        if sign in "{[":
            depth += 1
            most = max(most, depth)
        elif sign in "}]":
            depth -= 1
    return most
