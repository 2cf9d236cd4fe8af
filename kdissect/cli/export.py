"""`kdissect export`: captures in, public tables out."""

import argparse

from kdissect.cli.context import prepared, say
from kdissect.cli.options import TABLES
from kdissect.spark.session import Settings
from kdissect.spark.table_writer import (
    FINISH,
    Format,
    target_at,
)


def export(chosen: argparse.Namespace) -> None:
    """Run the command."""
    wanted = [table for table in TABLES if table in chosen.table or "all" in chosen.table]
    target = target_at(chosen.out, chosen.overwrite, Settings(master=chosen.master).local)
    try:
        with prepared(chosen) as ready:
            session = ready.engine.session()

            from kdissect.spark import jobs
            from kdissect.spark.progress import Progress

            format = Format(chosen.format)
            with Progress(ready.engine.context(), chosen.quiet):
                target.write(jobs.tables(session, ready.work, wanted, FINISH.get(format)), format)
        if not chosen.quiet:
            say(f"kdissect: {', '.join(wanted)} written to {chosen.out}")
    finally:
        target.abandon()
