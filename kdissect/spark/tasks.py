"""Work of Spark's workers: functions from Arrow batches to Arrow batches, the same with and without Spark.

A step takes the batches of one task, cut anywhere, with rows in order of (split, connection in the split). It
holds at most the descriptors of one split, the state of open connections, and one merged partial.

    scan_step      ordinals of splits        -> segment descriptors
    summary_step   segment descriptors       -> one partial summary, and the counts of pass one
    tables_step    segment descriptors       -> rows of public tables, and names of topics
    names_step     segment descriptors       -> names of topics
    known_step     segment descriptors       -> names of topics and brokers, for filters
    facts_step     segment descriptors       -> the same, and schemas of captured HTTP
"""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kdissect.capture.index.splits import Split
from kdissect.capture.scan import scan_batches
from kdissect.capture.segment_index import (
    Counts,
    pack_counts,
    unpack_counts,
)
from kdissect.payload.captured_registry import CapturedRegistry
from kdissect.payload.payload_decoder import PayloadDecoder
from kdissect.payload.schema_store import SchemaStore
from kdissect.report.aggregate.network_tables import tcp_step
from kdissect.report.partials import (
    EMPTY,
    PARTIAL,
    Partial,
    merge,
    summarise,
    to_arrow,
)
from kdissect.report.timeline.count import SOURCE_TABLES
from kdissect.report.timeline.count_signals import SIGNAL_SOURCES
from kdissect.report.timeline.grid import Grid
from kdissect.spark.counting_thread import mapped_beside
from kdissect.spark.joined_batches import TablesTogether, coalesce_batches
from kdissect.streams.registry_traffic import RegistryTraffic
from kdissect.streams.tcp.tcp_tracker import STEP_NS
from kdissect.streams.tls.keylog import NO_KEYS, KeyLog
from kdissect.tables.anonymize import Pseudonyms
from kdissect.tables.build import dissect_batches
from kdissect.tables.filters import (
    NO_NAMES,
    TCP_TABLES,
    BatchFilter,
    CaptureNames,
    Filter,
    TableBatches,
)
from kdissect.tables.name_rows import name_batches
from kdissect.tables.record_structs import record_types
from kdissect.tables.schemas import BROKERS, NAMES, ROW_TABLES

REGISTRY_OBJECTS = pa.schema([("path", pa.string()), ("object", pa.string())])
"""JSON objects of a schema registry, by the path under which it has them."""

COUNTS_PART = "counts"
"""The name of the counts of pass one among the parts of a partial; its rows are packed `Counts`."""

MERGED_AT = 12  # partials that are merged at a time, of about 1 MB each


@dataclass(frozen=True, slots=True)
class TableOptions:
    """How tables are made: which rows the filter keeps, then how names are replaced.

    `keys` decrypt TLS. Tasks carry them to a cluster, and to local workers the name of a
    socket (`served_keys`).
    """

    filter: Filter = Filter()  # noqa: RUF009 - frozen
    pseudonyms: Pseudonyms | None = None
    names: CaptureNames = NO_NAMES
    keys: KeyLog = NO_KEYS
    schemas: SchemaStore | None = None  # of keys and values, for the table `records`


DEFAULT = TableOptions()


