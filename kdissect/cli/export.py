"""`kdissect export`: captures in, public tables out."""

import argparse
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdissect.capture.storage import is_uri, local_path
from kdissect.cli.context import AnalysisRun, analysis_run, notify, reading_job
from kdissect.cli.options import EVERY_TABLE, ROW_TABLES, TABLES
from kdissect.cli.report_build import report_frames
from kdissect.errors import OutputError, UsageError
from kdissect.files import ScratchDirectory
from kdissect.spark.spark_settings import RunKind, SparkSettings
from kdissect.spark.table_writer import (
    FINISH,
    TableDirectory,
    TableFormat,
    TableStore,
    table_target,
)
from kdissect.text import readable

if TYPE_CHECKING:
    from collections.abc import Sequence

STANDARD_OUTPUT = "-"


def export(arguments: argparse.Namespace) -> int:
    """Run the command."""
    wanted = [
        table
        for table in EVERY_TABLE
        if table in arguments.table or ("all" in arguments.table and table in TABLES)
    ]
    if arguments.out == STANDARD_OUTPUT:
        return _export_to_standard_output(arguments, wanted)
    if arguments.one_file and is_uri(arguments.out):
        raise UsageError("--one-file writes to a local directory: name one with --out")
    _check_overwritten(arguments.out, arguments.overwrite)
    near = SparkSettings(master=arguments.master).local
    target = table_target(arguments.out, arguments.overwrite, near)
    try:
        done = _write(arguments, wanted, target)
        if not arguments.quiet:
            notify(f"kdissect: {', '.join(wanted)} written to {arguments.out}")
        return done
    finally:
        target.abandon()


def _check_overwritten(out: str, overwrite: bool) -> None:
    """Raise OutputError if a directory to be overwritten holds something that no export wrote."""
    folder = Path(local_path(out))
    if is_uri(out) or not overwrite or not folder.is_dir():
        return
    for name in sorted(path.name for path in folder.iterdir()):
        if name.partition(".")[0] not in EVERY_TABLE:
            raise OutputError(f"{folder} holds {readable(name)}, which is no table: choose another directory")


def _export_to_standard_output(arguments: argparse.Namespace, wanted: "Sequence[str]") -> int:
    """Write one table to standard output, when it is complete."""
    if len(wanted) != 1 or arguments.format == TableFormat.PARQUET:
        raise UsageError("--out - takes one --table, and --format csv or jsonl")
    arguments.one_file = True
    with ScratchDirectory() as scratch:
        target = TableDirectory(scratch / "tables")
        try:
            done = _write(arguments, wanted, target)
            with (scratch / "tables" / f"{wanted[0]}.{arguments.format}").open("rb") as rows:
                shutil.copyfileobj(rows, sys.stdout.buffer)
            return done
        finally:
            target.abandon()


def _write(
    arguments: argparse.Namespace, wanted: "Sequence[str]", target: TableDirectory | TableStore
) -> int:
    """Write the tables. Return the exit code."""
    format = TableFormat(arguments.format)
    by_workers = _is_for_workers(arguments, wanted, format)
    with analysis_run(arguments, kind=RunKind.RDD if by_workers else RunKind.SQL) as run:
        if isinstance(target, TableDirectory) and by_workers:
            _have_workers_write(run, arguments, wanted, target)
            return run.exit_code()
        session = run.engine.session()

        from kdissect.spark import table_jobs
        from kdissect.spark.progress import JobProgress

        finish = FINISH.get(format)
        frames = report_frames(run, arguments, session, wanted, finish)
        own = [table for table in wanted if table in ROW_TABLES]
        with reading_job(run, arguments.quiet):
            tables = (table_jobs.tables(session, run.work, own, finish) if own else {}) | frames
        with JobProgress(run.engine.context(), arguments.quiet):
            if arguments.times == "iso":
                tables = {name: _with_time_texts(name, frame) for name, frame in tables.items()}
            if isinstance(target, TableDirectory):
                target.write(tables, format, arguments.one_file)
            else:
                target.write(tables, format)
        return run.exit_code()


def _is_for_workers(arguments: argparse.Namespace, wanted: "Sequence[str]", format: TableFormat) -> bool:
    """Return whether Spark's workers can write the tables as they are, to this machine."""
    as_they_are = format is TableFormat.PARQUET and not arguments.one_file and arguments.times != "iso"
    return (
        as_they_are
        and SparkSettings(master=arguments.master).local
        and all(table in ROW_TABLES for table in wanted)
    )


def _have_workers_write(
    run: AnalysisRun, arguments: argparse.Namespace, wanted: "Sequence[str]", target: TableDirectory
) -> None:
    from kdissect.spark import table_jobs

    with reading_job(run, arguments.quiet) as spark:
        target.fill(partial(table_jobs.write_tables, spark, run.work, wanted))


def _with_time_texts(name: str, frame: Any) -> Any:
    from kdissect.report.build.incident_tables import REPORT_COLUMNS
    from kdissect.spark.table_columns import with_time_texts
    from kdissect.tables.schemas import COLUMNS, RECORD_COLUMNS

    return with_time_texts(frame, {**COLUMNS, "records": RECORD_COLUMNS, **REPORT_COLUMNS}[name])
