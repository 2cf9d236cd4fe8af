"""A request in another version of its API: which version the target gets, and what that costs.

The captured version is kept if the target speaks it, else the nearest one is taken. The tree is carried over
field by field. A field that the new version does not have may go if it says nothing (its default), if it is
one of `HARMLESS`, or if its meaning moves to another field: a topic's name to its id and back, one group to a
list of one. Everything else is a *loss* with a name, refused unless the settings allow it.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.schema.definition import (
    UNKNOWN_TAGS,
    Field,
    Message,
    fields_at,
)
from kdissect.protocol.schema.registry import APIS
from kdissect.replay.rewrite.names import (
    ZERO_ID,
    Names,
    Tree,
)

FIRST_BATCH_VERSION = 3  # of Produce: record batches of magic 2
TOPIC_IDS_IN_FETCH = 13
LAST_CLIENT_VERSION: dict[int, int] = {ApiKey.ADD_PARTITIONS_TO_TXN: 3}  # newer ones are for brokers

HARMLESS = frozenset(
    {
        # It is false in everything that is sent.
        "allow_auto_topic_creation",
        # Neutral by role.
        "cluster_id",
        "replica_state",
        "current_leader_epoch",
        "last_fetched_epoch",
        "committed_leader_epoch",
        "rack_id",
        # Only followers use them.
        "log_start_offset",
        "replica_directory_id",
        "high_watermark",
        # Limits that have defaults.
        "max_bytes",
        "max_num_offsets",
        "timeout_ms",
        "retention_time_ms",
        "commit_timestamp",
        # Known from other fields, or for logs.
        "reason",
        "protocol_type",
        "protocol_name",
        # Without sessions the request names everything.
        "session_id",
        "session_epoch",
        "forgotten_topics_data",
        "include_cluster_authorized_operations",
        "include_topic_authorized_operations",
        # In OffsetFetch they only fence.
        "member_id",
        "member_epoch",
        # Older members use the session timeout.
        "rebalance_timeout_ms",
    }
)
"""Fields whose loss changes nothing."""

Range: TypeAlias = tuple[int, int]
"""Oldest and newest version."""


class Converted(NamedTuple):
    """A tree in another version, and what it lost on the way."""

    tree: Tree
    losses: tuple[str, ...]


def chosen_version(key: int, captured: int, target: Range | None) -> int | None:
    """Return the version to send: the captured one, or the nearest that both ends know, or None."""
    api = APIS.get(key)
    if api is None or target is None:
        return None
    low = max(target[0], api.versions[0])
    high = min(target[1], api.versions[-1], LAST_CLIENT_VERSION.get(key, 99))
    if low > high:
        return None
    return min(max(captured, low), high)


def true_ranges(listed: dict[int, Range]) -> dict[int, Range]:
    """Return the versions that a broker speaks, from those that it lists.

    Brokers of 4.x list Produce 0-2 for the sake of old clients, and refuse it (KAFKA-18659).
    """
    ranges = dict(listed)
    if ApiKey.PRODUCE in ranges and ranges.get(ApiKey.FETCH, (0, 0))[0] >= 4:
        low, high = ranges[ApiKey.PRODUCE]
        ranges[ApiKey.PRODUCE] = (max(low, FIRST_BATCH_VERSION), high)
    return ranges


def convert(key: int, tree: Tree, captured: int, sent: int, names: Names) -> Converted:
    """Return a request in another version, and what it loses; the values in it are the target's already."""
    if captured == sent:
        return Converted(tree, ())
    message = APIS[key].request
    losses: list[str] = []
    shaped = SHAPES[key](tree, captured, sent) if key in SHAPES else tree
    return Converted(_carry(message, shaped, sent, names, "", losses), tuple(losses))


def _carry(owner: Message | Field, tree: Tree, sent: int, names: Names, path: str, losses: list[str]) -> Tree:
    """Return the fields that the version has, and note what is lost."""
    known = _by_name(owner, sent)
    out: Tree = {}
    for name, value in tree.items():
        field = known.get(name)
        if field is None:
            if name == UNKNOWN_TAGS or not _is_default(owner, name, value, known):
                losses.append(f"{path}{name}")
            continue
        if field.type == "struct" and value is not None:
            where = f"{path}{name}."
            if field.array:
                out[name] = [_carry(field, item, sent, names, where, losses) for item in value]
            else:
                out[name] = _carry(field, value, sent, names, where, losses)
        elif value is None and sent not in field.nullable:
            out[name] = field.default if field.default is not None else ""
        else:
            out[name] = value
    _name_topics(owner, tree, out, sent, names)
    return out


