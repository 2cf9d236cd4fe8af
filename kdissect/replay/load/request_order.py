"""The captured order that a replay keeps between requests of several connections.

**Members of a group**: who joined, synced, committed or left before whom. In: requests of groups with their
responses, in the order of the capture. Out, by request:

- `ended`: the requests that had been answered before it was sent, at most one of each connection. A heartbeat
  or a commit comes after joins, syncs and leaves; a join or a leave, which begins a rebalance, comes after
  every request. This holds within a connection too: a member's next join needs the id that its first one got
  (KIP-394), and a connection on which two requests were once in flight would send both at once. A join or a
  leave also comes after heartbeats and commits that had been sent before it and succeeded later: on the
  target they would come into the rebalance that it begins. Members with epochs (KIP-848) learn a new epoch
  from any heartbeat, so what such a member says comes after all that it had said.
  Descriptions and deletions of a group come after what changed its members, and joins and leaves after them.
- `sent`: the joins that had been sent before a join, and not answered. They form one generation, so the join
  that began the rebalance has to be the first.
- `together`: the joins of the generation that a join got into, with the ids of their members.

A sync does not wait for other syncs: on the target another member may lead, and all others wait for it.

**State of which the last writer decides**: committed offsets, topics and their configuration, quotas. In:
the requests that will be sent, in the order of the capture. Out: for a request the ones that wrote the same
state before it. They have to end before it is sent, or the target keeps what was captured earlier. State
has an owner and parts: a group has the offsets of its partitions. A request that writes all that an owner
has (part None), such as DeleteGroups, comes after those that write a part of it, and before them.
"""

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from kdissect.exchanges.filter import errors_of, groups_of, topics_of
from kdissect.protocol.api_keys import EPOCH_HEARTBEATS, GROUP_MEMBERSHIP, OFFSET_COMMITS, ApiKey
from kdissect.protocol.visitor import TOPIC_RESOURCE
from kdissect.replay.load.request_table import Request
from kdissect.replay.rewrite.names import Names, Tree

OF_MEMBERS = GROUP_MEMBERSHIP | OFFSET_COMMITS
REMEMBERED = 4  # requests of a connection: more are hardly ever in flight
AFTER_MEMBERS = frozenset(
    {
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.DELETE_GROUPS,
    }
)
"""They tell members of groups, or need groups without any, so they come after what changed the members."""

ROUND_TRIPS = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.LEAVE_GROUP})


@dataclass(slots=True)
class _Recent:
    """The last requests of one connection in one group: time of the answer, and index."""

    every: list[tuple[int, int]] = field(default_factory=list)
    joins: list[tuple[int, int]] = field(default_factory=list)  # those that change the members
    entries: list[tuple[int, int]] = field(default_factory=list)  # of these all but syncs
    unaffected: list[tuple[int, int]] = field(default_factory=list)  # those that no rebalance had refused
    awaited: int = -1  # the last of its own requests that a later one comes after


