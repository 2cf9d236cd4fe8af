"""A filter over the batches of a watch: what it knows of connections goes on from batch to batch.

It selects what `tables.filters` selects in one analysis, with two differences that follow from not knowing
what comes. A name of a topic, or an address of a broker, counts once it was seen. TCP's figures of a
connection count from the batch on in which the first exchange of it was selected.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from kdissect.array_types import Int64s
from kdissect.spark import tasks
from kdissect.tables.filters import BatchFilter, CaptureNames, Filter, TableBatches

Address = tuple[int, str, int]
"""Node id, host and port of a broker."""


@dataclass(slots=True)
class SeenNames:
    """Names of topics by id, and addresses of brokers, as far as they were seen."""

    topics: dict[str, str] = field(default_factory=dict)
    brokers: set[Address] = field(default_factory=set)

    def learn(self, tables: Mapping[str, pa.RecordBatch]) -> None:
        """Add what batches of NAMES and BROKERS tell."""
        if "names" in tables:
            self.topics |= tasks.topic_names(tasks.name_pairs(tables["names"]))
        if "brokers" in tables and tables["brokers"].num_rows:
            columns = (tables["brokers"][name].to_pylist() for name in ("node_id", "host", "port"))
            self.brokers |= set(zip(*columns, strict=True))

    def nodes(self) -> dict[int, frozenset[tuple[str, int]]]:
        """Return the addresses by node id."""
        ids = {node for node, _, _ in self.brokers}
        return {
            node: frozenset((host, port) for one, host, port in self.brokers if one == node) for node in ids
        }


class CarriedFilter(BatchFilter):
    """See the module's text; `connections` is what `carried` returned after the batch before."""

    def __init__(self, wanted: Filter, seen: SeenNames, connections: Int64s | None = None) -> None:
        super().__init__(wanted, CaptureNames(seen.topics, seen.nodes()))
        self.seen = seen
        if connections is not None:
            self._connections.update(connections.tolist())

    def select(self, tables: TableBatches) -> TableBatches:
        """Return the selected rows of the next batch of tables. Its names count for this batch."""
        before = len(self.seen.brokers)
        self.seen.learn(tables)
        if len(self.seen.brokers) != before:
            self._names = CaptureNames(self.seen.topics, self.seen.nodes())
        kept = super().select(tables)
        if "connections" in tables and not self._wanted.selects_everything:
            still = pa.array(sorted(self._connections), pa.int64())
            self._selected = pa.concat_arrays([kept["connections"]["connection"], still])
            self._connections.difference_update(tables["connections"]["connection"].to_pylist())
        return kept

    def new_names(self, known: Mapping[str, str]) -> dict[str, str]:
        """Return the names of topics that are not among those `known` before."""
        return {topic: name for topic, name in self.seen.topics.items() if topic not in known}

    def carried(self) -> list[int]:
        """Return the open connections that have a selected exchange."""
        return sorted(self._connections)
