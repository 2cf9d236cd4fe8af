"""What every command does before its own job: start Spark, open and survey the captures, tell what is in them."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kdissect.cli.announce import line_before, lines_about
from kdissect.pipeline.session import Engine, Settings

if TYPE_CHECKING:
    from kdissect.capture.survey import Survey
    from kdissect.pipeline.jobs import Work


class NothingToReport(Exception):
    """The captures can be read and hold nothing that could be dissected; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Captures surveyed, Spark on its way."""

    engine: Engine
    survey: "Survey"
    work: "Work"


def say(line: str) -> None:
    """Tell the user something on standard error."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def silent(_line: str) -> None:
    """Tell nothing."""


@contextmanager
def prepared(chosen: argparse.Namespace) -> Iterator[Ready]:
    """Give the work to be done, while Spark starts; its end ends Spark."""
    notice = silent if chosen.quiet else (lambda line: say(f"kdissect: {line}"))
    with Engine.start(Settings(master=chosen.master, notice=notice)) as engine, explaining(engine):
        if before := line_before(chosen.paths):
            notice(before)

        from kdissect.capture.files import open_inputs
        from kdissect.capture.survey import SPLIT_BYTES, survey

        engine.build()
        inputs = open_inputs(chosen.paths, str(engine.temporary))
        for reason in inputs.skipped:
            notice(f"passed over {reason}")
        found = survey(inputs.files, chosen.split_bytes or SPLIT_BYTES)
        for warning in found.warnings:
            say(f"kdissect: {warning}")
        if not chosen.quiet:
            for line in lines_about(found):
                say(line)
        if not found.packets:
            raise NothingToReport(f"{_these(found)} no packets")

        from kdissect.pipeline.jobs import Work

        yield Ready(engine, found, Work(found.splits, tuple(chosen.port), chosen.partitions or 0))


@contextmanager
def explaining(engine: Engine) -> Iterator[None]:
    """Turn Spark's exceptions into one sentence."""
    try:
        yield
    except Exception as error:
        if not _is_sparks(error):
            raise
        from kdissect.pipeline.failures import JobFailed, explained

        raise JobFailed(explained(error, engine.log)) from error


def nothing_found(found: "Survey", counts: Any, connections: int, kafka: int, ports: tuple[int, ...]) -> str:
    """Say why there is nothing to report; empty when there is something."""
    where = f" on port {', '.join(map(str, ports))}" if ports else ""
    if not counts.tcp:
        return f"{_these(found)} no TCP packets{where} ({found.packets:,} packets of other kinds)"
    if not kafka:
        spoken = "connection" if connections == 1 else "connections"
        return f"{_these(found)} no Kafka traffic{where} ({connections:,} TCP {spoken} of other protocols)"
    return ""


def _these(found: "Survey") -> str:
    return (
        f"{found.files[0].file.name} holds"
        if len(found.files) == 1
        else f"these {len(found.files)} captures hold"
    )


def _is_sparks(error: Exception) -> bool:
    names = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return bool(names & {"pyspark", "py4j"}) or isinstance(
        error, EOFError | ConnectionResetError | ConnectionRefusedError
    )
