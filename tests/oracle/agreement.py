"""Agreement of kdissect's codec and a class of Kafka on the bytes of one message.

In: a message of the schema, a version, bytes, and the `Reading` of Kafka's class. Out: a `Verdict`. Both must
accept or both refuse. Messages that both accept must have the same length and the same values, and must
be written as the same bytes.

kdissect reads captured bytes and Kafka reads its own, so a few differences are meant. `Leniency` names them
all; what it does not name is a difference. Two more are normalised before bytes are compared: Kafka leaves
out a tagged field that has its default, and it writes any bool but 0 as 1.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any, NamedTuple

from kdissect.protocol.codec.messages import Decoded, Fault, decode_start, encode
from kdissect.protocol.schema.definition import UNKNOWN_TAGS, Field, Message, fields_at
from tests.helpers.message_trees import default
from tests.oracle.peer import Reading


class Leniency(Enum):
    """Intended difference: one side takes bytes that the other does not, or takes them differently."""

    NULL = "null where the schema has none: Kafka refuses, kdissect shows the null"
    LONG_TEXT = "text over 32,767 bytes in a flexible version: Kafka refuses, kdissect shows it"
    NEGATIVE = "a length or count below -1: Kafka reads null, kdissect reports a fault"
    VARINT = "a varint of more than 32 bits: Kafka drops what is above, kdissect reports a fault"
    MARK = "a nullable struct marked neither 1 nor -1: Kafka goes by the sign, kdissect reports a fault"
    TAG_ORDER = "tags that do not ascend: Kafka reads them, kdissect reports a fault"
    TAG_SIZE = (
        "a tagged field whose size is not its value's: Kafka ignores the size, kdissect reports a fault"
    )
    OTHER_TAG = (
        "a tag that only other versions of the message have: Kafka refuses, kdissect shows an unknown tag"
    )
    TAG_NUMBER = "a tag above 2,147,483,647: Kafka reads it as negative and cannot write it, kdissect can"
    TEXT = "text that is not UTF-8: Kafka replaces it, kdissect keeps its bytes"


class Verdict(NamedTuple):
    """How two readings of a message compare."""

    accepted: bool  # by kdissect
    leniency: Leniency | None = None
    difference: str | None = None


# The faults that kdissect finds in bytes that only Kafka accepts.
_FAULTS = (
    (re.compile(r"negative (length|count)"), Leniency.NEGATIVE),
    (re.compile(r"varint longer than 32 bits"), Leniency.VARINT),
    (re.compile(r"nullable struct marked"), Leniency.MARK),
    (re.compile(r"tag \d+ after tag"), Leniency.TAG_ORDER),
    (re.compile(r"tag \d+ has \d+ bytes"), Leniency.TAG_SIZE),
)
_COUNTED = re.compile(r"(?:length )?(\d+)(?: elements| tagged fields)?, but \d+ bytes left")
_LONGEST_TEXT = 0x7FFF
_LONGEST = 0x7FFF_FFFF  # the highest number of a Java int
_ESCAPED = re.compile("[\udc80-\udcff]+")
_REPLACED = re.compile("\ufffd+")


def compare(message: Message, version: int, data: bytes, theirs: Reading) -> Verdict:
    """Compare what both sides make of `data`."""
    ours = decode_start(message, version, data)
    if ours.fault:
        if theirs.refusal:
            return Verdict(False)
        leniency = _only_kafka_accepts(message, ours.fault)
        return Verdict(
            False, leniency, None if leniency else f"only Kafka accepts; kdissect reports {ours.fault}"
        )
    if theirs.refusal:
        leniency = _only_kdissect_accepts(message, version, ours.value)
        return Verdict(
            True, leniency, None if leniency else f"only kdissect accepts; Kafka: {theirs.refusal}"
        )
    return _compare_values(message, version, ours, theirs)


def _only_kafka_accepts(message: Message, fault: Fault) -> Leniency | None:
    for pattern, leniency in _FAULTS:
        if pattern.match(fault.reason):
            return leniency
    counted = _COUNTED.match(fault.reason)
    if counted and int(counted[1]) >= _LONGEST:  # a negative number to Java, or the highest of all
        return Leniency.NEGATIVE
    return Leniency.TAG_SIZE if _is_within_tag(message, fault.path) else None


def _is_within_tag(message: Message, path: str) -> bool:
    """Return whether a path leads through a tagged field, of which kdissect reads no byte past its size."""
    owner: Message | Field = message
    for name in re.sub(r"\[\d+\]", "", path).split("."):
        inner = [field for field in owner.fields if field.name == name]
        if not inner:
            return False
        owner = inner[0]
        if owner.tag is not None:
            return True
    return False


def _only_kdissect_accepts(owner: Message | Field, version: int, value: dict[str, Any]) -> Leniency | None:
    """Return why Kafka refuses a message that kdissect decodes, or None for no known reason."""
    if _tags_of_other_versions(owner, version) & {tag for tag, _ in value.get(UNKNOWN_TAGS, ())}:
        return Leniency.OTHER_TAG
    for field in fields_at(owner, version):
        item = value.get(field.name, field.default)
        if item is None and version not in field.nullable:
            return Leniency.NULL
        for element in item if isinstance(item, list) else [item]:
            if element is None and item is not None:
                return Leniency.NULL
            if isinstance(element, str) and len(element.encode("utf-8", "surrogateescape")) > _LONGEST_TEXT:
                return Leniency.LONG_TEXT
            if isinstance(element, dict) and (inner := _only_kdissect_accepts(field, version, element)):
                return inner
    return None


def _tags_of_other_versions(owner: Message | Field, version: int) -> set[int]:
    now = {field.tag for field in fields_at(owner, version)}
    return {field.tag for field in owner.fields if field.tag is not None} - now


def _compare_values(message: Message, version: int, ours: Decoded, theirs: Reading) -> Verdict:
    if ours.consumed != theirs.consumed:
        return Verdict(True, None, f"kdissect reads {ours.consumed} bytes, Kafka {theirs.consumed}")
    mine, other = values_of(message, version)(ours.value), json.loads(theirs.values)
    text = mine != other and _escapes(ours.value)
    if mine != other and not (text and _with_replacements(mine) == _with_replacements(other)):
        return Verdict(True, None, f"kdissect reads {json.dumps(mine)}, Kafka {theirs.values}")
    if theirs.written is None:
        leniency = _unwritten(ours.value, text)
        return Verdict(True, leniency, None if leniency else f"Kafka cannot write it: {theirs.unwritten}")
    if text:
        again = values_of(message, version)(decode_start(message, version, theirs.written).value)
        if _with_replacements(again) == _with_replacements(mine):
            return Verdict(True, Leniency.TEXT)
    written = encode(message, version, without_defaults(message, version, ours.value))
    if written == theirs.written:
        return Verdict(True)
    return Verdict(True, None, f"kdissect writes {written.hex()}, Kafka {theirs.written.hex()}")


def _unwritten(value: Any, text: bool) -> Leniency | None:
    """Return why Kafka may be unable to write what it has read."""
    if _highest_tag(value) > _LONGEST:
        return Leniency.TAG_NUMBER
    return Leniency.TEXT if text else None  # what replaces wrong bytes is longer, perhaps too long


def _highest_tag(value: Any) -> int:
    match value:
        case list():
            return max((_highest_tag(item) for item in value), default=0)
        case dict():
            tags = [tag for tag, _ in value.get(UNKNOWN_TAGS, ())]
            return max([0, *tags, *(_highest_tag(value[name]) for name in value.keys() - {UNKNOWN_TAGS})])
    return 0


def _escapes(value: Any) -> bool:
    """Return whether some text in `value` is not UTF-8."""
    match value:
        case str():
            return _ESCAPED.search(value) is not None
        case list():
            return any(_escapes(item) for item in value)
        case dict():
            return any(_escapes(item) for item in value.values())
    return False


def _with_replacements(values: Any) -> Any:
    """Return `values` with one U+FFFD for each run of bytes that are not UTF-8, whichever way it was read."""
    if isinstance(values, list):
        return [_with_replacements(item) for item in values]
    if isinstance(values, str):
        return _REPLACED.sub("\ufffd", _ESCAPED.sub("\ufffd", values))
    return values


@cache
def values_of(message: Message, version: int) -> Callable[[dict[str, Any]], list[Any]]:
    """Return a function from a decoded message to the form that KafkaMessages.java gives values."""
    return _struct_values(message, version)


def _struct_values(owner: Message | Field, version: int) -> Callable[[dict[str, Any]], list[Any]]:
    getters = [(field.name, _field_values(field, version), field) for field in fields_at(owner, version)]

    def values(value: dict[str, Any]) -> list[Any]:
        return [
            convert(value[name]) if name in value else convert(default(field, version))
            for name, convert, field in getters
        ]

    return values


def _field_values(field: Field, version: int) -> Callable[[Any], Any]:
    match field.type:
        case "struct":
            one = _struct_values(field, version)
        case "bytes" | "records" | "uuid":
            one = bytes.hex
        case "float64":
            one = _bits
        case "bool":
            one = bool
        case _:
            one = _same
    if field.array:
        return lambda items: (
            None if items is None else [None if item is None else one(item) for item in items]
        )
    return lambda item: None if item is None else one(item)


def _bits(number: float) -> int:
    return struct.unpack(">q", struct.pack(">d", number))[0]


def _same(value: Any) -> Any:
    return value


def without_defaults(owner: Message | Field, version: int, value: dict[str, Any]) -> dict[str, Any]:
    """Return a decoded value as Kafka writes it: without tagged fields that have their default, bools as 0
    and 1."""
    kept = {name: item for name, item in value.items() if name == UNKNOWN_TAGS}
    for field in fields_at(owner, version):
        if field.name in value and not (
            field.tag is not None and _is_default(field, version, value[field.name])
        ):
            kept[field.name] = _without_defaults(field, version, value[field.name])
    return kept


def _without_defaults(field: Field, version: int, item: Any) -> Any:
    if isinstance(item, list):
        return [_without_defaults(field, version, element) for element in item]
    if isinstance(item, dict):
        return without_defaults(field, version, item)
    return bool(item) if field.type == "bool" else item


def _is_default(field: Field, version: int, item: Any) -> bool:
    if field.type != "struct" or field.array or not isinstance(item, dict):
        return item == default(field, version)
    return UNKNOWN_TAGS not in item and all(
        _is_default(child, version, item.get(child.name, default(child, version)))
        for child in fields_at(field, version)
    )
