"""The readers of messages: a message at one version becomes closures from bytes to dicts and lists.

Every length and count is checked before it is used, and no struct, value or tagged field is read beyond its
end. `DecodeError` carries the path of the field and what could be read before it; `messages` lists what
counts as an error.

An object takes a hundred times the bytes that ask for it. So at most `limits.ELEMENTS` elements of arrays and
unknown tagged fields of one message are read; a number, which is smaller, counts as a part of one.
"""

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from itertools import groupby
from struct import Struct
from typing import Any

from kdissect import limits
from kdissect.protocol.codec.wire import (
    FIXED,
    NOTHING,
    SIZED,
    DecodeError,
    Reader,
    as_bool,
    count_length,
    fixed_reader,
    read_tag,
    read_tag_count,
    sized_reader,
)
from kdissect.protocol.schema.definition import (
    UNKNOWN_TAGS,
    Field,
    Message,
    fields_at,
)

Step = Callable[[dict[str, Any], bytes, int, int], int]  # reads one or more fields of a struct into its dict


NUMBERS = 8  # in an array count as one element
_room = ContextVar("_room", default=limits.ELEMENTS)  # elements that may still be read of the message


def message_reader(message: Message, version: int, flexible: bool, strict: bool = False) -> Reader:
    """Return the reader of a message in one version; a strict one refuses null where the schema has none."""
    read_all = struct_reader(message, version, flexible, strict)

    def read(data: bytes, offset: int, end: int) -> tuple[Any, int]:
        _room.set(limits.ELEMENTS)
        return read_all(data, offset, end)

    return read


def _take_room(count: int, offset: int) -> None:
    """Count elements that are about to be read. Raise DecodeError if they are too many for one message."""
    left = _room.get() - count
    if left < 0:
        raise DecodeError(offset, f"more than the {limits.ELEMENTS:,} elements that are kept of one message")
    _room.set(left)


def struct_reader(owner: Message | Field, version: int, flexible: bool, strict: bool = False) -> Reader:
    """Return the reader of a message, or of the fields of a struct, in one version."""
    fields = fields_at(owner, version)
    steps = list(_steps([field for field in fields if field.tag is None], version, flexible, strict))
    if flexible:
        tagged = {
            field.tag: (field.name, _field_reader(field, version, True, strict))
            for field in fields
            if field.tag is not None
        }
        steps.append(_tags_step(tagged))

    def read(data: bytes, offset: int, end: int) -> tuple[Any, int]:
        value: dict[str, Any] = {}
        try:
            for step in steps:
                offset = step(value, data, offset, end)
        except DecodeError as error:
            error.partial = value
            raise
        return value, offset

    return read


def _steps(fields: list[Field], version: int, flexible: bool, strict: bool) -> Iterator[Step]:
    """Yield the steps of a struct: neighbours of fixed size are read at once, everything else one by one."""
    for fixed, neighbours in groupby(fields, key=lambda field: not field.array and field.type in FIXED):
        run = list(neighbours)
        if fixed and len(run) > 1:
            yield _run_step(run)
        else:
            for field in run:
                yield _field_step(field.name, _field_reader(field, version, flexible, strict))


def _field_step(name: str, read: Reader) -> Step:
    def step(value: dict[str, Any], data: bytes, offset: int, end: int) -> int:
        try:
            value[name], offset = read(data, offset, end)
        except DecodeError as error:
            raise _inside(error, name, value) from None
        return offset

    return step


def _run_step(run: list[Field]) -> Step:
    names = [field.name for field in run]
    bools = [field.name for field in run if field.type == "bool"]
    layout = Struct(">" + "".join(FIXED[field.type] for field in run))
    size, unpack = layout.size, layout.unpack_from
    singles = [_field_step(field.name, fixed_reader(field.type)) for field in run]

    def step(value: dict[str, Any], data: bytes, offset: int, end: int) -> int:
        if end - offset < size:
            for single in singles:
                offset = single(value, data, offset, end)
        value.update(zip(names, unpack(data, offset), strict=False))
        for name in bools:
            value[name] = as_bool(value[name])
        return offset + size

    return step


def _inside(error: DecodeError, name: str, value: dict[str, Any]) -> DecodeError:
    """Note that the wrong bytes are in this field, and keep what was read of it."""
    error.path.append(name)
    if error.partial is not NOTHING:
        value[name] = error.partial
    error.partial = NOTHING
    return error


def _field_reader(field: Field, version: int, flexible: bool, strict: bool) -> Reader:
    if field.type in FIXED and not field.array:
        return fixed_reader(field.type)
    read = _array_or_value_reader(field, version, flexible, strict)
    return _required_reader(read) if strict and version not in field.nullable else read


def _array_or_value_reader(field: Field, version: int, flexible: bool, strict: bool) -> Reader:
    if field.type in FIXED:
        return _fixed_array_reader(field.type, flexible)
    if field.type == "struct":
        read_element = struct_reader(field, version, flexible, strict)
        if version in field.nullable and not field.array:
            read_element = _optional_reader(read_element)
        least = least_size(field, version, flexible)
    else:
        read_element = sized_reader(field.type, flexible)
        least = _least_primitive(field.type, flexible)
        if strict and field.array:
            read_element = _required_reader(read_element)
    return _array_reader(read_element, least, flexible) if field.array else read_element


