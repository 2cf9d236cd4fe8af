"""Work of one task with its connections of a batch: state and descriptors in, rows and state out.

A task reads the state that the batch before left for its partition, dissects the descriptors of this batch,
ends connections that are over, and leaves rows and state (`task_files`). It also adds up what incidents are
found from: what is finished, and what would be if the captures ended here. It changes nothing else, so an
attempt that fails, or is done twice, leaves nothing that counts (`batch_store`).
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kdissect.array_types import Int64s
from kdissect.capture.flow_pieces import BUCKETS
from kdissect.capture.index.splits import Split
from kdissect.capture.segment_index import Counts
from kdissect.report.aggregate.histogram import add_up, bucket_of, percentiles
from kdissect.report.partials import to_arrow
from kdissect.report.timeline.count_signals import SIGNAL_SOURCES
from kdissect.report.timeline.grid import Grid
from kdissect.spark import tasks
from kdissect.spark.arrow_ipc import Blob, ordered_by_split, pieces_blob, to_blob
from kdissect.spark.figures_step import figures_of
from kdissect.spark.watch.carried_filter import Address, CarriedFilter, SeenNames
from kdissect.spark.watch.hour_writer import HourWriter
from kdissect.spark.watch.task_files import LeftFiles, TaskFiles
from kdissect.streams.carry.value_bytes import from_bytes, to_bytes
from kdissect.streams.tls.keylog import NO_KEYS, KeyLog
from kdissect.tables.build import Batches
from kdissect.tables.dissection import AgeLimits, Dissection
from kdissect.tables.filters import TCP_TABLES, Filter
from kdissect.tables.schemas import TABLES

DEFAULT_AGES = AgeLimits()
WANTED = tuple(table for table in TABLES if table != "connections")
SELECTED = "selected"  # of the state: open connections that the filter has selected
SUMMED = tuple(dict.fromkeys((*WANTED, *SIGNAL_SOURCES, *TCP_TABLES)))


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """Facts that the tasks of a batch share."""

    batch: int
    splits: tuple[Split, ...]
    ports: tuple[int, ...]
    partitions: int
    files: TaskFiles
    now_ns: int  # begin of the newest capture: by it connections age, so that one wrong time ends none
    is_last: bool = False  # all connections end
    names: dict[str, str] = field(default_factory=dict)
    keys: KeyLog = NO_KEYS
    age_limits: AgeLimits = DEFAULT_AGES
    steps: Grid | None = None  # on which signals are counted; None: they are not
    page: Grid | None = None  # on which figures of pages are counted, beside those of signals; None: not
    brokers: frozenset[Address] = frozenset()
    filter: Filter = Filter()  # noqa: RUF009 - frozen


@dataclass(slots=True)
class BatchFigures:
    """Figures of a batch; figures of tasks add up."""

    rows: dict[str, int] = field(default_factory=dict)  # by table
    unanswered: int = 0
    errors: int = 0
    latency: dict[int, int] = field(default_factory=dict)  # exchanges by bucket of their service time
    open: int = 0  # connections
    aged: int = 0  # connections that were given up because nothing continued them
    state_bytes: int = 0
    names: dict[str, str] = field(default_factory=dict)
    brokers: set[Address] = field(default_factory=set)
    files: LeftFiles = field(default_factory=LeftFiles)
    finished: list[bytes] = field(default_factory=list)  # partials of what this batch has finished
    unfinished: list[bytes] = field(default_factory=list)  # what would be added if the captures ended now
    packets: list[int] = field(default_factory=lambda: [0] * len(Counts._fields))  # Counts of pass one

    def add(self, other: "BatchFigures") -> None:
        """Add the figures of another task."""
        for name, count in other.rows.items():
            self.rows[name] = self.rows.get(name, 0) + count
        for bucket, count in other.latency.items():
            self.latency[bucket] = self.latency.get(bucket, 0) + count
        for name in ("unanswered", "errors", "open", "aged", "state_bytes"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.packets = list(map(sum, zip(self.packets, other.packets, strict=True)))
        self.names |= other.names
        self.brokers |= other.brokers
        self.files.add(other.files)
        self.finished += other.finished
        self.unfinished += other.unfinished

    def percentiles(self, per_mille: Sequence[int]) -> list[int | None]:
        """Return percentiles of the service time in ns; None without any exchange that has one.

        An exchange that was nothing but a wait by design (`tables.long_polls`) has none.
        """
        if not self.latency:
            return [None] * len(per_mille)
        buckets, counts = (np.array(part, np.int64) for part in zip(*self.latency.items(), strict=True))
        counted = add_up(np.zeros(len(buckets), np.int64), buckets, counts)
        return [int(values[0]) for values in percentiles(counted, 1, per_mille)]

    def count(self, tables: Batches) -> None:
        """Count the rows of a batch of tables."""
        for name in TABLES:
            if name in tables and tables[name].num_rows:
                self.rows[name] = self.rows.get(name, 0) + tables[name].num_rows
        if "exchanges" in tables:
            self._count_exchanges(tables["exchanges"])

    def _count_exchanges(self, exchanges: pa.RecordBatch) -> None:
        self.unanswered += int(pc.sum(pc.equal(exchanges["status"], "unanswered")).as_py() or 0)
        self.errors += int(pc.sum(pc.not_equal(exchanges["error_code"], 0)).as_py() or 0)
        timed = exchanges["latency_ns"].is_valid().to_numpy(zero_copy_only=False)
        latency, waited = (exchanges[name].fill_null(0).to_numpy() for name in ("latency_ns", "wait_ns"))
        service = (latency - waited)[timed & ~((waited > 0) & (waited >= latency))]
        buckets, counts = np.unique(bucket_of(np.maximum(service, 0)), return_counts=True)
        for bucket, count in zip(buckets.tolist(), counts.tolist(), strict=True):
            self.latency[bucket] = self.latency.get(bucket, 0) + count


def scan_step(ordinals: Iterable[int], plan: BatchPlan) -> Iterator[tuple[int, Blob]]:
    """Return the descriptors of splits by partition."""
    for ordinal in ordinals:
        for pieces in tasks.scan_step([pa.record_batch({"split": [ordinal]})], plan.splits, plan.ports):
            for partition, rows in tasks.split_by_partition(pieces, partition_of_bucket(plan.partitions)):
                yield partition, (ordinal, pieces_blob(rows))


def partition_of_bucket(partitions: int) -> NDArray[np.int16]:
    """Return the partition of each bucket of connections: the same in every batch."""
    return (np.arange(BUCKETS) % partitions).astype(np.int16)


def batch_step(partition: int, rows: Iterable[tuple[int, Blob]], plan: BatchPlan) -> Iterator[BatchFigures]:
    """Do the work of one partition of a batch. Return its figures."""
    carried, selected = None, None
    if (before := plan.files.state(partition)) is not None:
        carried = from_bytes(*before)
        selected = carried.get(SELECTED)
    wanted = CarriedFilter(plan.filter, SeenNames(dict(plan.names), set(plan.brokers)), selected)
    tables_wanted = WANTED if plan.steps is None and plan.filter.selects_everything else SUMMED
    dissection = Dissection(plan.splits, plan.keys, tables_wanted, carried=carried)
    figures = BatchFigures()
    over: list[Int64s] = []

    def tables() -> Iterator[Batches]:
        yield from dissection.feed(
            tasks.counting(ordered_by_split(blob for _, blob in rows), figures.packets)
        )
        aged = dissection.aged(plan.now_ns, plan.age_limits)
        figures.aged = aged.idle
        over.append(dissection.every_row() if plan.is_last else aged.rows)
        yield from dissection.end(over[0])

    with plan.files.folder() as folder:
        writer = HourWriter(folder, plan.batch, partition) if folder is not None else None
        figures.finished = _summed(_kept(tables(), wanted, figures, writer), plan)
        value = dissection.carried(over[0])
        if not plan.filter.selects_everything:
            value[SELECTED] = np.array(wanted.carried(), np.int64)
        state = to_bytes(value)
        figures.files = plan.files.leave(partition, state, folder, writer.close() if writer else [])
    figures.open, figures.state_bytes = dissection.connections - len(over[0]), len(state)
    figures.names, figures.brokers = wanted.new_names(plan.names), wanted.seen.brokers - plan.brokers
    if plan.steps is not None and not plan.is_last:
        figures.unfinished = _summed(_if_it_ended_now(state, wanted, plan), plan)
    pa.default_memory_pool().release_unused()
    yield figures


def _kept(
    batches: Iterable[Batches], wanted: CarriedFilter, figures: BatchFigures, writer: HourWriter | None
) -> Iterator[Batches]:
    """Pass the selected rows on, count them, and write them with the names of topics that are known."""
    for batch in batches:
        kept = wanted.select(batch)
        figures.count(kept)
        if writer is not None:
            named = dict(kept)
            if "partitions" in named:
                named["partitions"] = tasks.with_topics(named["partitions"], wanted.seen.topics)
            writer.add(named)
        yield kept


def _if_it_ended_now(state: bytes, wanted: CarriedFilter, plan: BatchPlan) -> Iterator[Batches]:
    """Yield the tables of what is open, as if the captures ended here; the state itself goes on."""
    dissection = Dissection((), plan.keys, SUMMED, carried=from_bytes(state))
    for batch in dissection.end(dissection.every_row()):
        yield wanted.select(batch)


def _summed(batches: Iterable[Batches], plan: BatchPlan) -> list[bytes]:
    """Return the partial of batches of tables; nothing without the `steps` of the plan."""
    if plan.steps is None:
        deque(batches, maxlen=0)
        return []
    return [to_blob(to_arrow(figures_of(batches, plan.page, plan.steps)))]
