"""`kdissect analyze`: captures in, a report out."""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from kdissect.cli.work import NothingToReport, nothing_found, prepared
from kdissect.pipeline.tabledir import OutputRefused

PAPER_WIDTH = 120  # columns of report.txt


def analyze(chosen: argparse.Namespace) -> None:
    """Run the command."""
    folder = usable_folder(Path(chosen.out)) if chosen.out else None
    with prepared(chosen) as ready:
        context = ready.engine.context()

        from kdissect.pipeline import jobs
        from kdissect.pipeline.facts import capture_facts
        from kdissect.pipeline.progress import Progress
        from kdissect.report.compose import compose
        from kdissect.report.json import to_json
        from kdissect.report.layout import Terminal
        from kdissect.report.text import render, terminal_of

        with Progress(context, chosen.quiet):
            analysis = jobs.analyze(context, ready.work)
        summary = compose(analysis.partial, capture_facts(ready.survey, analysis.counts))
        connections = summary.connections
        kafka = sum(row.connections for row in connections.protocols if row.protocol.startswith("kafka"))
        if why := nothing_found(ready.survey, analysis.counts, connections.count, kafka, ready.work.ports):
            raise NothingToReport(why)
        as_json = to_json(summary) + "\n"
        sys.stdout.write(as_json if chosen.format == "json" else render(summary, terminal_of(sys.stdout)))
        sys.stdout.flush()
        if folder:
            write_whole(folder / "report.json", as_json)
            write_whole(
                folder / "report.txt", render(summary, Terminal(PAPER_WIDTH, colour=False, unicode=True))
            )


def usable_folder(folder: Path) -> Path:
    """Make the folder and try to write there; raise OutputRefused if that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise OutputRefused.of(folder, error) from None


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is either the old or the new one, never half of either."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, "utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
