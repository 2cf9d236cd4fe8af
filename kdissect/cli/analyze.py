"""`kdissect analyze`: captures in, a report out."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kdissect.cli.context import (
    analysis_run,
    notify,
)
from kdissect.cli.outputs import output_file, output_folder, stop_printing
from kdissect.cli.report_build import ReportInput, report_input, signal_grid, time_grid
from kdissect.errors import ExitCode

if TYPE_CHECKING:
    from kdissect.report.model.summary import ProfileBy, Summary
    from kdissect.report.thresholds import Condition

PAPER_WIDTH = 120  # columns of report.txt


def analyze(arguments: argparse.Namespace) -> int:
    """Run the command."""
    conditions = fail_conditions(arguments.fail_on)
    folder = output_folder(arguments.out) if arguments.out else None
    page = output_file(arguments.html) if arguments.html else None
    with analysis_run(arguments, figures_only=True) as run:
        grid = time_grid(run) if page else None
        found = report_input(run, arguments, grid, signal_grid(run))

        from kdissect.report.model.summary import ProfileBy
        from kdissect.report.render.json import to_json
        from kdissect.report.render.report_text import render
        from kdissect.report.render.terminal import Terminal

        by = ProfileBy(arguments.by)
        summary = found.summary(by)
        print_report(summary, arguments)
        if folder:
            folder.write("report.json", to_json(summary) + "\n")
            folder.write("report.txt", render(summary, Terminal(PAPER_WIDTH, colour=False, unicode=True)))
        if page and grid:
            from kdissect.report.build.page.page_data import make_page_data
            from kdissect.report.render.html.page import render_page

            where, name = page
            where.write(name, render_page(make_page_data(summary, found.partial, grid)))
        return run.exit_code(judge(found, summary, by, conditions))


def fail_conditions(texts: Sequence[str]) -> "tuple[Condition[Summary], ...]":
    """Return the conditions of --fail-on. Raise UsageError for a name that does not exist."""
    if not texts:
        return ()
    from kdissect.report.summary_thresholds import SUMMARY_VOCABULARY
    from kdissect.report.thresholds import conditions

    return conditions(texts, SUMMARY_VOCABULARY)


def print_report(summary: "Summary", arguments: argparse.Namespace) -> None:
    """Print a report as --format, --full and --color want it.

    A reader that closes the pipe has seen enough of it, but files and conditions are still to follow.
    """
    from kdissect.report.render.json import to_json
    from kdissect.report.render.report_text import render
    from kdissect.report.render.terminal import terminal_of

    text = (
        to_json(summary) + "\n"
        if arguments.format == "json"
        else render(summary, terminal_of(sys.stdout, full=arguments.full, color=arguments.color))
    )
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        stop_printing()


def judge(
    found: ReportInput, summary: "Summary", by: "ProfileBy", conditions: "Sequence[Condition[Summary]]"
) -> ExitCode:
    """Print which conditions of --fail-on are met. Return the exit code.

    Conditions refer to the profile by API, which is built again only if another profile was shown.
    """
    from kdissect.report.model.summary import ProfileBy

    judged = summary if by is ProfileBy.API or not conditions else found.summary()
    sentences = [sentence for condition in conditions for sentence in condition.met(judged)]
    for sentence in sentences:
        notify(f"kdissect: {sentence}")
    return ExitCode.CONDITION_MET if sentences else ExitCode.DONE
