"""Rewriting by role: one rule for a topic name, wherever in 93 APIs one stands.

In: the tree of a request as captured. Out: the same tree with the values of the target. A message at one
version is compiled, once, to closures that go over a decoded tree in place and give every value that has a
rule to the `Names` of the run. What the schema cannot say is in `RULES`: coordinator keys and resources mean
what the type beside them says. Epochs and racks of one cluster mean nothing in another and become the
schema's "don't know"; the id of the cluster is left out.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from kdissect.exchanges.filter import GROUP_RESOURCES, TOPIC_RESOURCE
from kdissect.protocol.codec.messages import decode_embedded, encode
from kdissect.protocol.schema.definition import (
    Field,
    Message,
    fields_at,
)
from kdissect.protocol.schema.registry import MESSAGES
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.rewrite.names import Names, Tree

GROUP_KEY, TRANSACTION_KEY = 0, 1  # key_type of FindCoordinator


Rule = Callable[[Names, Any, Tree], Any]  # (names, value, struct around it) -> new value


def _coordinator(names: Names, value: str, struct: Tree) -> str:
    kind = struct.get("key_type", GROUP_KEY)
    if kind == GROUP_KEY:
        return names.group(value)
    if kind == TRANSACTION_KEY:
        return names.transactional(value)
    raise SkipRequest(Disposition.POLICY, "coordinators of share groups are not sought")


def _resource(names: Names, value: str | None, struct: Tree) -> str | None:
    kind = struct.get("resource_type", struct.get("resource_type_filter"))
    if value and kind == TOPIC_RESOURCE:
        return names.topic(value)
    return names.group(value) if value and kind in GROUP_RESOURCES else value


def _pattern(names: Names, value: str | None, _struct: Tree) -> str | None:
    if value and names.settings.prefix:
        raise SkipRequest(Disposition.POLICY, "a pattern of topic names cannot be renamed")
    return value


def _transactional_pattern(names: Names, value: str | None, _struct: Tree) -> str | None:
    if value and names.settings.prefix:
        raise SkipRequest(Disposition.POLICY, "a pattern of transactional ids cannot be renamed")
    return value


RULES: dict[str, Rule] = {
    "topic": lambda names, value, _: value and names.topic(value),
    "topic_id": lambda names, value, _: value and names.topic_id(value),
    "group": lambda names, value, _: value and names.group(value),
    "transactional_id": lambda names, value, _: value and names.transactional(value),
    "instance": lambda names, value, _: value and names.instance(value),
    "coordinator_key": _coordinator,
    "resource": _resource,
    "topic_pattern": _pattern,
    "transactional_id_pattern": _transactional_pattern,
}
NEUTRAL = {  # role -> what "don't know" is, for text that may be null and for numbers
    "current_leader_epoch": -1,
    "leader_epoch": -1,
    "rack": "",
    "cluster": None,
}

Walk = Callable[[Tree, Names], None]


@cache
def rewriter(message: Message, version: int) -> Walk:
    """Return the function that puts the target's values into a tree, in the place of the captured ones."""
    return _struct(message, version) or (lambda _tree, _names: None)


def _struct(owner: Message | Field, version: int) -> Walk | None:
    steps = [step for step in (_step(field, version) for field in fields_at(owner, version)) if step]
    if not steps:
        return None

    def walk(tree: Tree, names: Names) -> None:
        for step in steps:
            step(tree, names)

    return walk


def _step(field: Field, version: int) -> Walk | None:
    name = field.name
    if field.embedded and field.embedded.startswith("ConsumerProtocol"):
        embedded = field.embedded
        return lambda tree, names: _rewrite_embedded(tree, name, embedded, names)
    if field.type == "struct":
        inner = _struct(field, version)
        return _struct_step(name, field.array, inner) if inner else None
    role = field.role or ""
    if role in NEUTRAL:
        value = None if version in field.nullable else NEUTRAL[role]

        def neutralise(tree: Tree, _names: Names) -> None:
            if name in tree:
                tree[name] = value

        return neutralise
    rule = RULES.get(role)
    if rule is None:
        return None
    return _array_step(name, rule) if field.array else _value_step(name, rule)


def _struct_step(name: str, array: bool, inner: Walk) -> Walk:
    def walk_all(tree: Tree, names: Names) -> None:
        for item in tree.get(name) or ():
            inner(item, names)

    def walk_one(tree: Tree, names: Names) -> None:
        if tree.get(name) is not None:
            inner(tree[name], names)

    return walk_all if array else walk_one


def _value_step(name: str, rule: Rule) -> Walk:
    def put(tree: Tree, names: Names) -> None:
        if name in tree:
            tree[name] = rule(names, tree[name], tree)

    return put


def _array_step(name: str, rule: Rule) -> Walk:
    def put(tree: Tree, names: Names) -> None:
        if tree.get(name):
            tree[name] = [rule(names, value, tree) for value in tree[name]]

    return put


def _rewrite_embedded(tree: Tree, name: str, embedded: str, names: Names) -> None:
    if tree.get(name) and tree.get("protocol_type", "consumer") in (None, "", "consumer"):
        tree[name] = rewritten_embedded(embedded, tree[name], names)


def rewritten_embedded(embedded: str, data: bytes, names: Names) -> bytes:
    """Return what members send each other, rewritten; what they own, and in which generation, is left out.

    Raise SkipRequest if it cannot be decoded.
    """
    message = MESSAGES[embedded]
    decoded = decode_embedded(embedded, data, strict=True)
    version = int.from_bytes(data[:2], "big", signed=True)
    if decoded.fault or version not in message.versions:
        raise SkipRequest(
            Disposition.UNDECODABLE, f"{embedded} cannot be read: {decoded.fault or f'version {version}'}"
        )
    value = decoded.value
    rewriter(message, version)(value, names)
    if "owned_partitions" in value:
        value["owned_partitions"] = []
    if "generation_id" in value:
        value["generation_id"] = -1
    return data[:2] + encode(message, version, value)
