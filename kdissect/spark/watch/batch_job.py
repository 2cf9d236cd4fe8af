"""The job of one micro-batch of a watch: both passes over its files, the incidents, and the commit.

    files ─► index ─► pass one ─► partitions ─► batch_step ─► incidents, figures ─► commit

A batch that fails has changed nothing, and can be done again.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from kdissect.capture.index.growing_index import GrowingIndex
from kdissect.capture.index.index import SPLIT_BYTES, CaptureIndex
from kdissect.capture.segment_index import Counts
from kdissect.errors import OutputError
from kdissect.report.build.regrid import StepGrids
from kdissect.report.incidents.incident_log import IncidentChange
from kdissect.report.model.summary import Summary
from kdissect.report.partials import EMPTY, Partial
from kdissect.spark.capture_facts import capture_facts
from kdissect.spark.partitioning import tasks_for
from kdissect.spark.session import Engine
from kdissect.spark.watch.batch_captures import BatchCaptures, batch_captures
from kdissect.spark.watch.batch_step import BatchFigures, BatchPlan, batch_step, scan_step
from kdissect.spark.watch.batch_store import Attempt, BatchStore, Commit
from kdissect.spark.watch.figure_files import MINUTE_NS, FigureHeader, write_batch
from kdissect.spark.watch.file_journal import TakenFile
from kdissect.spark.watch.late_files import LateFiles, Skipped
from kdissect.spark.watch.recent_incidents import BatchSpan, RecentIncidents
from kdissect.spark.watch.task_files import NO_FILES, AttemptFiles, TaskFiles, returned_files
from kdissect.spark.watch.watch_settings import WatchSettings
from kdissect.streams.tls.keylog import NO_KEYS, KeyLog, keys_for


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


class BatchJob:
    """The jobs of one run, batch after batch, with what they keep in memory between batches."""

    def __init__(self, engine: Engine, settings: WatchSettings, store: BatchStore) -> None:
        self._engine, self._settings, self._store = engine, settings, store
        self.index = GrowingIndex()
        self._compacted = -1  # minute
        self._incidents = RecentIncidents(store.partials, store.last.incidents)
        self._incidents.clean()
        self._served: tuple[KeyLog, KeyLog] = (NO_KEYS, NO_KEYS)  # as read, and as tasks get it

    def run(
        self, files: Sequence[TakenFile], offered: Sequence[TakenFile], late: LateFiles, is_last: bool
    ) -> BatchReport:
        """Return the report of a batch that counts now. Raise what it fails with.

        `files` are those to read, of all that are `offered`. The last batch ends all connections.
        """
        last = self._store.last
        with ExitStack() as unpacked:
            found = self._captures(files, unpacked)
            index = self.index.index(found.captures, SPLIT_BYTES)
            now_ns = max((one.first_time_ns or 0 for one in index.files), default=0) or last.now_ns
            attempt = self._store.attempt()
            try:
                steps = self._incidents.grid(index.earliest_time_ns)
                plan = BatchPlan(
                    batch=last.batch + 1,
                    splits=index.splits,
                    ports=self._settings.ports,
                    partitions=self._settings.partitions,
                    files=self._files(attempt),
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
                self._write(figures, attempt)
                changes = self._find_incidents(plan, index, figures, late)
                if attempt.out is not None:
                    figures.files.paths |= self._write_figures(attempt.out, plan, index, figures, late)
                commit = self._commit(plan, index, figures, found, offered, late)
                self._store.commit(attempt, commit, figures.files.paths, offered)
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
        index: CaptureIndex,
        figures: BatchFigures,
        found: BatchCaptures,
        offered: Sequence[TakenFile],
        late: LateFiles,
    ) -> Commit:
        """Return the account of all batches with this one."""
        last = self._store.last
        return Commit(
            batch=plan.batch,
            now_ns=index.latest_time_ns or last.now_ns,
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

    def _files(self, attempt: Attempt) -> TaskFiles:
        """Return the files of the tasks of an attempt."""
        before = self._store.state()
        if self._engine.settings.local:
            return AttemptFiles(before, attempt.state, attempt.out)
        return returned_files(before, self._settings.partitions, attempt.out is not None)

    def _write(self, figures: BatchFigures, attempt: Attempt) -> None:
        """Write what tasks have returned. Raise OutputError."""
        try:
            figures.files.write(attempt.state, attempt.out)
        except OSError as error:
            raise OutputError.of(self._store.place, error) from None

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
            # The first pass needs no files, and states may be large.
            stateless = replace(plan, files=NO_FILES)
            rows = scanned.mapPartitions(partial(scan_step, plan=stateless)).partitionBy(
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


def _partition_number(partition: int) -> int:
    return partition


def _sum(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
