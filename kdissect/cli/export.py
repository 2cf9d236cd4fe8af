"""`kdissect export`: captures in, public tables out."""

import argparse

from kdissect.cli.context import analysis_run, notify
from kdissect.cli.options import REPORT_TABLES, TABLES
from kdissect.cli.report_build import report_frames
from kdissect.spark.session import SparkSettings
from kdissect.spark.table_writer import (
    FINISH,
    TableFormat,
    table_target,
)


def export(arguments: argparse.Namespace) -> None:
    """Run the command."""
    asked = [
        table
        for table in (*TABLES, *REPORT_TABLES)
        if table in arguments.table or ("all" in arguments.table and table in TABLES)
    ]
    wanted = [table for table in asked if table in TABLES]
    target = table_target(arguments.out, arguments.overwrite, SparkSettings(master=arguments.master).local)
    try:
        with analysis_run(arguments) as run:
            session = run.engine.session()

            from kdissect.spark import jobs
            from kdissect.spark.progress import JobProgress

            format = TableFormat(arguments.format)
            finish = FINISH.get(format)
            frames = report_frames(run, arguments, session, asked, finish)
            with JobProgress(run.engine.context(), arguments.quiet):
                target.write(
                    (jobs.tables(session, run.work, wanted, finish) if wanted else {}) | frames, format
                )
        if not arguments.quiet:
            notify(f"kdissect: {', '.join(asked)} written to {arguments.out}")
    finally:
        target.abandon()
