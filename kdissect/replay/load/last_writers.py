"""State of which the last writer decides: committed offsets, topics and their configuration, quotas.

In: the requests that will be sent, in the order of the capture. Out: for a request the ones that wrote the
same state before it. They have to end before it is sent, or the target keeps what was captured earlier.

State has an owner and parts: a group has the offsets of its partitions. A request that writes all that an
owner has (part None), such as DeleteGroups, comes after those that write a part of it, and before them.
"""

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TypeAlias

from kdissect.protocol.api_keys import OFFSET_COMMITS, ApiKey
from kdissect.protocol.visitor import TOPIC_RESOURCE
from kdissect.replay.rewrite.names import Names, Tree
from kdissect.replay.rewrite.references import groups_of, topics_of

Owner: TypeAlias = tuple[str, str]  # kind and name, as for `ConnectionGroups`
State: TypeAlias = tuple[Owner, Hashable]  # the owner, and which part of what it has; None for all


class LastWriters:
    """Learns from all requests in order. Takes 8 bytes for each state that a request writes."""

    def __init__(self) -> None:
        self._writers: dict[Owner, dict[Hashable, array[int]]] = defaultdict(dict)

    def take(self, index: int, key: int, version: int, body: Tree, names: Names) -> list[Owner]:
        """Learn what a request writes, and return to whom that belongs."""
        owners = []
        for owner, part in states_written(key, version, body, names):
            writers = self._writers[owner].setdefault(part, array("q"))
            if not writers or writers[-1] != index:
                writers.append(index)
            owners.append(owner)
        return owners

    def earlier(self, index: int, key: int, version: int, body: Tree, names: Names) -> set[int]:
        """Return the last requests before this one that wrote what it writes."""
        found = set()
        for owner, part in states_written(key, version, body, names):
            parts = self._writers.get(owner, {})
            for each in parts if part is None else (part, None):
                writers = parts.get(each)
                place = bisect_left(writers, index) if writers else 0
                if writers and place:
                    found.add(writers[place - 1])
        return found


def states_written(key: int, version: int, body: Tree, names: Names) -> Iterator[State]:
    """Return the state that a captured request writes."""
    writes = WRITES.get(key)
    return iter(()) if writes is None else writes(key, version, body, names)


def _offsets(_key: int, _version: int, body: Tree, names: Names) -> Iterator[State]:
    owner = "group", body["group_id"]
    for topic in body["topics"] or ():
        name = names.captured_topic(topic) or ""
        for partition in topic["partitions"]:
            yield owner, (name, partition["partition_index"])


def _groups(key: int, version: int, body: Tree, _names: Names) -> Iterator[State]:
    return ((("group", group), None) for group in groups_of(key, version, body))


def _topics(key: int, version: int, body: Tree, names: Names) -> Iterator[State]:
    return ((("topic", topic), None) for topic in topics_of(key, version, body, names.captured_ids))


def _configs(_key: int, _version: int, body: Tree, _names: Names) -> Iterator[State]:
    for each in body["resources"] or ():
        kind, name = each["resource_type"], each["resource_name"]
        yield (("topic", name) if kind == TOPIC_RESOURCE else ("configuration", f"{kind} {name}")), None


def _quotas(_key: int, _version: int, body: Tree, _names: Names) -> Iterator[State]:
    for entry in body["entries"] or ():
        entity = sorted(f"{each['entity_type']} {each['entity_name']}" for each in entry["entity"])
        yield ("quota", ", ".join(entity)), None


WRITES: Mapping[int, Callable[[int, int, Tree, Names], Iterator[State]]] = {
    **dict.fromkeys((*OFFSET_COMMITS, ApiKey.OFFSET_DELETE), _offsets),
    **dict.fromkeys(
        (ApiKey.DELETE_GROUPS, ApiKey.ALTER_SHARE_GROUP_OFFSETS, ApiKey.DELETE_SHARE_GROUP_OFFSETS), _groups
    ),
    **dict.fromkeys(
        (
            ApiKey.CREATE_TOPICS,
            ApiKey.DELETE_TOPICS,
            ApiKey.CREATE_PARTITIONS,
            ApiKey.DELETE_RECORDS,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            ApiKey.ALTER_REPLICA_LOG_DIRS,
        ),
        _topics,
    ),
    ApiKey.ALTER_CONFIGS: _configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs,
    ApiKey.ALTER_CLIENT_QUOTAS: _quotas,
}
"""API -> what its requests write."""
