"""`kdissect analyze`: captures in, a report out."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kdissect.cli.context import (
    Ready,
    prepared,
    say,
)
from kdissect.cli.outputs import usable_file, usable_folder
from kdissect.cli.report_build import reported
from kdissect.errors import ExitCode

if TYPE_CHECKING:
    from kdissect.report.model.summary import Summary
    from kdissect.report.thresholds import Condition
    from kdissect.report.timeline.grid import Grid

PAPER_WIDTH = 120  # columns of report.txt


def analyze(chosen: argparse.Namespace) -> int:
    """Run the command."""
    conditions = conditions_of(chosen.fail_on)
    folder = usable_folder(chosen.out) if chosen.out else None
    page = usable_file(chosen.html) if chosen.html else None
    with prepared(chosen) as ready:
        grid = grid_of(ready) if page else None
        found = reported(ready, chosen, grid)

        from kdissect.report.model.summary import ProfileBy
        from kdissect.report.render.json import to_json
        from kdissect.report.render.table import Terminal
        from kdissect.report.render.terminal import render, terminal_of

        by = ProfileBy(chosen.by)
        summary = found.summary(by)
        as_json = to_json(summary) + "\n"
        sys.stdout.write(
            as_json if chosen.format == "json" else render(summary, terminal_of(sys.stdout, full=chosen.full))
        )
        sys.stdout.flush()
        if folder:
            folder.write("report.json", as_json)
            folder.write("report.txt", render(summary, Terminal(PAPER_WIDTH, colour=False, unicode=True)))
        if page and grid:
            from kdissect.report.render.html.page import render_page

            where, name = page
            where.write(name, render_page(summary, found.partial, grid))
        # Limits are looked up in the profile by API, which is composed once more only where another one was shown.
        judged = summary if by is ProfileBy.API or not conditions else found.summary()
        sentences = [sentence for condition in conditions for sentence in condition.met(judged)]
        for sentence in sentences:
            say(f"kdissect: {sentence}")
        return ExitCode.CONDITION_MET if sentences else ExitCode.DONE


def conditions_of(texts: Sequence[str]) -> "tuple[Condition[Summary], ...]":
    """Return the conditions of --fail-on. Raise UsageError for a name that does not exist."""
    if not texts:
        return ()
    from kdissect.report.summary_thresholds import SUMMARY_VOCABULARY
    from kdissect.report.thresholds import conditions

    return conditions(texts, SUMMARY_VOCABULARY)


def grid_of(ready: Ready) -> "Grid":
    """Give the steps of time that the page shows: of the span of the captures, or of the window that was asked for."""
    from kdissect.report.timeline.grid import grid_over

    found, choice = ready.survey, ready.work.treatment.choice
    first, last = found.earliest_time_ns or 0, found.latest_time_ns or 0
    if choice.since_ns is not None:
        first = min(max(first, choice.since_ns), last)
    if choice.until_ns is not None:
        last = max(min(last, choice.until_ns - 1), first)
    return grid_over(first, last)
