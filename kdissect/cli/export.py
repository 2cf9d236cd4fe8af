"""`kdissect export`: captures in, public tables out."""

import argparse

from kdissect.cli.context import analysis_run, notify
from kdissect.cli.options import TABLES
from kdissect.spark.session import SparkSettings
from kdissect.spark.table_writer import (
    FINISH,
    TableFormat,
    table_target,
)


def export(arguments: argparse.Namespace) -> None:
    """Run the command."""
    wanted = [table for table in TABLES if table in arguments.table or "all" in arguments.table]
    target = table_target(arguments.out, arguments.overwrite, SparkSettings(master=arguments.master).local)
    try:
        with analysis_run(arguments) as run:
            session = run.engine.session()

            from kdissect.spark import jobs
            from kdissect.spark.progress import JobProgress

            format = TableFormat(arguments.format)
            with JobProgress(run.engine.context(), arguments.quiet):
                target.write(jobs.tables(session, run.work, wanted, FINISH.get(format)), format)
        if not arguments.quiet:
            notify(f"kdissect: {', '.join(wanted)} written to {arguments.out}")
    finally:
        target.abandon()