class GroupOrder:
    """Learns from all requests of groups in order."""

    def __init__(self) -> None:
        self.ended: dict[int, tuple[int, ...]] = {}
        self.sent: dict[int, tuple[int, ...]] = {}
        self._generations: dict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)
        self._generation_of: dict[int, tuple[str, int]] = {}
        self._with_epochs: set[str] = set()  # groups whose members only send heartbeats
        self._groups: dict[str, dict[int, _Recent]] = defaultdict(dict)
        self._open_joins: dict[str, list[tuple[int, int]]] = defaultdict(list)

    def together(self, index: int) -> list[tuple[int, str]]:
        """Return the joins of the generation that a join got into: index, and id of the member."""
        generation = self._generation_of.get(index)
        return [] if generation is None else self._generations[generation]

    def take(self, request: Request, body: Tree, response: Tree) -> None:
        """Learn from a request that will be sent, and its response."""
        if request.key in AFTER_MEMBERS:
            self._take_after_members(request, groups_of(request.key, request.version or 0, body))
            return
        if request.key not in OF_MEMBERS or not body.get("group_id"):
            return
        group, now_ns = body["group_id"], request.first_ns
        changes, begins = _changes_members(request.key, body, response), _begins_rebalance(request.key, body)
        if request.key in EPOCH_HEARTBEATS:
            self._with_epochs.add(group)
        ended = set()
        for connection, recent in self._groups[group].items():
            follows = connection == request.connection and group in self._with_epochs
            earlier = recent.every if begins or follows else recent.joins
            if request.key == ApiKey.SYNC_GROUP:
                earlier = recent.entries
            last = max((each for each in earlier if each[0] <= now_ns), default=None)
            if begins and recent.unaffected and connection != request.connection:
                last = max(last or (0, -1), recent.unaffected[-1], key=lambda each: each[1])
            if last is None:
                continue
            if connection == request.connection:
                if last[1] == recent.awaited:  # what waited for it came first on this connection
                    continue
                recent.awaited = last[1]
            ended.add(last[1])
        if ended:
            self.ended[request.index] = tuple(sorted(ended))
        answered_ns = request.answered_ns
        if request.key == ApiKey.JOIN_GROUP:
            self._take_generation(request.index, body, response)
            open_joins = [each for each in self._open_joins[group] if each[0] > now_ns]
            if open_joins:
                self.sent[request.index] = tuple(index for _, index in open_joins)
            if answered_ns is not None:
                open_joins.append((answered_ns, request.index))
            self._open_joins[group] = open_joins
        if answered_ns is not None:
            own = self._groups[group].setdefault(request.connection, _Recent())
            _remember(own.every, answered_ns, request.index)
            if not changes and not any(errors_of(request.key, request.version or 0, response)):
                _remember(own.unaffected, answered_ns, request.index)
            if changes:
                _remember(own.joins, answered_ns, request.index)
                if request.key != ApiKey.SYNC_GROUP:
                    _remember(own.entries, answered_ns, request.index)

    def _take_after_members(self, request: Request, groups: Iterable[str]) -> None:
        """Learn from a request that is about members: what begins a rebalance comes after it."""
        ended = set[int]()
        for group in groups:
            for recent in self._groups[group].values():
                changed = [each for each in recent.joins if each[0] <= request.first_ns]
                ended.update(index for _, index in changed[-1:])
            if request.answered_ns is not None:
                own = self._groups[group].setdefault(request.connection, _Recent())
                _remember(own.every, request.answered_ns, request.index)
        if ended:
            self.ended[request.index] = tuple(sorted(ended))

    def _take_generation(self, index: int, body: Tree, response: Tree) -> None:
        """Note the generation that a join got into."""
        if response.get("error_code", -1) == 0 and response.get("member_id"):
            generation = body["group_id"], response["generation_id"]
            self._generations[generation].append((index, response["member_id"]))
            self._generation_of[index] = generation


def _remember(recent: list[tuple[int, int]], answered_ns: int, index: int) -> None:
    recent.append((answered_ns, index))
    del recent[:-REMEMBERED]


def _begins_rebalance(key: int, body: Tree) -> bool:
    if key in EPOCH_HEARTBEATS:
        return bool(body["member_epoch"] <= 0)
    return key in (ApiKey.JOIN_GROUP, ApiKey.LEAVE_GROUP)


def _changes_members(key: int, body: Tree, response: Tree) -> bool:
    if key in EPOCH_HEARTBEATS:
        return bool(body["member_epoch"] <= 0 or response.get("member_epoch") != body["member_epoch"])
    return key in ROUND_TRIPS


Owner: TypeAlias = tuple[str, str]  # kind and name, as for `ConnectionGroups`
TOPIC = "topic"
State: TypeAlias = tuple[Owner, Hashable]  # the owner, and which part of what it has; None for all


class LastWriters:
    """Learns from all requests in order. Takes 8 bytes for each state that a request writes."""

    def __init__(self) -> None:
        self._writers: dict[Owner, dict[Hashable, array[int]]] = defaultdict(dict)
        self.change_topics = False
        """True if a request creates, changes or deletes a topic."""

    def take(self, index: int, key: int, version: int, body: Tree, names: Names) -> list[Owner]:
        """Learn what a request writes, and return to whom that belongs."""
        owners = []
        for owner, part in states_written(key, version, body, names):
            writers = self._writers[owner].setdefault(part, array("q"))
            if not writers or writers[-1] != index:
                writers.append(index)
            owners.append(owner)
            self.change_topics |= owner[0] == TOPIC
        return owners

    def earlier(self, index: int, key: int, version: int, body: Tree, names: Names) -> set[int]:
        """Return the last requests before this one that wrote what it writes."""
        found = set[int]()
        for owner, part in states_written(key, version, body, names):
            parts = self._writers.get(owner, {})
            for each in parts if part is None else (part, None):
                found.update(_last_before(index, parts.get(each)))
        return found

    def change_of(self, topic: str, index: int) -> Iterable[int]:
        """Return the last request before a request that changed a topic, if there is one."""
        return _last_before(index, self._writers.get((TOPIC, topic), {}).get(None))


def _last_before(index: int, writers: "array[int] | None") -> Iterable[int]:
    place = bisect_left(writers, index) if writers else 0
    return writers[place - 1 : place] if writers and place else ()


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
    return (((TOPIC, topic), None) for topic in topics_of(key, version, body, names.captured_ids))


def _configs(_key: int, _version: int, body: Tree, _names: Names) -> Iterator[State]:
    for each in body["resources"] or ():
        kind, name = each["resource_type"], each["resource_name"]
        yield ((TOPIC, name) if kind == TOPIC_RESOURCE else ("configuration", f"{kind} {name}")), None


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
