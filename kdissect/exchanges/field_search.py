"""Fields by role in a decoded message: every topic that it names, every group, every error.

In come a message of the schema, a version and roles. Out goes a function that finds each value with its role
and the struct around it, or None if the message cannot have any. It is made once for each message, version
and set of roles. Messages inside bytes are searched too if they can be decoded.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from kdissect.protocol.redact import REDACTED
from kdissect.protocol.schema.definition import Field, Message
from kdissect.protocol.schema.registry import MESSAGES
from kdissect.protocol.visitor import Leaf, Tree, Visitor, compile_visit, embedded_message

Mention = tuple[str, Any, Tree]  # role, value, the struct it stands in
Finder = Callable[[Tree], list[Mention]]


@cache
def finder(message: Message, version: int, roles: frozenset[str]) -> Finder | None:
    """Return the function that finds all values of these roles, one by one, apart from nulls."""
    visitor = Visitor(lambda _message, field, _version: _leaf(field, roles))
    visit = compile_visit(visitor, message, version)
    if visit is None:
        return None

    def find(tree: Tree) -> list[Mention]:
        found: list[Mention] = []
        visit(tree, found)
        return found

    return find


def _leaf(field: Field, roles: frozenset[str]) -> Leaf[list[Mention]] | None:
    if field.embedded:
        return _embedded_leaf(field.embedded, roles)
    role = field.role
    if role is None or role not in roles:
        return None

    def take(value: Any, struct: Tree, found: list[Mention]) -> Any:
        found.append((role, value, struct))
        return value

    return take


def _embedded_leaf(name: str, roles: frozenset[str]) -> Leaf[list[Mention]] | None:
    message = MESSAGES[name]
    if not any(finder(message, version, roles) for version in message.versions):
        return None

    def take(data: Any, _struct: Tree, found: list[Mention]) -> Any:
        if data is REDACTED:
            return data
        embedded = embedded_message(name, data)
        find = finder(message, embedded.version, roles) if embedded.decoded.fault is None else None
        if find:
            found.extend(find(embedded.decoded.value))
        return data

    return take
