"""Walk a decoded message: the one way to find values by their field, or to replace them.

A purpose, such as "rename topics", is a `Visitor`: it says which fields it is about, and what becomes of
their values. `compile_visit` makes of it, once for each message and version, a function over decoded trees.
The walk owns the rules of trees, so that no purpose has to repeat them:

- Null stays null, and the fields of a struct that is null are not there.
- The values of an array are visited one by one, unless the visitor wants arrays as a whole.
- A field that is missing (a tagged field that was not sent, or bytes that were cut off) is passed over.
- Parts of a message in which the visitor has no field are passed on as they are, and cost nothing.

Messages inside bytes are the visitor's matter: some purposes take a fault in them for a reason to stop,
others show it. `embedded_message` finds the message and version to go on with.

Some names mean what a number beside them says: `resource_type` and `coordinator_type` are these numbers. The
bytes that groups exchange are those of Kafka's own consumers only if `is_consumer_protocol` holds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from kdissect.protocol.codec.messages import Decoded, decode_embedded
from kdissect.protocol.schema.definition import UNKNOWN_TAGS, Field, Message, fields_at
from kdissect.protocol.schema.registry import MESSAGES

Tree = dict[str, Any]
C = TypeVar("C")

Leaf = Callable[[Any, Tree, C], Any]
"""(value, the struct it stands in, context) -> the value that takes its place."""

Enter = Callable[[Tree, C], C]
"""(struct, context around it) -> context inside."""

Visit = Callable[[Tree, C], Tree]
"""(message, context) -> the message as visited."""


class Noted(NamedTuple):
    """A value with something to say about it: a copy of the struct gets both, as `name` and `_name`."""

    value: Any
    note: Any


@dataclass(frozen=True, slots=True)
class Visitor(Generic[C]):
    """Subject of a walk. `C` is the type of the context, which every leaf is given."""

    leaf: Callable[[Message, Field, int], Leaf[C] | None]
    """Return what becomes of the values of a field in a version.

    None if the field is none of its business.
    """

    enter: Callable[[Message, Message | Field, int], Enter[C] | None] | None = None
    """Return how a struct changes the context; None if it does not."""

    unknown_tags: Callable[[list[tuple[int, Any]]], Any] | None = None
    """Treatment of tagged fields that the schema does not know."""

    copies: bool = False
    """True: the visited message is a copy; false: it is changed in place."""

    whole_arrays: bool = False
    """True: leaves are given arrays as a whole."""


def compile_visit(visitor: Visitor[C], message: Message, version: int) -> Visit[C] | None:
    """Return the visit of a message in one version; None if the visitor has no field in it."""
    return _visit_struct(visitor, message, message, version)


def _visit_struct(
    visitor: Visitor[C], message: Message, owner: Message | Field, version: int
) -> Visit[C] | None:
    steps: dict[str, Leaf[C]] = {}
    for field in fields_at(owner, version):
        step = _step(visitor, message, field, version)
        if step is not None:
            steps[field.name] = step
    if visitor.unknown_tags is not None and version in message.flexible:
        change = visitor.unknown_tags
        steps[UNKNOWN_TAGS] = lambda tags, _struct, _context: change(tags)
    if not steps:
        return None
    visit = _copying(steps) if visitor.copies else _in_place(steps)
    enter = visitor.enter(message, owner, version) if visitor.enter else None
    return visit if enter is None else _entering(enter, visit)


def _step(visitor: Visitor[C], message: Message, field: Field, version: int) -> Leaf[C] | None:
    if field.type == "struct":
        visit = _visit_struct(visitor, message, field, version)
        return None if visit is None else _inner_step(visit, field.array)
    leaf = visitor.leaf(message, field, version)
    if leaf is None or not field.array or visitor.whole_arrays:
        return leaf
    return _each(leaf)


def _inner_step(visit: Visit[C], array: bool) -> Leaf[C]:
    def visit_one(item: Tree, _struct: Tree, context: C) -> Tree:
        return visit(item, context)

    def visit_all(items: list[Tree], _struct: Tree, context: C) -> list[Tree]:
        return [visit(item, context) for item in items]

    return visit_all if array else visit_one


def _each(leaf: Leaf[C]) -> Leaf[C]:
    def visit_all(items: list[Any], struct: Tree, context: C) -> list[Any]:
        return [None if item is None else leaf(item, struct, context) for item in items]

    return visit_all


def _in_place(steps: dict[str, Leaf[C]]) -> Visit[C]:
    pairs = tuple(steps.items())

    def visit(struct: Tree, context: C) -> Tree:
        for name, step in pairs:
            value = struct.get(name)
            if value is not None:
                struct[name] = step(value, struct, context)
        return struct

    return visit


def _copying(steps: dict[str, Leaf[C]]) -> Visit[C]:
    def visit(struct: Tree, context: C) -> Tree:
        copy: Tree = {}
        for name, value in struct.items():
            step = steps.get(name)
            new = value if step is None or value is None else step(value, struct, context)
            if type(new) is Noted:
                copy[name], copy[f"_{name}"] = new
            else:
                copy[name] = new
        return copy

    return visit


def _entering(enter: Enter[C], visit: Visit[C]) -> Visit[C]:
    def visit_inside(struct: Tree, context: C) -> Tree:
        return visit(struct, enter(struct, context))

    return visit_inside


class Embedded(NamedTuple):
    """A message inside bytes, at the version in which it was read."""

    message: Message
    version: int
    decoded: Decoded


def embedded_message(name: str, data: bytes, *, strict: bool = False) -> Embedded:
    """Return the message that bytes carry; one of a newer version than the schema's is read as the newest."""
    message = MESSAGES[name]
    version = min(int.from_bytes(data[:2], "big", signed=True), message.versions[-1])
    return Embedded(message, version, decode_embedded(name, data, strict=strict))


CONSUMER_MESSAGES = ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment")
TOPIC_RESOURCE = 2  # of ACLs and of configs
BROKER_RESOURCE = 4  # of configs
GROUP_RESOURCES = (3, 32)  # of ACLs, of configs
GROUP_COORDINATOR, TRANSACTION_COORDINATOR = 0, 1


def is_consumer_protocol(protocol_type: str | None) -> bool:
    """Return whether a group of this type has Kafka's consumers.

    Others fill the same bytes in ways of their own.
    """
    return protocol_type in (None, "", "consumer")


def resource_type(struct: Tree) -> int | None:
    """Return what kind of thing the `resource` in a struct is, by the number beside it."""
    number: int | None = struct.get("resource_type", struct.get("resource_type_filter"))
    return number


def coordinator_type(struct: Tree, request: Tree | None = None) -> int:
    """Return for what kind of name a coordinator is sought; before FindCoordinator 1 all are groups.

    A response does not say so, but its `request` does.
    """
    by_request: int = (request or {}).get("key_type", GROUP_COORDINATOR)
    number: int = struct.get("key_type", by_request)
    return number
