"""The Spark jobs: ordinals of splits in, merged figures out, or whatever a step makes of descriptors.

    splits ─► scan ─► shuffle by partition ─► ordered by split ─► dissect ─► figures, or tables (`table_jobs`)
    splits ─► scanned by the driver (`startup.local_scan`) ──┘

All segments of a connection meet in one partition. Descriptors cross the shuffle, payload never does: one
blob (an Arrow IPC stream) for each split and partition, however many connections there are, so Spark handles
few rows. `analyze` uses no SQL, whose plan would take longer than dissecting a small capture.

`spark` is a Spark context or a session of any kind. `backend` decides what carries the blobs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kdissect.capture.index.range_scan import (
    RangeScan,
    RangeTask,
    scan_range,
)
from kdissect.capture.index.splits import Split
from kdissect.capture.segment_index import Counts
from kdissect.memory import release_memory
from kdissect.payload.schema_store import SchemaStore
from kdissect.report.partials import Partial, from_arrow
from kdissect.report.timeline.grid import Grid
from kdissect.spark import tasks
from kdissect.spark.analysis_work import AnalysisWork
from kdissect.spark.arrow_ipc import (
    Blob,
    from_blob,
    ordered_by_split,
    pieces_blob,
    to_blob,
)
from kdissect.spark.backend import (
    ArrowStep,
    Backend,
    Rows,
)
from kdissect.spark.backend_choice import backend_of
from kdissect.spark.figures_step import summary_step
from kdissect.spark.guessed_names import FirstSplit, guess_names
from kdissect.spark.partitioning import (
    Partitioning,
    is_lonely,
    tasks_for,
)
from kdissect.spark.pass_meters import ByteMeter, PassMeters
from kdissect.spark.reading_stop import ReadingStop
from kdissect.spark.task_tables import TableOptions
from kdissect.tables.filters import wanted_topic_ids

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

FIGURES, GUESSED = "figures", "guessed"
"""Keys of rows that hold figures, and topic ids that were guessed; others have the name of their table."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """The result of `analyze`: merged figures, and the counts of pass one."""

    partial: Partial
    counts: Counts


def scan_ranges(
    spark: "SparkContext | SparkSession | Backend",
    ranges: Sequence[RangeTask],
    stop: ReadingStop | None = None,
) -> list[RangeScan]:
    """Return the scans of ranges of captures, made by the executors: the `run` of an index on a cluster."""
    scan = partial(scan_range, is_stopped=stop.ends_index) if stop else scan_range
    return backend_of(spark).each(scan, ranges)


def figures(
    spark: "SparkContext | SparkSession | Backend",
    work: AnalysisWork,
    grid: Grid | None = None,
    steps: Grid | None = None,
) -> list[bytes]:
    """Return the figures of all partitions and the counts of pass one as blobs.

    With a grid, also figures by time step; with a grid of `steps`, also the tables of signals.

    Only this needs Spark: one job, and another one before it if filters need names from the whole capture.
    If the names are guessed (`with_guess`), another one follows only if the guess was wrong.
    """
    backend = backend_of(spark)
    pieces = shuffled(backend, work)
    if work.guess_by is None:
        pieces, work = with_facts(pieces, work)
        return [blob for _, blob in _figures(backend, pieces, work, grid, steps)]
    pieces, wanted = _kept(pieces, work), work.treatment.filter
    found = _figures(backend, pieces, work, grid, steps)
    told = [(name, batch) for name, blob in found if name != FIGURES for batch in from_blob(blob)]
    names, guesses = tasks.collect_known(told), [ids for name, ids in told if name == GUESSED]
    if not guesses or set(guesses[0]["topic_id"].to_pylist()) != wanted_topic_ids(wanted, names):
        if work.stop:
            work.stop.settle()
        treatment = replace(work.treatment, names=names)
        work = replace(work, treatment=treatment, guess_by=None, meters=None)
        found = _figures(backend, pieces, work, grid, steps)
    return [blob for name, blob in found if name == FIGURES]


def merge_figures(blobs: list[bytes]) -> Analysis:
    """Return the merged result of what `figures` returned.

    The list is emptied on the way: with many connections its blobs take half as much memory as the result.
    """
    counts: list[Counts] = []

    def partials() -> Iterator[pa.RecordBatch]:
        blobs.reverse()
        while blobs:
            batches = from_blob(blobs.pop())
            counts.append(tasks.sum_counts(batches))
            yield from tasks.partials_only(batches)

    partial = from_arrow(partials())
    return Analysis(partial, Counts(*map(sum, zip(*counts, strict=True))))


def dissected(
    spark: "SparkContext | SparkSession | Backend", work: AnalysisWork, step: ArrowStep
) -> list[pa.RecordBatch]:
    """Return what a step makes of the descriptors of each partition (rows of PIECES, ordered by split).

    Filters of the work are the step's own business.
    """
    backend = backend_of(spark)
    step = watched(work, backend, step)
    pieces = shuffled(backend, work).through(partial(_over_blobs, step=step))
    return [batch for _, blob in pieces.collected() for batch in from_blob(blob)]


def shuffled(backend: Backend, work: AnalysisWork) -> Rows:
    """Return the descriptors of pass one, shuffled to the partitions of pass two."""
    shares = work.shares(backend.cores)
    done = work.ahead.scanned if work.ahead else frozenset()
    left = [ordinal for ordinal in range(len(work.splits)) if ordinal not in done]
    scan = partial(
        _scan,
        splits=work.splits,
        ports=work.ports,
        shares=shares,
        meter=work.meters.scanned if work.meters else None,
        stop=work.stop,
    )
    count = tasks_for(len(left), backend.cores)
    return backend.scan_and_shuffle(scan, left, count, shares.partitions, work.ahead)


def watched(work: AnalysisWork, backend: Backend, step: Callable[..., Any]) -> Callable[..., Any]:
    """Return a step that counts the bytes of pass two, and ends where the user ends the reading."""
    if work.meters:
        partitions = work.shares(backend.cores).partitions
        step = partial(
            _count_and_step, step=step, meters=work.meters, splits=work.splits, partitions=partitions
        )
    return _until_stop(work, step)


def _until_stop(work: AnalysisWork, step: Callable[..., Any]) -> Callable[..., Any]:
    return partial(_step_until_stop, step=step, stop=work.stop) if work.stop else step


def _step_until_stop(batches: Iterable[pa.RecordBatch], step: Callable[..., Any], stop: ReadingStop) -> Any:
    return step(stop.reading(batches))


def _count_and_step(
    batches: Iterable[pa.RecordBatch],
    step: Callable[..., Any],
    meters: PassMeters,
    splits: Sequence[Split],
    partitions: int,
) -> Any:
    return step(meters.dissecting(batches, splits, partitions))


def _scan(
    ordinals: Iterable[int],
    splits: Sequence[Split],
    ports: Sequence[int],
    shares: Partitioning,
    meter: ByteMeter | None = None,
    stop: ReadingStop | None = None,
) -> Iterator[tuple[int, tuple[int, bytes]]]:
    def wanted() -> Iterator[pa.RecordBatch]:
        for ordinal in ordinals:
            if stop and not stop.lets_scan(ordinal):
                return
            yield pa.record_batch({"split": [ordinal]})
            if meter:
                meter.append(splits[ordinal].stop - splits[ordinal].start)

    # One step for all splits of the task, which reads them into the same memory.
    for pieces in tasks.scan_step(wanted(), splits, ports):
        ordinal = pieces["split"][0].as_py()
        for partition, rows in tasks.split_by_partition(pieces, shares.of_bucket):
            yield partition, (ordinal, pieces_blob(rows))


def _figures(
    backend: Backend, pieces: Rows, work: AnalysisWork, grid: Grid | None, steps: Grid | None
) -> list[tuple[str, bytes]]:
    """Return the figures of all partitions; with the names that are told, if the work guesses them."""
    make = partial(
        summary_step,
        splits=work.splits,
        grid=grid,
        steps=steps,
        beside=is_lonely(work.sample, work.shares(backend.cores), backend.cores, work.packet_bytes),
    )
    if work.guess_by is None:
        step = watched(work, backend, partial(make, treatment=work.treatment))
        return pieces.through(partial(_over_blobs, step=step)).collected()
    guessing = partial(
        _figures_and_names, make=make, first=work.guess_by, splits=work.splits, options=work.treatment
    )
    return pieces.through(partial(named_blobs, step=watched(work, backend, guessing))).collected()


def _figures_and_names(
    batches: Iterable[pa.RecordBatch],
    make: Callable[..., Iterator[pa.RecordBatch]],
    first: FirstSplit,
    splits: Sequence[Split],
    options: TableOptions,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Return figures with guessed names, and all names; names alone if no guess is possible."""
    names = guess_names(first, splits, options)
    if names is None:
        yield from tasks.known_step(batches, splits, options.keys)
        return
    yield GUESSED, pa.record_batch({"topic_id": sorted(wanted_topic_ids(options.filter, names))})
    known = tasks.KnownRows()
    guessed = replace(options, names=names)
    yield from ((FIGURES, figures) for figures in make(batches, treatment=guessed, known=known))
    yield from known.distinct()