def _required_reader(read_value: Reader) -> Reader:
    """Return a reader that refuses null."""

    def read(data: bytes, offset: int, end: int) -> tuple[Any, int]:
        value, stop = read_value(data, offset, end)
        if value is None:
            raise DecodeError(offset, "null, which this field cannot be")
        return value, stop

    return read


def _optional_reader(read_struct: Reader) -> Reader:
    """Return the reader of a nullable struct: an int8 before it is -1 for null, 1 if it follows (KIP-893)."""

    def read(data: bytes, offset: int, end: int) -> tuple[Any, int]:
        if offset >= end:
            raise DecodeError(offset, "only 0 of 1 bytes")
        if data[offset] == 0xFF:
            return None, offset + 1
        if data[offset] == 1:
            return read_struct(data, offset + 1, end)
        raise DecodeError(offset, f"nullable struct marked {data[offset]}, neither 1 nor 255")

    return read


def _array_reader(read_one: Reader, least: int, flexible: bool) -> Reader:
    read_count = count_length(flexible).read

    def read(data: bytes, offset: int, end: int) -> tuple[Any, int]:
        start = offset
        count, offset = read_count(data, offset, end)
        if count < 0:
            _check_null(count, start)
            return None, offset
        items: list[Any] = []
        if count * least > end - offset:
            error = DecodeError(start, f"{count} elements, but {end - offset} bytes left", items)
            _salvage(read_one, items, data, offset, end)
            raise error
        _take_room(count, start)
        try:
            for _ in range(count):
                item, offset = read_one(data, offset, end)
                items.append(item)
        except DecodeError as error:
            _keep(error, items)
            raise
        return items, offset

    return read


def _keep(error: DecodeError, items: list[Any]) -> None:
    """Note that the wrong bytes are in the next element, and keep what was read of it."""
    error.path.append(f"[{len(items)}]")
    if error.partial is not NOTHING:
        items.append(error.partial)
    error.partial = items


def _salvage(read_one: Reader, items: list[Any], data: bytes, offset: int, end: int) -> None:
    """Read the elements that are left of an array that claims more: a capture may have cut off the rest."""
    try:
        while offset < end:
            _take_room(1, offset)
            item, offset = read_one(data, offset, end)
            items.append(item)
    except DecodeError as error:
        _keep(error, items)


def _check_null(count: int, start: int) -> None:
    if count != -1:
        raise DecodeError(start, f"negative count {count}")


def _fixed_array_reader(kind: str, flexible: bool) -> Reader:
    read_count = count_length(flexible).read
    layout = Struct(f">{FIXED[kind]}")
    size, iter_unpack = layout.size, layout.iter_unpack

    def unpack(data: bytes, offset: int, count: int) -> list[Any]:
        return [item for (item,) in iter_unpack(data[offset : offset + count * size])]

    def read(data: bytes, offset: int, end: int) -> tuple[Any, int]:
        start = offset
        count, offset = read_count(data, offset, end)
        if count < 0:
            _check_null(count, start)
            return None, offset
        available = min(count, (end - offset) // size)
        _take_room(available // NUMBERS, start)
        if available < count:
            raise DecodeError(
                start, f"{count} elements, but {end - offset} bytes left", unpack(data, offset, available)
            )
        return unpack(data, offset, count), offset + count * size

    return read


def _tags_step(tagged: dict[int, tuple[str, Reader]]) -> Step:
    """Return the step that reads the tagged fields at the end of a flexible struct.

    They are a count, then tag, size and value of each (KIP-482).
    """

    def step(value: dict[str, Any], data: bytes, offset: int, end: int) -> int:
        if offset < end and data[offset] == 0:
            return offset + 1
        start, tag = offset, -1
        count, offset = read_tag_count(data, offset, end)
        _take_room(count, start)
        for _ in range(count):
            tag, start, offset = read_tag(data, offset, end, tag)
            _read_tagged(value, tagged.get(tag), tag, data, start, offset)
        return offset

    return step


def _read_tagged(
    value: dict[str, Any], known: tuple[str, Reader] | None, tag: int, data: bytes, offset: int, stop: int
) -> None:
    if known is None:
        value.setdefault(UNKNOWN_TAGS, []).append((tag, data[offset:stop]))
        return
    name, read = known
    try:
        value[name], end = read(data, offset, stop)
    except DecodeError as error:
        raise _inside(error, name, value) from None
    if end != stop:
        raise _inside(
            DecodeError(offset, f"tag {tag} has {stop - offset} bytes, but its value {end - offset}"),
            name,
            value,
        )


def least_size(owner: Message | Field, version: int, flexible: bool) -> int:
    """Return the fewest bytes that a message or the fields of a struct can take."""
    untagged = (field for field in fields_at(owner, version) if field.tag is None)
    return sum(_least_field(field, version, flexible) for field in untagged) + flexible


def _least_field(field: Field, version: int, flexible: bool) -> int:
    if field.array:
        return count_length(flexible).size
    if field.type != "struct":
        return _least_primitive(field.type, flexible)
    return 1 if version in field.nullable else least_size(field, version, flexible)


def _least_primitive(kind: str, flexible: bool) -> int:
    return Struct(f">{FIXED[kind]}").size if kind in FIXED else SIZED[kind][flexible].size
