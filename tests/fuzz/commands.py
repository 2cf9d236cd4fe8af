"""Whole commands on damaged capture files: what a user sees does not depend on splits, and is no traceback.

`analyze` writes its report as JSON and `dump` its lines, each twice, with splits of another size. The
commands run in this process, and share one Spark that is started for the first case.
"""

import atexit
import io
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from kdissect.cli import context, dump_input
from kdissect.cli.main import main
from kdissect.errors import ExitCode
from kdissect.spark.session import Engine
from kdissect.spark.spark_settings import SparkSettings
from tests.fuzz import captures
from tests.fuzz.case import Case

LARGEST = 20_000  # bytes of a seed: every case is read four times
SPLITS = (2, 7)  # parts of a file


class Outcome(NamedTuple):
    """Outcome of a command."""

    code: int
    output: bytes
    errors: str


def seeds() -> list[Case]:
    """Return the capture files of the other targets that are not large."""
    return [case for case in captures.seeds() if len(case.data) <= LARGEST]


@cache
def _engine() -> Engine:
    engine = Engine.start(SparkSettings(master="local[2]"))
    atexit.register(engine.close)
    engine.build()
    engine.context()
    return engine


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="kdissect-fuzz-")


@contextmanager
def _captured_output() -> Iterator[tuple[io.TextIOWrapper, io.StringIO]]:
    written = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    with redirect_stdout(written), redirect_stderr(io.StringIO()) as errors:
        yield written, errors


def run_command(arguments: Sequence[str]) -> Outcome:
    """Run a command in this process, on the one Spark."""
    with _captured_output() as (written, errors):
        code = main(arguments)
    buffer = written.buffer
    assert isinstance(buffer, io.BytesIO)
    return Outcome(code, buffer.getvalue(), errors.getvalue())


def command(case: Case) -> None:
    """A damaged capture gives the same report and the same lines for any splits, or one sentence."""
    path = Path(_folder().name, f"{os.getpid()}.capture")
    path.write_bytes(case.data)
    sizes = [1 + len(case.data) // parts for parts in SPLITS]
    engine = _engine()
    with (
        patch.object(context, "runs_in_process", lambda *_: False),
        patch.object(context, "engine_for", lambda _settings: nullcontext(engine)),
        patch.object(Engine, "rest", lambda _engine, **_options: None),  # it serves the next case too
    ):
        reports = [
            run_command(["analyze", str(path), "--format", "json", "--quiet", "--split-bytes", str(size)])
            for size in sizes
        ]
    _assert_same(reports)
    dumps = []
    for size in sizes:
        with patch.object(dump_input, "SPLIT_BYTES", size):
            dumps.append(run_command(["dump", str(path), "--format", "jsonl", "--records"]))
    _assert_same(dumps)


def _assert_same(outcomes: Sequence[Outcome]) -> None:
    first = outcomes[0]
    nothing_found = first.code == ExitCode.NOTHING_FOUND and "no Kafka exchange" in first.errors
    assert nothing_found or first.code in (ExitCode.DONE, ExitCode.USER_ERROR), first.errors
    assert "Traceback" not in first.errors
    for other in outcomes[1:]:
        assert other == first
