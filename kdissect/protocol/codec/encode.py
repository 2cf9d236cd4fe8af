"""The writers of messages: a message at one version becomes closures from dicts and lists to bytes.

Tagged fields are written when they are in the dict, and in the order of their tags; an untagged field that is
missing is written as its default. A field that the message does not have in this version raises ValueError,
since it would be lost without notice.

A strict writer names the field that a value does not fit into. It refuses null in a field that cannot be
null, and a string of more than 32,767 bytes, as Kafka's own writers do. A lenient one writes back whatever
was read, since captured bytes may hold both.
"""

import struct
from textwrap import shorten
from typing import Any

from kdissect.protocol.codec.wire import (
    FIXED,
    EncodeError,
    Writer,
    count_length,
    fixed_writer,
    sized_writer,
    write_uvarint,
)
from kdissect.protocol.schema.definition import (
    UNKNOWN_TAGS,
    Field,
    Message,
    fields_at,
)

SHOWN = 60  # characters of a value in an error
LONGEST_STRING = 32_767
"""Bytes; the length of a string was an int16 before compact strings, and Kafka kept that limit."""


def struct_writer(owner: Message | Field, version: int, flexible: bool, strict: bool = False) -> Writer:
    """Return the writer of a message, or of the fields of a struct, in one version."""
    fields = fields_at(owner, version)
    names = {field.name for field in fields} | ({UNKNOWN_TAGS} if flexible else set())
    untagged = [
        (field.name, _field_writer(field, version, flexible, strict), _default(field))
        for field in fields
        if field.tag is None
    ]
    tagged = [
        (field.tag, field.name, _field_writer(field, version, True, strict))
        for field in fields
        if field.tag is not None
    ]

    def write(out: bytearray, value: dict[str, Any]) -> None:
        if not value.keys() <= names:
            raise ValueError(f"{owner.name} has no field {min(value.keys() - names)!r} in version {version}")
        for name, write_field, default in untagged:
            write_field(out, value.get(name, default))
        if flexible:
            _write_tags(out, value, tagged)

    return write


def _default(field: Field) -> Any:
    if field.default == ():
        return [] if field.array else {}
    return field.default


def _write_tags(out: bytearray, value: dict[str, Any], tagged: list[tuple[int, str, Writer]]) -> None:
    present: list[tuple[int, bytes]] = list(value.get(UNKNOWN_TAGS, ()))
    for tag, name, write_field in tagged:
        if name in value:
            body = bytearray()
            write_field(body, value[name])
            present.append((tag, bytes(body)))
    write_uvarint(out, len(present))
    for tag, raw in sorted(present):
        write_uvarint(out, tag)
        write_uvarint(out, len(raw))
        out += raw


def _field_writer(field: Field, version: int, flexible: bool, strict: bool) -> Writer:
    write = _array_or_value_writer(field, version, flexible, strict)
    if not strict:
        return write
    fitting = _fitting_writer(field, write)
    return fitting if version in field.nullable else _required_writer(field.name, fitting)


def _array_or_value_writer(field: Field, version: int, flexible: bool, strict: bool) -> Writer:
    if field.type == "struct":
        write_element = struct_writer(field, version, flexible, strict)
        if version in field.nullable and not field.array:
            write_element = _optional_writer(write_element)
    elif field.type in FIXED:
        write_element = fixed_writer(field.type)
    else:
        write_element = sized_writer(field.type, flexible)
        if strict and "string" in field.type:
            write_element = _bounded_writer(field.name, write_element)
        if strict and field.array:
            write_element = _required_writer(field.name, write_element)
    return _array_writer(write_element, flexible) if field.array else write_element


def _fitting_writer(field: Field, write_value: Writer) -> Writer:
    """Return a writer that names the field of a value of another type, or out of its range."""
    kind = f"array of {field.type}" if field.array else field.type

    def write(out: bytearray, value: Any) -> None:
        try:
            write_value(out, value)
        except (TypeError, AttributeError, OverflowError, struct.error) as error:
            shown = shorten(repr(value), SHOWN, placeholder="…")
            raise EncodeError(f"{shown} does not fit into {field.name} ({kind})") from error

    return write


def _required_writer(name: str, write_value: Writer) -> Writer:
    """Return a writer that refuses null."""

    def write(out: bytearray, value: Any) -> None:
        if value is None:
            raise EncodeError(f"{name} is null, which this field cannot be")
        write_value(out, value)

    return write


def _bounded_writer(name: str, write_text: Writer) -> Writer:
    """Return a writer that refuses strings that are too long."""

    def write(out: bytearray, value: Any) -> None:
        size = len(value.encode("utf-8", "surrogateescape")) if isinstance(value, str) else 0
        if size > LONGEST_STRING:
            raise EncodeError(f"{name} has {size:,} bytes, but a string has at most {LONGEST_STRING:,}")
        write_text(out, value)

    return write


def _optional_writer(write_struct: Writer) -> Writer:
    def write(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(0xFF)
        else:
            out.append(1)
            write_struct(out, value)

    return write


def _array_writer(write_one: Writer, flexible: bool) -> Writer:
    write_count = count_length(flexible).write

    def write(out: bytearray, value: Any) -> None:
        if value is None:
            write_count(out, -1)
            return
        write_count(out, len(value))
        for item in value:
            write_one(out, item)

    return write