def build_tables(
    batches: Iterable[pa.RecordBatch],
    splits: Sequence[Split],
    treatment: TableOptions,
    wanted: Sequence[str] = (),
    tcp_step_ns: int = STEP_NS,
    as_arrays: bool = False,
    decoder: PayloadDecoder | None = None,
) -> Iterator[TableBatches]:
    """Return batches of the tables from segment descriptors, with the optional tables that are `wanted`.

    With `as_arrays`, exchanges and partitions are arrays, unless names are replaced: figures need no Arrow.
    """
    batch_filter = BatchFilter(treatment.filter, treatment.names)
    on_request = {*wanted, *(("ends",) if treatment.filter.brokers else ())}
    as_arrays = as_arrays and treatment.pseudonyms is None
    decoder = decoder or PayloadDecoder()
    for tables in dissect_batches(
        batches, splits, treatment.keys, on_request, tcp_step_ns, as_arrays, decoder
    ):
        kept = batch_filter.select(tables)
        yield treatment.pseudonyms.tables(kept) if treatment.pseudonyms else kept


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
    """
    bucket = pieces["bucket"].to_numpy()  # the row of counts has -1, and goes with the last bucket
    partition = partition_of_bucket[bucket]
    for number in np.unique(partition).tolist():
        yield number, pieces.filter(pa.array(partition == number))


def summary_step(
    batches: Iterable[pa.RecordBatch],
    splits: Sequence[Split],
    treatment: TableOptions = DEFAULT,
    grid: Grid | None = None,
    steps: Grid | None = None,
    known: "KnownRows | None" = None,
    beside: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Return one partial summary (PARTIAL) and the counts of pass one.

    With a grid, also figures by time step; with a grid of `steps`, also the tables of signals. `known` takes
    the names and addresses of what is dissected. `beside` has the meaning of `figures_of`.
    """
    counts = [0] * len(Counts._fields)
    of_time = SOURCE_TABLES if grid is not None else ()
    wanted = dict.fromkeys((*of_time, *(SIGNAL_SOURCES if steps is not None else ())))
    tables_of_splits = build_tables(
        counting(batches, counts),
        splits,
        treatment,
        (*wanted, *(TCP_TABLES if steps is not None else ())),
        STEP_NS if steps is None else tcp_step(steps.steps * steps.step_ns),
        as_arrays=True,
    )
    if known is not None:
        tables_of_splits = known.taken_from(tables_of_splits)
    yield to_arrow(figures_of(tables_of_splits, grid, steps, beside), coded=True)
    packed = pack_counts(Counts(*counts))
    yield pa.record_batch([pa.array([COUNTS_PART]), pa.array([packed], pa.binary())], schema=PARTIAL)


def figures_of(
    batches: Iterable[TableBatches], grid: Grid | None, steps: Grid | None, beside: bool = False
) -> Partial:
    """Return the partial summary of batches of tables; the grids are those of `summary_step`.

    With `beside`, figures are counted in a thread while the next tables are made. A task that has most of a
    capture uses the core of another one that way, at the price of one more batch in memory.
    """
    figures = _Figures(grid, steps)
    together = coalesce_batches(batches)
    deque((mapped_beside if beside else map)(figures.add, together), maxlen=0)
    return figures.sum()


class _Figures:
    """Partials that are merged some at a time."""

    def __init__(self, grid: Grid | None, steps: Grid | None) -> None:
        self._grid, self._steps = grid, steps
        self._merged, self._pending = EMPTY, list[Partial]()

    def add(self, tables: TablesTogether) -> None:
        """Count a batch of tables."""
        self._pending.append(summarise(tables, self._grid, self._steps))
        if len(self._pending) == MERGED_AT:
            self._merged, self._pending = self.sum(), []

    def sum(self) -> Partial:
        """Return what was counted."""
        return merge([self._merged, *self._pending])


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
        for packed in batch["segments"].filter(pc.less(batch["bucket"], 0)).to_pylist():
            counts[:] = map(sum, zip(counts, unpack_counts(packed), strict=True))
        yield batch


def name_pairs(names: pa.RecordBatch) -> list[tuple[str, str]]:
    """Return the rows of NAMES as pairs of id and topic."""
    return list(zip(names["topic_id"].to_pylist(), names["topic"].to_pylist(), strict=True))


def _names_batch(topics: Iterable[tuple[str, str]]) -> pa.RecordBatch:
    rows = sorted(topics)
    columns = [pa.array([pair[place] for pair in rows], pa.string()) for place in (0, 1)]
    return pa.record_batch(columns, names=["topic_id", "topic"]).select(NAMES.names)
