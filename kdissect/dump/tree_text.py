"""A message as text: the tree that `exchanges.describe` makes, indented, one field a line.

A word that explains a number stands behind it in parentheses. Text from the wire is escaped, so nothing
in a capture can move the cursor, change colours or reorder a line. Bytes are shown as text if they are text,
otherwise as hex.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kdissect.exchanges.describe_records import timestamp_text
from kdissect.text import escape, plural

INDENT = "  "
BYTES_SHOWN = 1024  # of one value; JSON has all


def tree_lines(struct: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """Yield the lines of a struct: one for each field, inner structs indented below theirs.

    A name with an underscore in front explains the field of that name (see `exchanges.describe`).
    """
    indent = INDENT * depth
    for name, value in struct.items():
        if name == "_fault":
            yield f"{indent}FAULT: {escape(value)}"
        elif name == "_tags" and value:
            tags = ", ".join(f"{tag} = {format_scalar(raw)}" for tag, raw in value)
            yield f"{indent}unknown tagged fields: {tags}"
        elif not name.startswith("_"):
            yield from _field_lines(name, value, struct.get(f"_{name}"), depth)


def _field_lines(name: str, value: Any, words: Any, depth: int) -> Iterator[str]:
    """Yield the lines of a field.

    `words` explain it: a text, a list of texts, or a struct that bytes hold.
    """
    indent = INDENT * depth
    if isinstance(words, dict) and "batches" in words and "bytes" in words:
        yield f"{indent}{name}: {words['bytes']:,} bytes"
        for batch in words["batches"]:
            yield f"{indent}{INDENT}- {_batch_line(batch)}"
            yield from _struct_lines(batch.get("records", ()), depth + 2)
    elif isinstance(words, dict) and "format" in words and ("fields" in words or "fault" in words):
        yield from _payload_lines(name, words, depth)
    elif isinstance(words, dict) or isinstance(value, dict):
        yield f"{indent}{name}"
        yield from tree_lines(words if isinstance(words, dict) else value, depth + 1)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        yield f"{indent}{name}"
        yield from _struct_lines(value, depth + 1)
    elif isinstance(value, list):
        yield f"{indent}{name}: {_format_list(value, words)}"
    else:
        yield f"{indent}{name}: {_format_explained(value, words)}"


def _payload_lines(name: str, note: Mapping[str, Any], depth: int) -> Iterator[str]:
    """Yield the lines of a decoded key or value (see `exchanges.decoded_record`); its names are hostile."""
    indent, schema = INDENT * depth, note.get("schema_id", note.get("schema_guid"))
    words = note["format"] if schema is None else f"{note['format']}, schema {schema}"
    if "fault" in note:
        yield f"{indent}{name}: {format_scalar(note['bytes'])}"
        yield f"{indent}{INDENT}FAULT: {escape(note['fault'])}"
    elif isinstance(note["fields"], dict | list):
        yield f"{indent}{name} ({words})"
        yield from _value_lines(note["fields"], depth + 1)
    else:
        yield f"{indent}{name}: {format_scalar(note['fields'])} ({words})"


def _value_lines(value: Any, depth: int) -> Iterator[str]:
    """Yield a line for each field of an object or item of a list, those inside indented."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for name, inside in pairs:
        label = f"{INDENT * depth}{escape(str(name))}:"
        if isinstance(inside, dict | list) and inside:
            yield label
            yield from _value_lines(inside, depth + 1)
        else:
            empty = "{}" if isinstance(inside, dict) else "[]"
            yield f"{label} {empty if isinstance(inside, dict | list) else format_scalar(inside)}"


def _batch_line(batch: Mapping[str, Any]) -> str:
    """Return what the header of a batch says, in one line; JSON has every field of it."""
    if "magic" not in batch:
        return escape(batch.get("cut") or batch.get("fault", ""))
    place = next(name for name in ("base_offset", "offset", "position") if name in batch)
    parts = [f"magic {batch['magic']}", f"{place.removeprefix('base_')} {batch[place]}"]
    if "record_count" in batch:
        parts.append(f"{batch['record_count']} {plural('record', batch['record_count'])}")
    parts.append(batch["_attributes"])
    if batch.get("producer_id", -1) != -1:
        sequence = "producer {producer_id} epoch {producer_epoch} sequence {base_sequence}"
        parts.append(sequence.format_map(batch))
    if "partition_leader_epoch" in batch:
        parts.append(f"leader epoch {batch['partition_leader_epoch']}")
    time_ms = batch.get("max_timestamp", batch.get("timestamp"))
    if time_ms is not None:
        parts.append(f"to {timestamp_text(time_ms) or time_ms}")
    if "_crc" in batch:
        parts.append("WRONG CHECKSUM")
    if "fault" in batch:
        parts.append(f"FAULT: {escape(batch['fault'])}")
    return ", ".join(parts)


def _struct_lines(structs: Iterable[Mapping[str, Any]], depth: int) -> Iterator[str]:
    """Yield the lines of the structs of an array, the first line of each led by a dash."""
    for struct in structs:
        is_first = True
        for line in tree_lines(struct, depth + 1):
            yield f"{INDENT * depth}- {line[len(INDENT) * (depth + 1) :]}" if is_first else line
            is_first = False
        if is_first:
            yield f"{INDENT * depth}- {{}}"


def _format_list(values: list[Any], words: Any) -> str:
    if isinstance(words, list):
        return f"[{', '.join(map(_format_explained, values, words))}]"
    return f"[{', '.join(map(format_scalar, values))}]"


def _format_explained(value: Any, words: Any) -> str:
    if words is None:
        return format_scalar(value)
    return escape(str(words)) if value is None else f"{format_scalar(value)} ({escape(str(words))})"


def quote(text: str) -> str:
    """Return text in double quotes; quotes inside it get a backslash."""
    return '"' + escape(text).replace('"', '\\"') + '"'


def format_scalar(value: Any) -> str:
    """Return one value as text: text in quotes, bytes as text or hex, null, true, false, or a number."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bytes):
        return _format_bytes(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _format_bytes(value: bytes) -> str:
    shown = value[:BYTES_SHOWN]
    more = f" … {len(value) - len(shown):,} bytes more" if len(value) > len(shown) else ""
    try:
        text = shown.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if text and text.isprintable():
        return quote(text) + more
    return f"0x{shown.hex()}{more}" if shown else '""'
