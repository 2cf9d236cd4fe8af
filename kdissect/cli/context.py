"""Steps of every command on Spark before its own work.

Start Spark, open and index the captures, plan the run.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from kdissect.capture.formats.file_types import check_paths
from kdissect.cli.banner import index_lines, reading_line
from kdissect.cli.filter_options import table_filter
from kdissect.cli.interrupt import (
    Interrupt,
    end_at_once,
    first_interrupt,
    input_stream,
    interrupted_or,
    left_unread,
    only_read,
)
from kdissect.cli.options import pseudonyms_of
from kdissect.cli.payload_options import schema_store
from kdissect.errors import ExitCode, UserError
from kdissect.jit import kernel_cache
from kdissect.spark.connect import ConnectEngine, engine_for
from kdissect.spark.in_process import InProcessEngine, runs_in_process
from kdissect.spark.session import Engine
from kdissect.spark.spark_settings import RunKind, SparkSettings
from kdissect.text import escape_control, plural

if TYPE_CHECKING:
    from pathlib import Path

    from kdissect.capture.index.index import CaptureIndex
    from kdissect.capture.index.range_merge import RunRanges
    from kdissect.capture.index.range_scan import RangeScan, RangeTask
    from kdissect.capture.inputs import CaptureFile, Inputs
    from kdissect.spark.analysis_work import AnalysisWork
    from kdissect.spark.reading_stop import ReadingStop
    from kdissect.spark.startup.local_scan import LocalScanner
    from kdissect.tables.anonymize import Pseudonyms


AnyEngine: TypeAlias = Engine | ConnectEngine | InProcessEngine

MOSTLY = 0.5
"""Share of the payload: if more than that was cut off, nobody can tell which protocol a connection spoke."""


class NothingToReportError(UserError):
    """The captures can be read, but hold nothing that could be dissected; the message is one sentence."""


@dataclass(slots=True)
class AnalysisRun:
    """Captures that are indexed, the work to do on them, and the engine that does it.

    `index` becomes that of what was read, and `interruption` tells it, if the user ends the reading.
    """

    engine: AnyEngine
    index: "CaptureIndex"
    work: "AnalysisWork"
    pseudonyms: "Pseudonyms | None"
    armed: ExitStack
    """While it is open, the first Ctrl-C ends the reading only."""
    interrupt: Interrupt
    """The Ctrl-C that `armed` waits for."""
    interruption: str = ""

    def exit_code(self, done: int = ExitCode.DONE) -> int:
        """Return the exit code of a command that is `done`, or that of an interrupted one."""
        return ExitCode.INTERRUPTED if self.interruption else done


def notify(line: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"{escape_control(line)}\n")
    sys.stderr.flush()


def silent(_line: str) -> None:
    """Drop a line, where --quiet is given."""


@contextmanager
def spark_engine(
    arguments: argparse.Namespace,
    paths: Sequence[str],
    figures_only: bool = False,
    kind: RunKind = RunKind.RDD,
) -> Iterator[AnyEngine]:
    """Start Spark, unless the first bytes of the paths are not those of captures, and end it afterwards.

    A command that needs `figures_only` gets an engine without Spark for small captures.
    """
    check_paths(paths)
    notice = _notice(arguments)
    settings = SparkSettings(master=arguments.master, notice=notice, kind=kind)
    here = figures_only and runs_in_process(settings, paths)
    if line := reading_line(paths):  # first: finding a Java and starting it takes longer than all before
        notice(line)
    with (
        InProcessEngine.start(settings) if here else engine_for(settings) as engine,
        spark_errors_explained(engine),
    ):
        if engine.settings.local and kernel_cache.is_missing():
            notice("first run: compiling, once, for a minute")
            kernel_cache.compile_first()
        yield engine


def prepare_run(
    engine: AnyEngine,
    arguments: argparse.Namespace,
    paths: Sequence[str],
    announces: bool = True,
    partial: bool = True,
) -> AnalysisRun:
    """Return the run over captures: open and index them, report what is in them, and plan the work.

    A command that has something to check first does without the report (`announces`), and calls `announce`
    later. The first Ctrl-C ends the command if a part of the captures is no use (`partial`).

    Raise NothingToReportError for captures without packets, InputError for what cannot be read.
    """
    engine.build()  # loads most modules, at less cost than an import here
    from kdissect.bytes_progress import BytesProgress
    from kdissect.capture.index.index import RANGE_BYTES, SPLIT_BYTES, index_captures

    armed = engine.afterwards.enter_context(ExitStack())
    interrupt = armed.enter_context(first_interrupt(None if partial else end_at_once))
    try:
        inputs, scratch = _open(engine, arguments, paths, interrupt)
    except UserError as error:
        raise interrupted_or(error, interrupt) from None
    stop = engine.reading_stop(scratch) if partial else None
    if stop is None and not interrupt.has_come:
        armed.close()  # nothing could end the work of a server halfway
    interrupt.on_first = stop.ask_index if stop else None
    scanner = _local_scanner(engine, arguments, inputs.files, scratch)
    with BytesProgress("indexing captures", quiet=arguments.quiet) as progress:
        split_bytes = arguments.split_bytes or (scanner.split_bytes if scanner else SPLIT_BYTES)
        index = index_captures(
            inputs.files,
            split_bytes,
            progress,
            range_bytes=scanner.range_bytes(engine.settings.cores) if scanner else RANGE_BYTES,
            run=_range_runner(engine, stop, scanner),
        )
    interrupt.on_first = stop.ask if stop else None
    if announces:
        announce(index, arguments.quiet)
    if not index.packets:
        raise interrupted_or(NothingToReportError(f"{_captures_hold(index)} no packets"), interrupt)
    pseudonyms = pseudonyms_of(arguments)
    work = _plan(engine, arguments, index, pseudonyms, scratch, stop, scanner)
    run = AnalysisRun(engine, index, work, pseudonyms, armed, interrupt, left_unread(inputs, index))
    if run.interruption:
        notify(f"kdissect: {run.interruption}")
    return run


@contextmanager
def reading_job(run: AnalysisRun, quiet: bool) -> Iterator[Any]:
    """Return the Spark context for a job that reads captures.

    Its progress is shown, and the first Ctrl-C ends the reading, within the `with` block.
    """
    from kdissect.spark.progress import JobProgress

    stop = run.work.stop
    if stop and not run.interrupt.has_come:
        run.armed.close()
        run.interrupt = run.armed.enter_context(first_interrupt(stop.ask))
    with run.armed:
        spark = run.engine.context()
        with JobProgress(spark, quiet, meters=run.work.meters):
            yield spark
    interruption = stop.settle() if stop else None
    if interruption is None or run.interruption:
        return
    from kdissect.capture.index.index_prefix import index_prefix, split_bytes

    read, size = index_prefix(run.index, interruption.split), split_bytes(run.index.splits)
    run.interruption = only_read(split_bytes(read.splits), size)
    if interruption.tasks_left_out:
        run.interruption += ", and some connections not at all"
    run.index = read
    notify(f"kdissect: {run.interruption}")


@contextmanager
def analysis_run(
    arguments: argparse.Namespace,
    figures_only: bool = False,
    kind: RunKind = RunKind.RDD,
    partial: bool = True,
) -> Iterator[AnalysisRun]:
    """Return the run over the captures of the command line, while Spark starts, and end Spark afterwards."""
    with spark_engine(arguments, arguments.paths, figures_only, kind) as engine:
        yield prepare_run(engine, arguments, arguments.paths, partial=partial)


def _open(
    engine: AnyEngine,
    arguments: argparse.Namespace,
    paths: Sequence[str],
    interrupt: Interrupt,
) -> "tuple[Inputs, Path]":
    """Return the capture files of the paths, as far as they are unpacked, and a directory of this run."""
    from kdissect.capture.inputs import open_inputs, unshared_spool

    scratch = engine.temporary / f"spool-{len(list(engine.temporary.glob('spool-*')))}"
    scratch.mkdir()
    spool = _shared_scratch(engine, arguments.spool) if arguments.spool else str(scratch)
    inputs = open_inputs(paths, spool, input_stream(paths, interrupt), lambda: interrupt.has_come)
    unpacked_here = [file.name for file in inputs.files if file.spooled and not arguments.spool]
    if unpacked_here and not engine.settings.local:
        raise unshared_spool(unpacked_here[0])
    for reason in inputs.skipped:
        _notice(arguments)(f"skipped {reason}")
    return inputs, scratch


def announce(index: "CaptureIndex", quiet: bool) -> None:
    """Write the warnings of an index and, unless `quiet`, what the captures hold."""
    for warning in index.warnings:
        notify(f"kdissect: {warning}")
    if not quiet:
        for line in index_lines(index):
            notify(line)


def _plan(
    engine: AnyEngine,
    arguments: argparse.Namespace,
    index: "CaptureIndex",
    pseudonyms: "Pseudonyms | None",
    scratch: "Path",
    stop: "ReadingStop | None",
    scanner: "LocalScanner | None",
) -> "AnalysisWork":
    """Return the work on indexed captures, of which `scanner` may have scanned some splits."""
    from kdissect.capture.index.sampling import take_sample
    from kdissect.spark.analysis_work import AnalysisWork
    from kdissect.spark.pass_meters import PassMeters
    from kdissect.spark.task_tables import TableOptions
    from kdissect.streams.tls.keylog import keys_for

    keys = engine.share_keys(keys_for(arguments.keylog, index.files))
    selected = table_filter(arguments, index.earliest_time_ns or 0)
    schemas = schema_store(arguments, engine.settings.local)
    options = TableOptions(selected, pseudonyms, keys=keys, schemas=schemas)
    sample = scanner.sample if scanner else take_sample(index.splits, arguments.port)
    ahead = scanner.result(index.splits) if scanner else None
    work = AnalysisWork(
        index.splits, tuple(arguments.port), arguments.partitions or 0, options, sample, ahead, stop=stop
    )
    if engine.settings.local and not arguments.quiet:
        work = replace(work, meters=PassMeters.new(scratch, index.splits))
        if ahead and work.meters:
            scanned = (index.splits[ordinal] for ordinal in ahead.scanned)
            work.meters.scanned.append(sum(split.stop - split.start for split in scanned))
    return work


def _local_scanner(
    engine: AnyEngine, arguments: argparse.Namespace, files: "Sequence[CaptureFile]", scratch: "Path"
) -> "LocalScanner | None":
    """Return what scans splits in this process while they are indexed; None for a cluster."""
    from kdissect.capture.index.sampling import rough_sample
    from kdissect.spark.file_parts import parts_in
    from kdissect.spark.partitioning import shares_of
    from kdissect.spark.startup.local_scan import FEW_CORES, LocalScanner

    sample = rough_sample(files, arguments.port) if engine.may_be_helped else None
    if sample is None:
        return None
    cores = engine.settings.cores
    shares = shares_of(sample, cores, arguments.partitions or 0)
    writer = engine.afterwards.enter_context(parts_in(scratch / "pieces"))
    return LocalScanner(
        arguments.port, sample, shares, writer, lambda: cores <= FEW_CORES or not engine.is_up()
    )


def _shared_scratch(engine: AnyEngine, place: str) -> str:
    """Return a directory of this run in a place that executors share."""
    from kdissect.capture.formats.file_types import InputError
    from kdissect.capture.storage import shared_scratch

    try:
        return engine.afterwards.enter_context(shared_scratch(place))
    except OSError as error:
        raise InputError.of(place, error) from None


def _range_runner(
    engine: AnyEngine, stop: "ReadingStop | None", scanner: "LocalScanner | None"
) -> "RunRanges":
    """Return what scans ranges of captures.

    This process while a local Spark starts, or the executors of a cluster.
    """
    from kdissect.capture.index.index import in_threads
    from kdissect.spark.jobs import scan_ranges

    def run(tasks: "Sequence[RangeTask]") -> "Iterable[RangeScan]":
        here = engine.settings.local or len(tasks) == 1
        if not here:
            return scan_ranges(engine.context(), tasks, stop)
        scans = scanner.scans if scanner else None
        return in_threads(tasks, stop.ends_index if stop else lambda: False, scans)

    return run


def _notice(arguments: argparse.Namespace) -> Callable[[str], None]:
    return silent if arguments.quiet else (lambda line: notify(f"kdissect: {line}"))


@contextmanager
def spark_errors_explained(engine: AnyEngine) -> Iterator[None]:
    """Turn exceptions of Spark into one sentence (see `spark.failures`)."""
    try:
        yield
    except Exception as error:
        from kdissect.spark.failures import is_from_spark, job_error

        if not is_from_spark(error):
            raise

        raise job_error(error, engine.log) from error


def reason_for_no_report(
    index: "CaptureIndex",
    counts: Any,
    connections: int,
    kafka: int,
    ports: tuple[int, ...],
    encrypted: int = 0,
) -> str:
    """Return why there is nothing to report; empty if there is something."""
    where = f" on port {', '.join(map(str, ports))}" if ports else ""
    if not counts.tcp:
        others = f"{index.packets:,} {plural('packet', index.packets)} of other kinds"
        return f"{_captures_hold(index)} no TCP packets{where} ({others})"
    noun = plural("connection", connections)
    if not kafka and encrypted:
        verb = "is" if encrypted == 1 else "are"
        return (
            f"{_captures_hold(index)} no Kafka traffic{where} that can be read: {encrypted:,} "
            f"of {connections:,} TCP {noun} {verb} TLS "
            "without secrets (--keylog FILE gives them)"
        )
    if not kafka:
        from kdissect.text import format_share

        if counts.missing_bytes > MOSTLY * counts.payload_bytes:
            return (
                f"{_captures_hold(index)} no Kafka traffic{where} that can be recognised: of "
                f"{connections:,} TCP {noun} "
                f"{format_share(counts.missing_bytes / counts.payload_bytes)} of the payload is cut off "
                "(a snap length of 128 keeps the headers of requests)"
            )
        return (
            f"{_captures_hold(index)} no Kafka traffic{where} ({connections:,} TCP {noun} of other protocols)"
        )
    return ""


def _captures_hold(index: "CaptureIndex") -> str:
    return (
        f"{index.files[0].file.name} holds"
        if len(index.files) == 1
        else f"these {len(index.files)} captures hold"
    )
