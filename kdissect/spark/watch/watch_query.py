"""A watch: the streaming query over capture files, whose micro-batches `BatchJob` does one after another.

    directory ─► FileStream ─► micro-batch: files ─► BatchJob ─► BatchReport

Spark Structured Streaming decides when a micro-batch is due, and records its files. `foreachBatch` hands them
to this process, which runs one job: both passes over these files, with the state of each partition of
connections. The batch counts when `BatchStore` has committed it. If the run was killed before Spark knew,
Spark offers the batch again, and it is passed over.

A ring may overwrite a file before its turn. Such a file is a hole in the capture: it is counted and reported.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kdissect.spark.failures import job_error
from kdissect.spark.session import Engine
from kdissect.spark.table_writer import hadoop_path
from kdissect.spark.watch.batch_job import BatchJob, BatchReport
from kdissect.spark.watch.batch_store import BatchStore
from kdissect.spark.watch.file_journal import TakenFile, grown_file, is_behind
from kdissect.spark.watch.file_stream import NS_PER_S
from kdissect.spark.watch.late_files import LateFiles, Skipped, count_skipped, late_files
from kdissect.spark.watch.watch_settings import WatchSettings
from kdissect.text import without_password

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

POLL_SECONDS = 0.1


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
        self._job = BatchJob(engine, settings, store)

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
        writer = writer.option("checkpointLocation", hadoop_path(self._store.spark))
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
                report = self._job.run(found, files, late, is_last)
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
        return count_skipped(late_files(files, self._settings.source.directory, limit_ns), self._job.index)

    def _grown_files(self) -> list[str]:
        """Return a notice for each file that grew after it was taken, once."""
        path = grown_file(self._store.journal)
        lines = path.read_text().splitlines() if path.exists() else []
        new, self._grown = lines[self._grown :], len(lines)
        new = [without_password(line) for line in new]
        return [f"{line} grew after it was read: what was added is missing (--settle)" for line in new]
