"""Which topics and groups a decoded message names, and which errors an answer has."""

from collections.abc import Iterator, Mapping

from kdissect.exchanges.field_search import finder
from kdissect.protocol.schema.registry import APIS, is_known
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.rewrite.roles import (
    GROUP_KEY,
    GROUP_RESOURCES,
    TOPIC_RESOURCE,
)

TOPICS = frozenset({"topic", "topic_id", "resource"})
GROUPS = frozenset({"group", "coordinator_key", "resource"})
ERRORS = frozenset({"error"})


def topics_of(key: int, version: int, body: Tree, names: Mapping[bytes, str]) -> list[str]:
    """Name the topics of a request as captured."""
    find = finder(APIS[key].request, version, TOPICS)
    found: list[str] = []
    for role, value, holder in find(body) if find else ():
        if role == "topic_id":
            found += [names[value]] if value in names else []
        elif role == "topic" or holder.get("resource_type") == TOPIC_RESOURCE:
            found.append(value)
    return found


def groups_of(key: int, version: int, body: Tree) -> list[str]:
    """Name the groups of a request as captured."""
    find = finder(APIS[key].request, version, GROUPS)
    return [
        value
        for role, value, holder in (find(body) if find else ())
        if role == "group"
        or (role == "coordinator_key" and holder.get("key_type", GROUP_KEY) == GROUP_KEY)
        or (role == "resource" and holder.get("resource_type") in GROUP_RESOURCES)
    ]


def errors_of(key: int, version: int, body: Tree) -> Iterator[int]:
    """Give the errors of an answer that are not 0, in wire order."""
    if not is_known(key, version):
        return
    find = finder(APIS[key].response, version, ERRORS)
    for _, value, _ in find(body) if find else ():
        if value:
            yield value
