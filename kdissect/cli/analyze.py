"""`kdissect analyze`: captures in, a report out."""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kdissect.cli.asked import WrongQuestion
from kdissect.cli.main import HELD
from kdissect.cli.reporting import reported
from kdissect.cli.work import Ready, prepared, say
from kdissect.pipeline.tabledir import OutputRefused

if TYPE_CHECKING:
    from kdissect.report.conditions import Condition
    from kdissect.report.course.grid import Grid

PAPER_WIDTH = 120  # columns of report.txt


def analyze(chosen: argparse.Namespace) -> int:
    """Run the command."""
    conditions = conditions_of(chosen.fail_on)
    folder = usable_folder(Path(chosen.out)) if chosen.out else None
    page = usable_file(Path(chosen.html)) if chosen.html else None
    with prepared(chosen) as ready:
        grid = grid_of(ready) if page else None
        found = reported(ready, chosen, grid)

        from kdissect.report.json import to_json
        from kdissect.report.layout import Terminal
        from kdissect.report.summary import By
        from kdissect.report.text import render, terminal_of

        summary = found.summary(By(chosen.by))
        as_json = to_json(summary) + "\n"
        sys.stdout.write(
            as_json if chosen.format == "json" else render(summary, terminal_of(sys.stdout, full=chosen.full))
        )
        sys.stdout.flush()
        if folder:
            write_whole(folder / "report.json", as_json)
            write_whole(
                folder / "report.txt", render(summary, Terminal(PAPER_WIDTH, colour=False, unicode=True))
            )
        if page and grid:
            from kdissect.report.html.page import render_page

            write_whole(page, render_page(summary, found.partial, grid))
        held = [sentence for condition in conditions for sentence in condition.held(found.summary())]
        for sentence in held:
            say(f"kdissect: {sentence}")
        return HELD if held else 0


def conditions_of(texts: Sequence[str]) -> "list[Condition]":
    """Read what --fail-on was given; raise WrongQuestion for a name that does not exist."""
    if not texts:
        return []
    from kdissect.report.conditions import NoCondition, condition

    try:
        return [condition(text) for text in texts]
    except NoCondition as wrong:
        raise WrongQuestion(f"--fail-on: {wrong}") from None


def grid_of(ready: Ready) -> "Grid":
    """Give the steps of time that the page shows: of the span of the captures, or of the window that was asked for."""
    from kdissect.report.course.grid import grid_over

    found, choice = ready.survey, ready.work.treatment.choice
    first, last = found.earliest_time_ns or 0, found.latest_time_ns or 0
    if choice.since_ns is not None:
        first = min(max(first, choice.since_ns), last)
    if choice.until_ns is not None:
        last = max(min(last, choice.until_ns - 1), first)
    return grid_over(first, last)


def usable_file(path: Path) -> Path:
    """Give a path that a file can be written to; raise OutputRefused if it cannot."""
    if path.is_dir():
        raise OutputRefused(f"cannot write to {path}: it is a directory")
    usable_folder(path.parent)
    return path


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
