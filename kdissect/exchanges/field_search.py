"""Fields by role in a decoded message: every topic that it names, every group, every error.

In come a message of the schema, a version and roles. Out goes a function that yields each value with its role
and the struct around it, or None if the message cannot have any. It is made once for each message, version
and set of roles.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from kdissect.protocol.codec.messages import decode_embedded
from kdissect.protocol.schema.definition import (
    Field,
    Message,
    fields_at,
)
from kdissect.protocol.schema.registry import MESSAGES

Tree = dict[str, Any]
Mention = tuple[str, Any, Tree]  # role, value, the struct it stands in
Finder = Callable[[Tree], Iterator[Mention]]


@cache
def finder(message: Message, version: int, roles: frozenset[str]) -> Finder | None:
    """Return the function that yields all values of these roles that are not null, elements one by one."""
    return _struct_finder(message, version, roles)


def _struct_finder(owner: Message | Field, version: int, roles: frozenset[str]) -> Finder | None:
    candidates = ((field.name, _field_finder(field, version, roles)) for field in fields_at(owner, version))
    finders = [(name, find) for name, find in candidates if find]
    if not finders:
        return None

    def find_all(value: Tree) -> Iterator[Mention]:
        for name, find in finders:
            if value.get(name) is not None:
                yield from find(value[name], value)

    return find_all


def _field_finder(
    field: Field, version: int, roles: frozenset[str]
) -> Callable[[Any, Tree], Iterator[Mention]] | None:
    if field.embedded:
        return _embedded_finder(field.embedded, roles)
    if field.type == "struct":
        inner = _struct_finder(field, version, roles)
        if inner is None:
            return None
        find = inner
        if field.array:
            return lambda items, _: (mention for item in items for mention in find(item))
        return lambda item, _: find(item)
    if field.role is None or field.role not in roles:
        return None
    role = field.role
    if field.array:
        return lambda items, holder: ((role, item, holder) for item in items)
    return lambda item, holder: iter(((role, item, holder),))


def _embedded_finder(name: str, roles: frozenset[str]) -> Callable[[bytes, Tree], Iterator[Mention]] | None:
    message = MESSAGES[name]
    if not any(_struct_finder(message, version, roles) for version in message.versions):
        return None

    def find(data: bytes, _: Tree) -> Iterator[Mention]:
        decoded = decode_embedded(name, data)
        if decoded.fault is None:
            version = min(int.from_bytes(data[:2], "big"), message.versions[-1])
            inner = finder(message, version, roles)
            if inner:
                yield from inner(decoded.value)

    return find
