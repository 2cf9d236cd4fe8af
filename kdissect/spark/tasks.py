"""Work of Spark's workers: functions from Arrow batches to Arrow batches, the same with and without Spark.

A step takes the batches of one task, cut anywhere, with rows in order of (split, connection in the split). It
holds at most the descriptors of one split, the state of open connections, and one merged partial.

    scan_step      ordinals of splits        -> segment descriptors
    summary_step   segment descriptors       -> partial summaries, and the counts of pass one
    tables_step    segment descriptors       -> rows of public tables, and names of topics
    names_step     segment descriptors       -> names of topics
    known_step     segment descriptors       -> names of topics and brokers, for filters
    facts_step     segment descriptors       -> the same, and schemas of captured HTTP

`summary_step` is in `figures_step`.
"""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kdissect.capture.index.splits import Split
from kdissect.capture.scan import scan_batches
from kdissect.capture.segment_index import (
    Counts,
    unpack_counts,
)
from kdissect.payload.captured_registry import CapturedRegistry
from kdissect.payload.payload_decoder import PayloadDecoder
from kdissect.spark.task_tables import DEFAULT, TableOptions, build_tables
from kdissect.streams.registry_traffic import RegistryTraffic
from kdissect.streams.tls.keylog import NO_KEYS, KeyLog
from kdissect.tables.filters import (
    CaptureNames,
    TableBatches,
)
from kdissect.tables.name_rows import name_batches
from kdissect.tables.record_structs import record_types
from kdissect.tables.schemas import BROKERS, NAMES, ROW_TABLES

REGISTRY_OBJECTS = pa.schema([("path", pa.string()), ("object", pa.string())])
"""JSON objects of a schema registry, by the path under which it has them."""

COUNTS_PART = "counts"
"""The name of the counts of pass one among the parts of a partial; its rows are packed `Counts`."""


