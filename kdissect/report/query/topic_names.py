"""Names of topics: what the wire says, else what a topic id means, else the id itself.

A topic id means what a Metadata response says, or else what offsets and commits tell (`equal_offsets`).

Node ids of servers come from Metadata and similar responses.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from kdissect.report.aggregate.partial_tables import NAMES
from kdissect.report.partials import Partial
from kdissect.report.query.equal_offsets import names_by_commits, names_by_offsets
from kdissect.report.timeline.signal_tables import COMMITTED
from kdissect.text import LOOPBACK_HOSTS


class TopicNames:
    """The names of the topic ids of a capture; of several names for an id, the first in the alphabet."""

    def __init__(self, partial: Partial) -> None:
        rows = partial.table(NAMES).to_pylist()
        rows.sort(key=lambda row: row["topic"] or "", reverse=True)
        self._names: dict[str, str] = {
            row["topic_id"]: row["topic"]
            for row in rows
            if row["topic_id"] is not None and row["topic"] is not None
        }
        self._names |= names_by_offsets(partial, COMMITTED, self._names)
        self._names |= names_by_commits(partial, COMMITTED, self._names)

    def name(self, topic: str | None, topic_id: str | None) -> str | None:
        """Return the name of a topic; None if neither a name nor an id is given."""
        return topic if topic is not None or topic_id is None else self._names.get(topic_id, topic_id)

    def with_several_ids(self) -> frozenset[str]:
        """Return the names that two topic ids or more have had."""
        counts = Counter(self._names.values())
        return frozenset(name for name, ids in counts.items() if ids > 1)

    def names(self, topic_ids: Sequence[str | None]) -> pa.Array:
        """Return the names of topic ids; an id without a name stands for itself."""
        return pa.array([self.name(None, topic_id) for topic_id in topic_ids], pa.string())


Address = tuple[str | None, int | None]


def node_ids(addresses: list[Address], brokers: list[dict[str, Any]]) -> dict[Address, int]:
    """Return the node id of each address that one broker has: by host and port, else by a unique port."""
    by_address: dict[Address, set[int]] = {}
    by_port: dict[int, set[int]] = {}
    for row in brokers:
        for host in LOOPBACK_HOSTS if row["host"] in LOOPBACK_HOSTS else (row["host"],):
            by_address.setdefault((host, row["port"]), set()).add(row["node_id"])
        by_port.setdefault(row["port"], set()).add(row["node_id"])
    ports = [port for _, port in addresses]
    node_of = {}
    for address in addresses:
        port = address[1]
        nodes = by_address.get(address)
        if not nodes and port is not None and ports.count(port) == 1:
            nodes = by_port.get(port)
        if nodes and len(nodes) == 1:
            node_of[address] = next(iter(nodes))
    return node_of
