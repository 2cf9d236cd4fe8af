"""The Spark jobs: ordinals of splits in, a partial summary or public tables out.

    splits ─► scan, parted by bucket ─► shuffle by partition ─► in order of splits ─► dissect and add up, or rows of a table
    splits ─► scanned ahead (see `ahead`) ──────────┘

All pieces of a connection meet in one partition. What crosses the shuffle are descriptors, never payload: one blob (an
Arrow IPC stream) for each split and partition, however many connections there are, so Spark has little to handle. For the
same reason `analyze` needs no SQL: a plan would take longer to be made than a small capture to be dissected.

Tables take the same way once for all of them: pass two leaves their rows as blobs on the disks of the workers, with the
names of topics among them, and each table is a DataFrame over its own blobs, in which mapInArrow fills in the names.

`spark` is a context, or a session of any kind; what carries the blobs there is a matter of `transport`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from kdissect.capture.index.range_scan import (
    RangeScan,
    Task,
    look_over,
)
from kdissect.capture.index.sampling import NO_SAMPLE, Sample
from kdissect.capture.index.splits import Split
from kdissect.capture.segment_index import Counts
from kdissect.report.partials import Partial, from_arrow
from kdissect.report.timeline.grid import Grid
from kdissect.spark import tasks as steps
from kdissect.spark.arrow_ipc import (
    Blob,
    from_blob,
    ordered_by_split,
    to_blob,
)
from kdissect.spark.backend import (
    ROWS,
    ArrowStep,
    Backend,
    Rows,
    backend_of,
)
from kdissect.spark.partitioning import (
    Partitioning,
    partition_buckets,
    partitions_for,
    tasks_for,
)
from kdissect.spark.startup.local_scan import LocalScan
from kdissect.spark.tasks import DEFAULT, TableOptions
from kdissect.tables.schemas import TABLES

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

Finish: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class AnalysisWork:
    """What to dissect: every split of the captures, in order, how pass two is cut, and what for.

    `sample` tells what the connections weigh; `partitions` fixes their number (0: as sample and cores suggest). `ahead` holds what
    pass one has done before Spark was there.
    """

    splits: tuple[Split, ...]
    ports: tuple[int, ...] = ()
    partitions: int = 0
    treatment: TableOptions = DEFAULT
    sample: Sample = NO_SAMPLE
    ahead: LocalScan | None = None

    def shares(self, cores: int) -> Partitioning:
        """Share the connections out."""
        if self.ahead:
            return self.ahead.shares
        return partition_buckets(self.sample, self.partitions or partitions_for(self.sample, cores))


@dataclass(frozen=True, slots=True)
class Analysis:
    """What the job of `analyze` gives: mergeable figures, and what pass one counted."""

    partial: Partial
    counts: Counts


def scan_ranges(spark: "SparkContext | SparkSession", tasks: Sequence[Task]) -> list[RangeScan]:
    """Look over ranges of captures where the executors are: the survey's `run` on a cluster."""
    return backend_of(spark).each(look_over, tasks)


def figures(
    spark: "SparkContext | SparkSession", work: AnalysisWork, grid: Grid | None = None
) -> list[bytes]:
    """Give the partial summaries of all partitions, and what pass one counted; a grid asks for the course of events too.

    This is all that needs Spark: one job, two if filters rest on names.
    """
    pieces, work = _with_filter_names(_shuffle(backend_of(spark), work), work)
    step = partial(steps.summary_step, splits=work.splits, treatment=work.treatment, grid=grid)
    return [blob for _, blob in pieces.through(partial(_over_blobs, step=step)).collected()]


def merge_figures(blobs: Iterable[bytes]) -> Analysis:
    """Add up what `figures` gave."""
    batches = [batch for blob in blobs for batch in from_blob(blob)]
    return Analysis(from_arrow(steps.partials_only(batches)), steps.sum_counts(batches))


def tables(
    session: "SparkSession", work: AnalysisWork, wanted: Sequence[str], finish: Finish | None = None
) -> "dict[str, DataFrame]":
    """Give public tables as DataFrames, topic ids named from anywhere in the captures.

    The captures are dissected here and now, once for all tables, whose rows stay on disk for as long as the session has
    them; `finish` is done to each batch last of all.
    """
    pieces, work = _with_filter_names(_shuffle(backend_of(session), work), work)
    step = partial(steps.tables_step, splits=work.splits, wanted=tuple(wanted), treatment=work.treatment)
    rows = pieces.through(partial(_named_blobs, step=step)).kept()
    names = steps.topic_names(
        pair
        for _, blob in rows.only("names").collected()
        for batch in from_blob(blob)
        for pair in steps.name_pairs(batch)
    )
    return {
        table: rows.only(table).frame(
            session,
            partial(
                _rows_of, names=names if table == "partitions" else {}, finish=finish, schema=TABLES[table]
            ),
            TABLES[table],
        )
        for table in wanted
    }


def _shuffle(transport: Backend, work: AnalysisWork) -> Rows:
    """Pass one, and the way of its pieces to pass two."""
    shares = work.shares(transport.cores)
    left = range(work.ahead.done if work.ahead else 0, len(work.splits))
    scan = partial(_scan, splits=work.splits, ports=work.ports, shares=shares)
    tasks = tasks_for(len(left), transport.cores)
    return transport.scattered(scan, left, tasks, shares.partitions, work.ahead)


def _scan(
    ordinals: Iterable[int], splits: Sequence[Split], ports: Sequence[int], shares: Partitioning
) -> Iterator[tuple[int, Blob]]:
    for ordinal in ordinals:
        for pieces in steps.scan_step([pa.record_batch({"split": [ordinal]})], splits, ports):
            for partition, rows in steps.split_by_partition(pieces, shares.of_bucket):
                yield partition, (ordinal, to_blob(rows))


def _over_blobs(blobs: Iterable[Blob], step: ArrowStep) -> Iterator[tuple[str, bytes]]:
    for batch in step(ordered_by_split(blobs)):
        yield "figures", to_blob(batch)
    pa.default_memory_pool().release_unused()  # the worker waits for more, and should not hold it meanwhile


def _named_blobs(
    blobs: Iterable[Blob], step: Callable[[Iterable[pa.RecordBatch]], Iterator[tuple[str, pa.RecordBatch]]]
) -> Iterator[tuple[str, bytes]]:
    for name, batch in step(ordered_by_split(blobs)):
        yield name, to_blob(batch, compression="lz4")


def _rows_of(
    batches: Iterable[pa.RecordBatch], names: Mapping[str, str], finish: Finish | None, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for blob in batch[ROWS].to_pylist():
            for rows in from_blob(blob):
                named = steps.with_topics(rows, names) if names else rows
                yield (finish(named) if finish else named).cast(schema)


def _with_filter_names(pieces: Rows, work: AnalysisWork) -> tuple[Rows, AnalysisWork]:
    """Learn what filters rest on, if they do; the pieces are then kept for the next job."""
    if not work.treatment.choice.rests_on_names:
        return pieces, work
    pieces = pieces.kept()
    step = partial(steps.known_step, splits=work.splits, keys=work.treatment.keys)
    found = pieces.through(partial(_named_blobs, step=step)).collected()
    known = steps.collect_known((name, batch) for name, blob in found for batch in from_blob(blob))
    return pieces, replace(work, treatment=replace(work.treatment, known=known))