def _name_topics(owner: Message | Field, tree: Tree, out: Tree, sent: int, names: Names) -> None:
    """Put a topic's id in the place of its name, or the other way round.

    Else the zero id would be sent silently.
    """
    roles = _topic_fields(owner, sent)
    if roles is None:
        return
    name_field, wants_name, wants_id = roles
    name, identity = tree.get(name_field), tree.get("topic_id")
    if wants_id and not wants_name and out.get("topic_id", ZERO_ID) == ZERO_ID and name:
        out["topic_id"] = names.id_of(name)
    if wants_name and not out.get(name_field) and identity and identity != ZERO_ID:
        found = names.name_of(identity)
        if found is not None:
            out[name_field] = found


@cache
def _by_name(owner: Message | Field, version: int) -> dict[str, Field]:
    return {field.name: field for field in fields_at(owner, version)}


@cache
def _topic_fields(owner: Message | Field, version: int) -> tuple[str, bool, bool] | None:
    """Return how a struct names a topic; None for one that has not both a name and an id.

    That is (the field for names, whether this version has it, whether this version has an id).
    """
    by_role = {
        field.role: field for field in owner.fields if field.role in ("topic", "topic_id") and not field.array
    }
    if by_role.keys() != {"topic", "topic_id"}:
        return None
    name = by_role["topic"]
    return name.name, version in name.versions, version in by_role["topic_id"].versions


def _is_default(owner: Message | Field, name: str, value: Any, known: dict[str, Field]) -> bool:
    field = next((each for each in owner.fields if each.name == name), None)
    if field is None:
        return True  # put there by a change of shape
    if value == field.default or value in (None, [], "", b"") or name in HARMLESS:
        return True
    if field.role in ("topic", "topic_id"):
        return any(each.role in ("topic", "topic_id") for each in known.values())
    return False


def _offset_fetch(tree: Tree, captured: int, sent: int) -> Tree:
    if captured < 8 <= sent:
        return {"require_stable": tree.get("require_stable", False), "groups": [
            {"group_id": tree["group_id"], "topics": tree.get("topics")}]}  # fmt: skip
    if sent < 8 <= captured and len(tree["groups"]) == 1:
        (group,) = tree["groups"]
        return {
            "require_stable": tree["require_stable"],
            "group_id": group["group_id"],
            "topics": group["topics"],
        }
    return tree


def _find_coordinator(tree: Tree, captured: int, sent: int) -> Tree:
    if captured < 4 <= sent:
        return {"key_type": tree.get("key_type", 0), "coordinator_keys": [tree["key"]]}
    if sent < 4 <= captured and len(tree["coordinator_keys"]) == 1:
        return {"key_type": tree["key_type"], "key": tree["coordinator_keys"][0]}
    return tree


def _leave_group(tree: Tree, captured: int, sent: int) -> Tree:
    if captured < 3 <= sent:
        return {"group_id": tree["group_id"], "members": [{"member_id": tree["member_id"]}]}
    if sent < 3 <= captured and len(tree["members"]) == 1:
        return {"group_id": tree["group_id"], "member_id": tree["members"][0]["member_id"]}
    return tree


def _delete_topics(tree: Tree, captured: int, sent: int) -> Tree:
    if captured < 6 <= sent:
        return {"timeout_ms": tree["timeout_ms"], "topics": [{"name": name} for name in tree["topic_names"]]}
    if sent < 6 <= captured and all(topic.get("name") for topic in tree["topics"]):
        return {"timeout_ms": tree["timeout_ms"], "topic_names": [topic["name"] for topic in tree["topics"]]}
    return tree


def _join_group(tree: Tree, captured: int, sent: int) -> Tree:
    if captured < 1 <= sent:  # brokers wait as long for a rebalance then; with the default they wait for none
        return tree | {"rebalance_timeout_ms": tree["session_timeout_ms"]}
    return tree


SHAPES: dict[int, Callable[[Tree, int, int], Tree]] = {
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.LEAVE_GROUP: _leave_group,
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.DELETE_TOPICS: _delete_topics,
}