def _over_blobs(blobs: Iterable[Blob], step: ArrowStep) -> Iterator[tuple[str, bytes]]:
    for batch in step(ordered_by_split(blobs)):
        yield FIGURES, to_blob(batch)
    # The worker should not hold memory while it waits for another task.
    pa.default_memory_pool().release_unused()


def named_blobs(
    blobs: Iterable[Blob], step: Callable[[Iterable[pa.RecordBatch]], Iterator[tuple[str, pa.RecordBatch]]]
) -> Iterator[tuple[str, bytes]]:
    """Return the batches that a step makes of the descriptors of a partition, as blobs with their names."""
    for name, batch in step(ordered_by_split(blobs)):
        yield name, to_blob(batch, compression="lz4")
    release_memory()


def named_batches(rows: Rows) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Return the batches of blobs, each with the name of its blob, to the driver."""
    return ((name, batch) for name, blob in rows.collected() for batch in from_blob(blob))


def _kept(pieces: Rows, work: AnalysisWork) -> Rows:
    """Return descriptors for several jobs; those that were all scanned ahead lie in a file already."""
    return pieces if work.ahead and len(work.ahead.scanned) == len(work.splits) else pieces.kept()


def with_facts(pieces: Rows, work: AnalysisWork, wanted: Sequence[str] = ()) -> tuple[Rows, AnalysisWork]:
    """Return the work with the names and captured schemas that it needs, learnt by a job.

    Its descriptors are kept for the next job.
    """
    options = work.treatment
    has_payload = "records" in wanted and options.pseudonyms is None
    needs_names = options.filter.needs_names or (has_payload and options.schemas is not None)
    if not (has_payload or needs_names):
        return pieces, work
    pieces = _kept(pieces, work)
    learn = partial(
        tasks.facts_step, splits=work.splits, keys=options.keys, names=needs_names, registry=has_payload
    )
    step = _until_stop(work, learn)
    found = list(named_batches(pieces.through(partial(named_blobs, step=step))))
    if work.stop:
        work.stop.settle()
    registry, schemas = tasks.collect_registry(found), options.schemas
    if not registry.is_empty:
        schemas = (schemas or SchemaStore()).with_source(registry)
    names = tasks.collect_known(found) if needs_names else options.names
    return pieces, replace(work, treatment=replace(options, names=names, schemas=schemas))
