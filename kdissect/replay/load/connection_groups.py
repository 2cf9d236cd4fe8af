"""Which captured connections one process must replay: those that share what a run has to know.

Connections belong together if they share a producer, a transactional id, a group or a client's place in a
log, or if one reads what another writes, since processes tell each other nothing. All others may be dealt
out.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple

from kdissect.exchanges.filter import groups_of, topics_of
from kdissect.protocol.api_keys import GROUP_MEMBERSHIP, OFFSET_COMMITS, ApiKey
from kdissect.protocol.records.batches import read_header, whole_batches
from kdissect.replay.load.request_table import Request
from kdissect.replay.rewrite.names import Tree

IN_GROUPS = GROUP_MEMBERSHIP | OFFSET_COMMITS | {ApiKey.ADD_OFFSETS_TO_TXN}
"""Their connections belong to a group. FindCoordinator does not: whoever sends it is no member by that."""

WITH_OFFSETS = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.OFFSET_COMMIT,
        ApiKey.DELETE_RECORDS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.TXN_OFFSET_COMMIT,
    }
)
"""Offsets in them are translated, by what the run wrote and where their client was."""


OF_TOPICS = frozenset({ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_TOPICS})
"""Writes to their topics come after them, or before."""


class Tie(NamedTuple):
    """Subject that several connections share, such as a group."""

    kind: str
    name: str


class ConnectionGroups:
    """Sets of connections, united while a capture is loaded."""

    def __init__(self) -> None:
        self._parents: dict[Hashable, Hashable] = {}
        self._users: dict[tuple[str, str | int], set[int]] = defaultdict(set)
        self._writers: dict[str, set[int]] = defaultdict(set)
        self._readers: dict[str, set[int]] = defaultdict(set)

    def unite(self, one: Hashable, other: Hashable) -> None:
        """Put two connections, or a connection and what it uses, into one group."""
        if isinstance(one, int) and isinstance(other, tuple):
            self._users[other].add(one)
        first, second = self._root(one), self._root(other)
        if first != second:
            self._parents[second] = first

    def take(
        self,
        request: Request,
        body: Tree,
        response: Tree | None,
        transaction: str | None,
        client_id: str | None,
        names: Mapping[bytes, str],
    ) -> None:
        """Learn what a request that will be sent uses; `names` are those of topic ids."""
        connection, version = request.connection, request.version or 0
        if transaction:
            self.unite(connection, ("transaction", transaction))
        for producer in (body.get("producer_id", -1), (response or {}).get("producer_id", -1)):
            if producer >= 0:
                self.unite(connection, ("producer", producer))
        if request.key == ApiKey.PRODUCE:
            for producer in _producers_in(body):
                self.unite(connection, ("producer", producer))
            for topic in topics_of(ApiKey.PRODUCE, version, body, names):
                self._writers[topic].add(connection)
        if request.key in IN_GROUPS:
            for group in groups_of(request.key, version, body):
                self.unite(connection, ("group", group))
        if request.key in OF_TOPICS:
            self.add_reader(connection, topics_of(request.key, version, body, names))
        if request.key in WITH_OFFSETS:
            self.unite(connection, ("client", client_id) if client_id else connection)
            self.add_reader(connection, topics_of(request.key, version, body, names))

    def add_reader(self, connection: int, topics: Iterable[str]) -> None:
        """Note topics that a connection reads."""
        for topic in topics:
            self._readers[topic].add(connection)

    def ties(self) -> Iterator[tuple[Tie, set[int]]]:
        """Yield what several connections share, with these connections."""
        for (kind, name), users in self._users.items():
            if len(users) > 1:
                yield Tie(kind, str(name)), users
        for topic in self._readers.keys() & self._writers.keys():
            yield Tie("topic", topic), self._readers[topic] | self._writers[topic]

    def groups(self, connections: Iterable[int]) -> list[list[int]]:
        """Return the connections that belong together, in the order in which they come up."""
        for topic, readers in self._readers.items():
            if topic in self._writers:
                first = next(iter(readers))
                for connection in readers | self._writers[topic]:
                    self.unite(first, connection)
        found: dict[Hashable, list[int]] = {}
        for connection in connections:
            found.setdefault(self._root(connection), []).append(connection)
        return list(found.values())

    def _root(self, one: Hashable) -> Hashable:
        parents = self._parents
        while (parent := parents.setdefault(one, one)) != one:
            parents[one] = parents[parent]
            one = parent
        return one


def _producers_in(body: Tree) -> Iterable[int]:
    """Return the producer id of the first batch of each partition, if it has one."""
    for topic in body.get("topic_data") or ():
        for partition in topic["partition_data"]:
            records = partition["records"] or b""
            first = next(whole_batches(records), None)
            if first is not None and first.magic == 2:
                producer_id = read_header(records).producer_id
                if producer_id >= 0:
                    yield producer_id
