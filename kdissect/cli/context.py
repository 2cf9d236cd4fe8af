"""What every command does before its own job: start Spark, open and survey the captures, tell what is in them."""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kdissect.capture.formats.file_types import refuse_at_once
from kdissect.cli.banner import line_before, lines_about
from kdissect.cli.filter_options import choice_of
from kdissect.cli.pseudonyms import pseudonyms_of
from kdissect.errors import UserError
from kdissect.spark.connect import Remote, engine_for
from kdissect.spark.session import Engine, Settings
from kdissect.spark.startup.jvm import GatewayFailed
from kdissect.text import escape_control

if TYPE_CHECKING:
    from kdissect.capture.index.index import CaptureIndex
    from kdissect.capture.index.range_merge import Run
    from kdissect.capture.index.range_scan import RangeScan, Task
    from kdissect.spark.jobs import Work
    from kdissect.tables.anonymize import Pseudonyms


MOSTLY = 0.5  # of the payload: where more was cut off, nobody can say what is not there


class NothingToReport(UserError):
    """The captures can be read and hold nothing that could be dissected; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Captures surveyed, Spark on its way."""

    engine: Engine | Remote
    survey: "CaptureIndex"
    work: "Work"
    pseudonyms: "Pseudonyms | None"


def say(line: str) -> None:
    """Tell the user something on standard error."""
    sys.stderr.write(f"{escape_control(line)}\n")
    sys.stderr.flush()


def silent(_line: str) -> None:
    """Tell nothing."""


@contextmanager
def started(chosen: argparse.Namespace, paths: Sequence[str]) -> Iterator[Engine | Remote]:
    """Let Spark start, once a glance at the paths has not shown that it would be for nothing; the end ends Spark."""
    refuse_at_once(paths)
    notice = _notice(chosen)
    with engine_for(Settings(master=chosen.master, notice=notice)) as engine, explaining(engine):
        if before := line_before(paths):
            notice(before)
        yield engine


def surveyed(engine: Engine | Remote, chosen: argparse.Namespace, paths: Sequence[str]) -> Ready:
    """Look the captures over, and say what there is to do with them."""
    from kdissect.capture.formats.file_types import InputError
    from kdissect.capture.index.index import SPLIT_BYTES, index_captures
    from kdissect.capture.index.sampling import take_sample
    from kdissect.capture.inputs import open_inputs
    from kdissect.spark.jobs import Work
    from kdissect.spark.progress import SurveyProgress
    from kdissect.spark.startup.local_scan import FEW_CONNECTIONS, scan_ahead
    from kdissect.spark.tasks import TableOptions
    from kdissect.streams.tls.keylog import keys_for

    engine.build()
    pseudonyms = pseudonyms_of(chosen)
    spool = engine.temporary / f"spool-{len(list(engine.temporary.glob('spool-*')))}"
    spool.mkdir()
    inputs = open_inputs(paths, _shared(engine, chosen.spool) if chosen.spool else str(spool))
    near = [file.name for file in inputs.files if file.spooled and not chosen.spool]
    if near and not engine.settings.local:
        raise InputError(
            f"{near[0]}: a cluster reads it only unpacked, in a place that all executors share: --spool DIR"
        )
    for reason in inputs.skipped:
        _notice(chosen)(f"passed over {reason}")
    with SurveyProgress(chosen.quiet) as progress:
        found = index_captures(
            inputs.files, chosen.split_bytes or SPLIT_BYTES, progress, run=_looking(engine)
        )
    for warning in found.warnings:
        say(f"kdissect: {warning}")
    if not chosen.quiet:
        for line in lines_about(found):
            say(line)
    if not found.packets:
        raise NothingToReport(f"{_these(found)} no packets")
    keys = keys_for(chosen.keylog, found.files)
    treatment = TableOptions(choice_of(chosen, found.earliest_time_ns or 0), pseudonyms, keys=keys)
    sample = take_sample(found.splits, chosen.port)
    work = Work(found.splits, tuple(chosen.port), chosen.partitions or 0, treatment, sample)
    if engine.may_be_helped and sample.connections <= FEW_CONNECTIONS:
        shares = work.shares(engine.settings.cores)
        ahead = scan_ahead(work.splits, work.ports, shares, spool / "pieces", engine.is_up)
        work = replace(work, ahead=ahead)
    return Ready(engine, found, work, pseudonyms)


def _shared(engine: Engine | Remote, place: str) -> str:
    """Give a folder of this run in a place that executors see."""
    from kdissect.capture.formats.file_types import InputError
    from kdissect.capture.storage import shared_scratch

    try:
        return engine.afterwards.enter_context(shared_scratch(place))
    except OSError as error:
        raise InputError.of(place, error) from None


@contextmanager
def prepared(chosen: argparse.Namespace) -> Iterator[Ready]:
    """Give the work to be done, while Spark starts; its end ends Spark."""
    with started(chosen, chosen.paths) as engine:
        yield surveyed(engine, chosen, chosen.paths)


def _looking(engine: Engine | Remote) -> "Run":
    """Give what looks over ranges of captures: this process, whose Spark is still starting, or the executors of a cluster."""
    from kdissect.capture.index.index import in_threads
    from kdissect.spark.jobs import looked_over

    def run(tasks: "Sequence[Task]") -> "Iterable[RangeScan]":
        near = engine.settings.local or len(tasks) == 1
        return in_threads(tasks) if near else looked_over(engine.context(), tasks)

    return run


def _notice(chosen: argparse.Namespace) -> Callable[[str], None]:
    return silent if chosen.quiet else (lambda line: say(f"kdissect: {line}"))


@contextmanager
def explaining(engine: Engine | Remote) -> Iterator[None]:
    """Turn Spark's exceptions into one sentence."""
    try:
        yield
    except Exception as error:
        if not _is_sparks(error):
            raise
        from kdissect.spark.failures import failed

        raise failed(error, engine.log) from error


def nothing_found(
    found: "CaptureIndex",
    counts: Any,
    connections: int,
    kafka: int,
    ports: tuple[int, ...],
    encrypted: int = 0,
) -> str:
    """Say why there is nothing to report; empty when there is something."""
    where = f" on port {', '.join(map(str, ports))}" if ports else ""
    if not counts.tcp:
        return f"{_these(found)} no TCP packets{where} ({found.packets:,} packets of other kinds)"
    if not kafka and encrypted:
        spoken = "connection is" if encrypted == 1 else "connections are"
        return (
            f"{_these(found)} no Kafka traffic{where} that can be read: {encrypted:,} of {connections:,} TCP {spoken} TLS "
            "without secrets (--keylog FILE gives them)"
        )
    if not kafka:
        from kdissect.text import format_share

        spoken = "connection" if connections == 1 else "connections"
        if counts.missing_bytes > MOSTLY * counts.payload_bytes:
            return (
                f"{_these(found)} no Kafka traffic{where} that can be recognised: of {connections:,} TCP {spoken} "
                f"{format_share(counts.missing_bytes / counts.payload_bytes)} of the payload is cut off "
                "(a snap length of 128 keeps the headers of requests)"
            )
        return f"{_these(found)} no Kafka traffic{where} ({connections:,} TCP {spoken} of other protocols)"
    return ""


def _these(found: "CaptureIndex") -> str:
    return (
        f"{found.files[0].file.name} holds"
        if len(found.files) == 1
        else f"these {len(found.files)} captures hold"
    )


def _is_sparks(error: Exception) -> bool:
    names = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return bool(names & {"pyspark", "py4j", "grpc"}) or isinstance(
        error, GatewayFailed | EOFError | ConnectionResetError | ConnectionRefusedError
    )
