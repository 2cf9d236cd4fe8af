"""An exchange for people: one line of what it is, then request and response as an indented tree.

Words stand behind the number that they explain, in parentheses. What came from the wire is escaped, so that nothing in a
capture can move the cursor, change colours or reorder a line; bytes are shown as text where they are text, else as hex.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from kdissect.exchanges.describe_records import timestamp_text
from kdissect.text import escape

INDENT = "  "
BYTES_SHOWN = 1024  # of one value; JSON has all


def safe(text: str) -> str:
    """Escape text from a capture; plain text, which most is, stays as it is."""
    return text if text.isascii() and text.isprintable() and "\\" not in text else escape(text)


def tree_lines(tree: dict[str, Any], depth: int = 0) -> Iterator[str]:
    """Write the fields of a struct, one per line, inner structs indented."""
    indent = INDENT * depth
    for name, value in tree.items():
        if name.startswith("_"):
            if name == "_fault":
                yield f"{indent}FAULT: {safe(value)}"
            if name == "_tags" and value:
                yield f"{indent}unknown tagged fields: {', '.join(f'{tag} = {format_scalar(raw)}' for tag, raw in value)}"
            continue
        yield from _field(indent, name, value, tree.get(f"_{name}"), depth)


def _field(indent: str, name: str, value: Any, words: Any, depth: int) -> Iterator[str]:
    if isinstance(words, dict) and "batches" in words and "bytes" in words:
        yield f"{indent}{name}: {words['bytes']:,} bytes"
        for batch in words["batches"]:
            yield f"{indent}{INDENT}- {_batch(batch)}"
            yield from _items(batch.get("records", ()), depth + 2)
    elif isinstance(words, dict):
        yield f"{indent}{name}"
        yield from tree_lines(words, depth + 1)
    elif isinstance(value, dict):
        yield f"{indent}{name}"
        yield from tree_lines(value, depth + 1)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        yield f"{indent}{name}"
        yield from _items(value, depth + 1)
    elif isinstance(value, list):
        yield f"{indent}{name}: {_list(value, words)}"
    else:
        yield f"{indent}{name}: {_with_words(value, words)}"


def _batch(batch: dict[str, Any]) -> str:
    """Write what the header of a batch says in one line; JSON has every field of it."""
    if "magic" not in batch:
        return safe(batch.get("cut") or batch.get("fault", ""))
    place = next(name for name in ("base_offset", "offset", "position") if name in batch)
    parts = [f"magic {batch['magic']}", f"{place.removeprefix('base_')} {batch[place]}"]
    if "record_count" in batch:
        parts.append(f"{batch['record_count']} records")
    parts.append(batch["_attributes"])
    if batch.get("producer_id", -1) != -1:
        parts.append(
            "producer {producer_id} epoch {producer_epoch} sequence {base_sequence}".format_map(batch)
        )
    if "partition_leader_epoch" in batch:
        parts.append(f"leader epoch {batch['partition_leader_epoch']}")
    time_ms = batch.get("max_timestamp", batch.get("timestamp"))
    if time_ms is not None:
        parts.append(f"to {timestamp_text(time_ms) or time_ms}")
    if "_crc" in batch:
        parts.append("WRONG CHECKSUM")
    if "fault" in batch:
        parts.append(f"FAULT: {safe(batch['fault'])}")
    return ", ".join(parts)


def _items(items: Iterable[dict[str, Any]], depth: int) -> Iterator[str]:
    """Write the structs of an array, each led by a dash."""
    for item in items:
        first = True
        for line in tree_lines(item, depth + 1):
            yield f"{INDENT * depth}- {line[len(INDENT) * (depth + 1) :]}" if first else line
            first = False
        if first:
            yield f"{INDENT * depth}- {{}}"


def _list(values: list[Any], words: Any) -> str:
    if isinstance(words, list):
        return f"[{', '.join(map(_with_words, values, words))}]"
    return f"[{', '.join(map(format_scalar, values))}]"


def _with_words(value: Any, words: Any) -> str:
    if words is None:
        return format_scalar(value)
    return safe(str(words)) if value is None else f"{format_scalar(value)} ({safe(str(words))})"


def quote(text: str) -> str:
    """Write text in double quotes, those inside escaped."""
    return '"' + safe(text).replace('"', '\\"') + '"'


def format_scalar(value: Any) -> str:
    """Write one value: text in quotes, bytes as text or hex."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bytes):
        return _bytes(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _bytes(value: bytes) -> str:
    shown = value[:BYTES_SHOWN]
    more = f" … {len(value) - len(shown):,} bytes more" if len(value) > len(shown) else ""
    try:
        text = shown.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if text and text.isprintable():
        return quote(text) + more
    return f"0x{shown.hex()}{more}" if shown else '""'