def scan_step(
    batches: Iterable[pa.RecordBatch], splits: Sequence[Split], ports: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """Return the segment descriptors of splits, from their ordinals (column `split`)."""
    yield from scan_batches(batches, splits, ports)


def split_by_partition(
    pieces: pa.RecordBatch, partition_of_bucket: NDArray[np.int16]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Return the descriptors of a split by the partition of pass two to which their connections belong.

    All descriptors of a connection have one bucket, so they meet in one partition. Rows keep their order.
    They are sorted once: to go through all rows for each of 14 partitions took twice as long.
    """
    bucket = pieces["bucket"].to_numpy()  # the row of counts has -1, and goes with the last bucket
    partition = partition_of_bucket[bucket]
    counts = np.bincount(partition)
    ordered = (
        pieces.take(pa.array(np.argsort(partition, kind="stable")))
        if np.count_nonzero(counts) > 1
        else pieces
    )
    first = 0
    for number in np.flatnonzero(counts).tolist():
        yield number, ordered.slice(first, counts[number])
        first += counts[number]


def tables_step(
    batches: Iterable[pa.RecordBatch],
    splits: Sequence[Split],
    wanted: Sequence[str],
    treatment: TableOptions = DEFAULT,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Return batches of public tables, each with the name of its table, one batch of NAMES, and RECORD_TYPES.

    The last one comes with records of the only topic that the filter selects, if they have schemas.
    """
    seen: set[tuple[str, str]] = set()
    topic = treatment.filter.only_topic if treatment.pseudonyms is None else None
    decoder = PayloadDecoder(treatment.schemas, topic, treatment.names.topics)
    for tables in build_tables(batches, splits, treatment, wanted, decoder=decoder):
        for name in wanted:
            if name in tables and tables[name].num_rows:
                yield name, tables[name].select(ROW_TABLES[name].names)
        if "names" in tables:
            seen.update(name_pairs(tables["names"]))
    yield "names", _names_batch(seen)
    if decoder.used_schemas:
        yield "record_types", record_types(decoder)


def names_step(
    batches: Iterable[pa.RecordBatch], splits: Sequence[Split], keys: KeyLog = NO_KEYS
) -> Iterator[pa.RecordBatch]:
    """Return the pairs of topic id and name that descriptors lead to (columns of NAMES), each once."""
    yield _names_batch(
        {pair for tables in name_batches(batches, splits, keys) for pair in name_pairs(tables["names"])}
    )


def facts_step(
    batches: Iterable[pa.RecordBatch],
    splits: Sequence[Split],
    keys: KeyLog = NO_KEYS,
    names: bool = True,
    registry: bool = False,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Return facts that must be known before rows are made: names, and schemas of captured HTTP.

    `names` asks for those of `known_step`, `registry` for REGISTRY_OBJECTS.
    """
    traffic = RegistryTraffic(splits)
    batches = traffic.watch(batches) if registry else batches
    if names:
        yield from known_step(batches, splits, keys)
    else:
        deque(batches, maxlen=0)
    objects = traffic.registry().objects
    if objects:
        rows = [{"path": path, "object": json.dumps(fields)} for path, fields in objects.items()]
        yield "registry", pa.RecordBatch.from_pylist(rows, REGISTRY_OBJECTS)


def collect_registry(found: Iterable[tuple[str, pa.RecordBatch]]) -> CapturedRegistry:
    """Return the schemas of captured HTTP, from the results of all tasks of `facts_step`."""
    registry = CapturedRegistry()
    for name, batch in found:
        if name == "registry":
            for row in batch.to_pylist():
                registry.put(row["path"], json.loads(row["object"]))
    return registry


def known_step(
    batches: Iterable[pa.RecordBatch], splits: Sequence[Split], keys: KeyLog = NO_KEYS
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Return the rows of NAMES and BROKERS that filters need, each once."""
    known = KnownRows()
    deque(known.taken_from(name_batches(batches, splits, keys)), maxlen=0)
    yield from known.distinct()


class KnownRows:
    """The rows of NAMES and BROKERS among batches of tables."""

    def __init__(self) -> None:
        self._rows_of: dict[str, list[pa.RecordBatch]] = {"names": [], "brokers": []}

    def taken_from(self, batches: Iterable[TableBatches]) -> Iterator[TableBatches]:
        """Pass batches on, and take the rows from them."""
        for tables in batches:
            for name, taken in self._rows_of.items():
                if name in tables and tables[name].num_rows:
                    taken.append(tables[name])
            yield tables

    def add(self, other: "KnownRows") -> None:
        """Add the rows of another one."""
        for name, rows in self._rows_of.items():
            rows += other._rows_of[name]  # noqa: SLF001 - of the same class

    def distinct(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the rows, each once, with the names of their tables."""
        for name, schema in (("names", NAMES), ("brokers", BROKERS)):
            table = pa.Table.from_batches(self._rows_of[name], schema).group_by(schema.names).aggregate([])
            for batch in table.to_batches():
                yield name, batch


def collect_known(found: Iterable[tuple[str, pa.RecordBatch]]) -> CaptureNames:
    """Return what filters need, from the results of all tasks of `known_step`."""
    topics: list[tuple[str, str]] = []
    nodes: dict[int, set[tuple[str, int]]] = {}
    for name, batch in found:
        if name == "names":
            topics += name_pairs(batch)
        for row in batch.to_pylist() if name == "brokers" else ():
            nodes.setdefault(row["node_id"], set()).add((row["host"], row["port"]))
    return CaptureNames(topic_names(topics), {node: frozenset(ends) for node, ends in nodes.items()})


def topic_names(topics: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the topic of each topic id.

    If an id had several names, the first one in alphabetical order counts.
    """
    return dict(sorted(topics, reverse=True))


def with_topics(rows: pa.RecordBatch, names: Mapping[str, str]) -> pa.RecordBatch:
    """Return rows of PARTITIONS with the topics that had only an id."""
    ids, topics = pa.array(list(names), pa.string()), pa.array(list(names.values()), pa.string())
    found = topics.take(pc.index_in(rows["topic_id"], ids))
    return rows.set_column(rows.schema.get_field_index("topic"), "topic", pc.coalesce(rows["topic"], found))


def sum_counts(batches: Iterable[pa.RecordBatch]) -> Counts:
    """Return the sum of the counts of pass one among PARTIAL batches."""
    packed = (
        rows
        for batch in batches
        for rows in batch["rows"].filter(pc.equal(batch["part"], COUNTS_PART)).to_pylist()
    )
    return Counts(*map(sum, zip(Counts(), *map(unpack_counts, packed), strict=True)))


def partials_only(batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return PARTIAL batches without those of the counts, which are batches of their own."""
    return [batch for batch in batches if COUNTS_PART not in batch["part"].to_pylist()]


def counting(batches: Iterable[pa.RecordBatch], counts: list[int]) -> Iterator[pa.RecordBatch]:
    """Pass descriptors on, and add the rows of counts (bucket -1) to `counts`."""
    for batch in batches:
        rows = np.flatnonzero(batch["bucket"].to_numpy() < 0)
        for packed in batch["segments"].take(pa.array(rows)).to_pylist() if len(rows) else ():
            counts[:] = map(sum, zip(counts, unpack_counts(packed), strict=True))
        yield batch


def name_pairs(names: pa.RecordBatch) -> list[tuple[str, str]]:
    """Return the rows of NAMES as pairs of id and topic."""
    return list(zip(names["topic_id"].to_pylist(), names["topic"].to_pylist(), strict=True))


def _names_batch(topics: Iterable[tuple[str, str]]) -> pa.RecordBatch:
    rows = sorted(topics)
    columns = [pa.array([pair[place] for pair in rows], pa.string()) for place in (0, 1)]
    return pa.record_batch(columns, names=["topic_id", "topic"]).select(NAMES.names)
