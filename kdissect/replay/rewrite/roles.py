"""Rewriting by role: one rule for a topic name, wherever in any API one stands.

In: the tree of a request as captured. Out: the same tree with the values of the target. A message at one
version is compiled, once, to closures that go over a decoded tree in place and give every value that has a
rule to the `Names` of the run. `RULES` has what the schema cannot say: coordinator keys and resources mean
what the type beside them says. Epochs and racks of one cluster mean nothing in another and become the
schema's "don't know"; the id of the cluster is left out.
"""

from functools import cache, partial

from kdissect.protocol.codec.messages import decode_embedded, encode
from kdissect.protocol.schema.definition import Field, Message
from kdissect.protocol.schema.registry import MESSAGES
from kdissect.protocol.visitor import (
    CONSUMER_MESSAGES,
    GROUP_COORDINATOR,
    GROUP_RESOURCES,
    TOPIC_RESOURCE,
    TRANSACTION_COORDINATOR,
    Leaf,
    Visit,
    Visitor,
    compile_visit,
    coordinator_type,
    is_consumer_protocol,
    resource_type,
)
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.rewrite.names import Names, Tree

Rule = Leaf[Names]


def _coordinator(value: str, struct: Tree, names: Names) -> str:
    kind = coordinator_type(struct)
    if kind == GROUP_COORDINATOR:
        return names.group(value)
    if kind == TRANSACTION_COORDINATOR:
        return names.transactional(value)
    raise SkipRequest(Disposition.POLICY, "coordinators of share groups are not sought")


def _resource(value: str, struct: Tree, names: Names) -> str:
    kind = resource_type(struct)
    if value and kind == TOPIC_RESOURCE:
        return names.topic(value)
    return names.group(value) if value and kind in GROUP_RESOURCES else value


def _pattern(value: str, _struct: Tree, names: Names) -> str:
    if value and names.settings.prefix:
        raise SkipRequest(Disposition.POLICY, "a pattern of topic names cannot be renamed")
    return value


def _transactional_pattern(value: str, _struct: Tree, names: Names) -> str:
    if value and names.settings.prefix:
        raise SkipRequest(Disposition.POLICY, "a pattern of transactional ids cannot be renamed")
    return value


RULES: dict[str, Rule] = {
    "topic": lambda value, _, names: value and names.topic(value),
    "topic_id": lambda value, _, names: value and names.topic_id(value),
    "group": lambda value, _, names: value and names.group(value),
    "transactional_id": lambda value, _, names: value and names.transactional(value),
    "instance": lambda value, _, names: value and names.instance(value),
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


@cache
def rewriter(message: Message, version: int) -> Visit[Names]:
    """Return the function that puts the target's values into a tree, in the place of the captured ones."""
    return compile_visit(Visitor(_leaf), message, version) or (lambda tree, _names: tree)


def _leaf(_message: Message, field: Field, version: int) -> Rule | None:
    if field.embedded in CONSUMER_MESSAGES:
        return partial(_rewrite_embedded, field.embedded)
    if field.role in NEUTRAL:
        value = None if version in field.nullable else NEUTRAL[field.role]
        return lambda _value, _struct, _names: value
    return RULES.get(field.role or "")


def _rewrite_embedded(embedded: str, data: bytes, struct: Tree, names: Names) -> bytes:
    is_known = data and is_consumer_protocol(struct.get("protocol_type"))
    return rewritten_embedded(embedded, data, names) if is_known else data


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
