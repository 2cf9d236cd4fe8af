"""A watch: the streaming query over capture files, and the jobs of each of its micro-batches.

    directory ─► FileStream ─► micro-batch: files ─► index ─► pass one ─► partitions ─► batch_step ─► commit

Spark Structured Streaming decides when a micro-batch is due, and records its files. `foreachBatch` hands them
to this process, which runs one job: both passes over these files, with the state of each partition of
connections. The batch counts when `BatchStore` has committed it. If the run was killed before Spark knew,
Spark offers the batch again, and it is passed over.

A ring may overwrite a file before its turn. Such a file is a hole in the capture: it is counted and reported.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdissect.capture.index.growing_index import GrowingIndex
from kdissect.capture.index.index import SPLIT_BYTES, CaptureIndex
from kdissect.capture.segment_index import Counts
from kdissect.errors import OutputError
from kdissect.report.build.regrid import StepGrids
from kdissect.report.incidents.incident_log import IncidentChange
from kdissect.report.model.summary import AppliedFilter, Summary
from kdissect.report.partials import EMPTY, Partial
from kdissect.spark.capture_facts import capture_facts
from kdissect.spark.failures import job_error
from kdissect.spark.partitioning import tasks_for
from kdissect.spark.session import Engine
from kdissect.spark.watch.batch_captures import BatchCaptures, batch_captures
from kdissect.spark.watch.batch_step import (
    DEFAULT_AGES,
    BatchFigures,
    BatchPlan,
    batch_step,
    scan_step,
)
from kdissect.spark.watch.batch_store import BatchStore, Commit
from kdissect.spark.watch.figure_files import MINUTE_NS, FigureHeader, write_batch
from kdissect.spark.watch.file_journal import TakenFile, grown_file, is_behind
from kdissect.spark.watch.file_stream import MOST_FILES, NS_PER_S, SETTLE_SECONDS
from kdissect.spark.watch.late_files import LateFiles, Skipped, count_skipped, late_files
from kdissect.spark.watch.recent_incidents import BatchSpan, RecentIncidents
from kdissect.spark.watch.watched_directory import WatchedDirectory
from kdissect.streams.tls.keylog import NO_KEYS, KeyLog, keys_for
from kdissect.tables.dissection import AgeLimits
from kdissect.tables.filters import Filter
from kdissect.text import without_password

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITIONS = 4
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """Settings of a watch."""

    source: WatchedDirectory
    every_s: float = 5.0
    ports: tuple[int, ...] = ()
    keylog: str | None = None
    partitions: int = PARTITIONS
    most_files: int = MOST_FILES
    settle_s: float = SETTLE_SECONDS
    until_idle_s: float | None = None
    skip_behind_s: float | None = None
    """Files that are older than the newest one by more than this are skipped; None: none."""
    spool: str | None = None
    """Directory or URI for unpacked captures, which executors share; None: a directory of this machine."""
    age_limits: AgeLimits = DEFAULT_AGES
    filters: tuple[AppliedFilter, ...] = ()
    filter_from: Callable[[int], Filter] = lambda _: Filter()
    """Makes of the filters a Filter for captures that begin at some time in ns since the epoch."""

    def about(self) -> dict[str, Any]:
        """Return what a run that goes on must have in common with the one before."""
        filters = [[one.option, *one.values] for one in self.filters]
        return {
            "directory": self.source.label,
            "ports": sorted(self.ports),
            "partitions": self.partitions,
            **({"filters": filters} if filters else {}),
        }


@dataclass(slots=True)
class BatchReport:
    """Result of one batch, for the user."""

    commit: Commit
    figures: BatchFigures
    files: int
    span_ns: int  # of the captures of this batch
    seconds: float  # that it took
    incidents: list[IncidentChange] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    read: list[TakenFile] = field(default_factory=list)  # captures of this batch
    finished: Partial = EMPTY  # what this batch adds to figures
    unfinished: Partial = EMPTY  # what it would add if the captures ended now
    recent: Summary | None = None  # report of the last ten minutes
    latest_ns: int = 0  # of the packets of this batch; 0 without packets
    dropped_packets: int | None = None  # by the kernel, so far; None: no own capture
    skipped_packets: int | None = None  # so far, since the analysis was behind; None: it skips none


class WatchQuery:
    """One run of a watch. `on_batch` is called after each batch that counts."""

    def __init__(
        self,
        engine: Engine,
        settings: WatchSettings,
        store: BatchStore,
        on_batch: Callable[[BatchReport], None],
    ) -> None:
        self._engine, self._settings, self._store, self._on_batch = engine, settings, store, on_batch
        self._failure: Exception | None = None
        self._active = threading.Lock()  # held while a batch is processed
        self._last_activity = time.monotonic()
        self._grown = 0
        self._compacted = -1  # minute
        self._files = GrowingIndex()
        self._incidents = RecentIncidents(store.partials, store.last.incidents)
        self._incidents.clean()
        self._served: tuple[KeyLog, KeyLog] = (NO_KEYS, NO_KEYS)  # as read, and as tasks get it

    def run(self) -> None:
        """Watch until the source has ended or is idle for `until_idle_s`, and then end all connections.

        Otherwise it ends by an exception only, such as KeyboardInterrupt. Then all that is open stays in the
        checkpoint. Raise what ended it.
        """
        query = self._start()
        try:
            while query.isActive and not self._is_over():
                time.sleep(POLL_SECONDS)
        finally:
            with self._active:
                query.stop()
        if self._failure is not None:
            raise self._failure
        if (error := query.exception()) is not None:
            raise job_error(error, self._engine.log)
        if (reason := self._settings.source.failure()) is not None:
            raise reason
        self._process([], is_last=True)

    def _start(self) -> Any:
        from kdissect.spark.datasource import FILE_TABLE, CaptureSource

        session = self._engine.session()
        session.dataSource.register(CaptureSource)
        options = {
            "table": FILE_TABLE,
            "journal": str(self._store.journal),
            "maxFiles": str(self._settings.most_files),
            "settle": str(self._settings.settle_s),
            "first": str(self._store.last.taken),
        }
        files = session.readStream.format("kdissect").options(**options).load(self._settings.source.directory)
        writer = files.writeStream.foreachBatch(self._on_files)
        writer = writer.option("checkpointLocation", self._store.spark.as_uri())
        return writer.trigger(processingTime=f"{round(self._settings.every_s * 1000)} milliseconds").start()

    def _is_over(self) -> bool:
        """Return whether nothing will come, or came for `until_idle_s`, and nothing waits to be read."""
        limit, source = self._settings.until_idle_s, self._settings.source
        idle_s = time.monotonic() - self._last_activity
        may_be = source.has_ended or (limit is not None and idle_s >= limit)
        if not may_be or self._active.locked():
            return False
        if not is_behind(self._store.journal, self._store.last.taken, source.directory):
            return True
        self._last_activity = time.monotonic()
        return False

    def _on_files(self, frame: "DataFrame", batch: int) -> None:
        """Process one micro-batch; what fails is raised by `run`."""
        with self._active:
            if batch + self._store.first_batch <= self._store.last.batch:
                return
            try:
                rows = [TakenFile(**row.asDict()) for row in frame.collect()]
                self._process(sorted(rows, key=lambda file: file.number))
            except Exception as error:
                self._failure = error
                raise
            finally:
                self._last_activity = time.monotonic()

    def _process(self, files: Sequence[TakenFile], is_last: bool = False) -> None:
        began = time.monotonic()
        notices = self._grown_files()
        late = self._late(files)
        while True:
            found = [file for file in files if file not in late.files and file.is_there]
            try:
                report = self._batch(found, files, late, is_last)
                break
            except Exception:
                if all(file.is_there for file in found):
                    raise  # else a ring took a file away meanwhile, which is one more hole
        report.seconds = time.monotonic() - began
        report.notices[:0] = [*notices, *([late.skipped.sentence()] if late.files else [])]
        if self._settings.skip_behind_s is not None:
            report.skipped_packets = Skipped(*report.commit.skipped).packets
        report.notices += [
            without_password(
                f"{file.path} was overwritten or removed before its turn: what it held is missing"
            )
            for file in files
            if file not in found and file not in late.files
        ]
        self._on_batch(report)

    def _late(self, files: Sequence[TakenFile]) -> LateFiles:
        """Return the files that are skipped, since the watch is too far behind."""
        if self._settings.skip_behind_s is None:
            return LateFiles()
        limit_ns = round(self._settings.skip_behind_s * NS_PER_S)
        return count_skipped(late_files(files, self._settings.source.directory, limit_ns), self._files)

    def _batch(
        self, files: Sequence[TakenFile], offered: Sequence[TakenFile], late: LateFiles, is_last: bool
    ) -> BatchReport:
        last = self._store.last
        with ExitStack() as unpacked:
            found = self._captures(files, unpacked)
            index = self._files.index(found.captures, SPLIT_BYTES)
            now_ns = max((one.first_time_ns or 0 for one in index.files), default=0) or last.now_ns
            attempt = self._store.attempt()
            try:
                steps = self._incidents.grid(index.earliest_time_ns)
                plan = BatchPlan(
                    batch=last.batch + 1,
                    splits=index.splits,
                    ports=self._settings.ports,
                    partitions=self._settings.partitions,
                    state_before=_text(self._store.state()),
                    state_after=str(attempt.state),
                    out=_text(attempt.out),
                    now_ns=now_ns,
                    is_last=is_last,
                    names=last.names,
                    brokers=frozenset((node, host, port) for node, host, port in last.brokers),
                    filter=self._settings.filter_from(self._incidents.origin_ns),
                    keys=self._keys(index),
                    age_limits=self._settings.age_limits,
                    steps=steps,
                    page=self._incidents.page_grid() if attempt.out else None,
                )
                figures = self._run(plan)
                changes = self._find_incidents(plan, index, figures, late)
                if attempt.out is not None:
                    figures.files |= self._write_figures(attempt.out, plan, index, figures, late)
                commit = self._commit(plan, figures, found, offered, late)
                self._store.commit(attempt, commit, figures.files, offered)
                self._incidents.clean()
            except BaseException:
                self._incidents = RecentIncidents(self._store.partials, last.incidents)
                raise
            finally:
                attempt.end()
        self._compact(now_ns)
        span_ns = (index.latest_time_ns or 0) - (index.earliest_time_ns or 0)
        return BatchReport(
            commit,
            figures,
            files=len(found.captures),
            span_ns=span_ns,
            seconds=0,
            incidents=changes,
            notices=[*found.notices, *index.warnings],
            read=found.files,
            finished=self._incidents.finished,
            unfinished=self._incidents.unfinished,
            recent=self._incidents.summary,
            latest_ns=index.latest_time_ns or 0,
        )

    def _commit(
        self,
        plan: BatchPlan,
        figures: BatchFigures,
        found: BatchCaptures,
        offered: Sequence[TakenFile],
        late: LateFiles,
    ) -> Commit:
        """Return the account of all batches with this one."""
        last = self._store.last
        return Commit(
            batch=plan.batch,
            now_ns=plan.now_ns,
            taken=max((file.number + 1 for file in offered), default=last.taken),
            files=last.files + sum(file.start == 0 for file in found.files),
            lost=last.lost + len(offered) - len(late.files) - len(found.captures),
            skipped=list(late.skipped.plus(Skipped(*last.skipped))),
            aged=last.aged + figures.aged,
            finished=plan.is_last,
            rows=_sum(last.rows, figures.rows),
            names={**figures.names, **last.names},
            brokers=[*last.brokers, *map(list, sorted(figures.brokers))],
            incidents=self._incidents.state(),
        )

    def _captures(self, files: Sequence[TakenFile], unpacked: ExitStack) -> BatchCaptures:
        """Return the captures among files, compressed ones unpacked where tasks can read them."""
        spool, is_local = self._settings.spool, self._engine.settings.local
        place = str(self._engine.temporary) if spool is None else spool
        name_of = self._settings.source.name_of
        return batch_captures(files, name_of, place, is_local or spool is not None, unpacked)

    def _find_incidents(
        self, plan: BatchPlan, index: CaptureIndex, figures: BatchFigures, late: LateFiles
    ) -> list[IncidentChange]:
        """Return what became of incidents by a batch."""
        first_ns, last_ns = index.earliest_time_ns or 0, index.latest_time_ns or 0
        span = BatchSpan(plan.batch, first_ns, last_ns, index.packets)
        return self._incidents.add(span, figures.finished, figures.unfinished, late.gaps)

    def _write_figures(
        self, folder: Path, plan: BatchPlan, index: CaptureIndex, figures: BatchFigures, late: LateFiles
    ) -> dict[str, str]:
        """Write what reports are made from. Return the files as tasks do. Raise OutputError.

        Packets that were skipped count as dropped.
        """
        assert plan.steps is not None
        assert plan.page is not None
        latest_ns = index.latest_time_ns or plan.now_ns
        facts = capture_facts(index, Counts(*figures.packets))
        dropped = self._skipped_packets(plan, late.skipped)
        header = FigureHeader(
            plan.batch,
            plan.batch,
            index.earliest_time_ns or latest_ns,
            latest_ns,
            StepGrids(plan.steps, plan.page),
            replace(facts, dropped_packets=facts.dropped_packets + dropped, gaps=late.gaps),
            self._settings.filters,
        )
        try:
            paths = write_batch(folder, header, self._incidents.finished, self._incidents.unfinished)
            return {path: path for path in paths}
        except OSError as error:
            raise OutputError.of(folder, error) from None

    def _skipped_packets(self, plan: BatchPlan, skipped: Skipped) -> int:
        """Return how many skipped packets the figures of a batch count.

        Until a packet is read no batch has a time, and figures without one are not kept. So the first batch
        that has a time counts what was skipped before it.
        """
        last = self._store.last
        if plan.now_ns == 0:
            return 0
        return skipped.packets + (Skipped(*last.skipped).packets if last.now_ns == 0 else 0)

    def _compact(self, now_ns: int) -> None:
        """Join files of figures once for each minute of the captures."""
        minute = now_ns // MINUTE_NS
        if self._store.figures is not None and minute != self._compacted:
            self._compacted = minute
            try:
                self._store.figures.compact(now_ns)
            except OSError as error:
                raise OutputError.of(self._store.place, error) from None

    def _run(self, plan: BatchPlan) -> BatchFigures:
        """Run both passes over the splits of a batch."""
        context = self._engine.context()
        ordinals = range(len(plan.splits))
        if ordinals:
            scanned = context.parallelize(ordinals, tasks_for(len(ordinals), context.defaultParallelism))
            rows = scanned.mapPartitions(partial(scan_step, plan=plan)).partitionBy(
                plan.partitions, _partition_number
            )
        else:
            rows = context.parallelize([], plan.partitions)
        figures = BatchFigures()
        for part in rows.mapPartitionsWithIndex(partial(batch_step, plan=plan)).collect():
            figures.add(part)
        return figures

    def _keys(self, index: CaptureIndex) -> KeyLog:
        """Return the secrets for a batch as tasks get them. The key log is read anew, since it grows."""
        keys = keys_for(self._settings.keylog, index.files)
        if keys.contents() != self._served[0].contents():
            self._served = keys, self._engine.share_keys(keys)
        return self._served[1]

    def _grown_files(self) -> list[str]:
        """Return a notice for each file that grew after it was taken, once."""
        path = grown_file(self._store.journal)
        lines = path.read_text().splitlines() if path.exists() else []
        new, self._grown = lines[self._grown :], len(lines)
        new = [without_password(line) for line in new]
        return [f"{line} grew after it was read: what was added is missing (--settle)" for line in new]


def _partition_number(partition: int) -> int:
    return partition


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _sum(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
