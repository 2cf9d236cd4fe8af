"""Which captured connections belong together: those that share what a run must know of all of them.

Connections that share a producer, a transactional id, a group or a client's place in a log, and those of which one reads what another
writes, are *kin*, and are played by one process, since nothing is told from process to process. All others may be dealt out.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping

from kdissect.protocol.api_keys import GROUP_MEMBERSHIP, OFFSET_COMMITS, ApiKey
from kdissect.protocol.records.batches import read_header, whole_batches
from kdissect.replay.load.requests import Request
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.rewrite.references import groups_of, topics_of

IN_GROUPS = GROUP_MEMBERSHIP | OFFSET_COMMITS | {ApiKey.ADD_OFFSETS_TO_TXN}
"""Their connections belong to a group. FindCoordinator does not: whoever sends it is no member by that."""

# Offsets in them are translated.
READING = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.OFFSET_COMMIT,
        ApiKey.DELETE_RECORDS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.TXN_OFFSET_COMMIT,
    }
)


class ConnectionGroups:
    """Sets of connections, united while a capture is looked at."""

    def __init__(self) -> None:
        self._parents: dict[Hashable, Hashable] = {}
        self._writers: dict[str, set[int]] = defaultdict(set)
        self._readers: dict[str, set[int]] = defaultdict(set)

    def unite(self, one: Hashable, other: Hashable) -> None:
        """Let two connections, or a connection and what it uses, belong together."""
        first, second = self._root(one), self._root(other)
        if first != second:
            self._parents[second] = first

    def take(
        self,
        request: Request,
        body: Tree,
        said: Tree | None,
        transaction: str | None,
        client_id: str | None,
        names: Mapping[bytes, str],
    ) -> None:
        """Take in what a request that will be sent uses."""
        connection, version = request.connection, request.version or 0
        if transaction:
            self.unite(connection, ("transaction", transaction))
        for producer in (body.get("producer_id", -1), (said or {}).get("producer_id", -1)):
            if producer >= 0:
                self.unite(connection, ("producer", producer))
        if request.key == ApiKey.PRODUCE:
            for records in _records(body):
                first = next(whole_batches(records), None)
                if first is not None and first.magic == 2:
                    producer = read_header(records).producer_id
                    if producer >= 0:
                        self.unite(connection, ("producer", producer))
            for topic in topics_of(ApiKey.PRODUCE, version, body, names):
                self._writers[topic].add(connection)
        if request.key in IN_GROUPS:
            for group in groups_of(request.key, version, body):
                self.unite(connection, ("group", group))
        if request.key in READING:
            self.unite(connection, ("client", client_id) if client_id else connection)
            for topic in topics_of(request.key, version, body, names):
                self._readers[topic].add(connection)

    def add_reader(self, connection: int, topics: Iterable[str]) -> None:
        """Take in that a connection reads topics which its requests do not name."""
        for topic in topics:
            self._readers[topic].add(connection)

    def families(self, connections: Iterable[int]) -> list[list[int]]:
        """Give the connections that belong together, in the order in which they come up."""
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


def _records(body: Tree) -> Iterable[bytes]:
    for topic in body.get("topic_data") or ():
        for partition in topic["partition_data"]:
            yield partition["records"] or b""
