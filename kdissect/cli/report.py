"""`kdissect report`: the last hour or day of a watch, from the figures that `watch --out` wrote.

No capture is read, and Spark does not start.
"""

import argparse
from typing import TYPE_CHECKING

from kdissect.cli.filter_options import duration_argument
from kdissect.cli.options import add_color, add_ranking
from kdissect.cli.outputs import output_file
from kdissect.errors import UserError

if TYPE_CHECKING:
    from kdissect.spark.watch.figure_reader import WatchFigures


def add_report(parser: argparse.ArgumentParser) -> None:
    """Add the options of `kdissect report`."""
    parser.description = (
        "Report on what a watch has seen, from the figures in its --out, without reading captures again."
    )
    parser.add_argument("place", metavar="DIR", help="directory or URI that `kdissect watch --out` writes to")
    parser.add_argument(
        "--last",
        type=duration_argument,
        metavar="TIME",
        help="only this much of the end, such as 1h: to the minute within three hours, before to the hour "
        "(default: all that is kept, a week)",
    )
    add_color(parser)
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="output format (default: text)"
    )
    add_ranking(parser)
    parser.add_argument("--json", metavar="FILE", help="also write the report as JSON to this file or URI")
    parser.add_argument(
        "--html", metavar="FILE", help="also write the report as one self-contained HTML page"
    )


def report(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from kdissect.cli.analyze import fail_conditions, judge, print_report

    conditions = fail_conditions(arguments.fail_on)
    page, as_json = (output_file(path) if path else None for path in (arguments.html, arguments.json))

    from kdissect.cli.report_build import ReportInput
    from kdissect.report.model.summary import ProfileBy
    from kdissect.report.render.json import to_json
    from kdissect.spark.watch.figure_reader import read_figures

    figures = read_figures(arguments.place, arguments.last)
    _check_traffic(figures, arguments.place)
    found = ReportInput(figures.partial, figures.facts, figures.filters)
    by = ProfileBy(arguments.by)
    summary = found.summary(by)
    print_report(summary, arguments)
    if as_json:
        where, name = as_json
        where.write(name, to_json(summary) + "\n")
    if page:
        from kdissect.report.build.page.page_data import make_page_data
        from kdissect.report.render.html.page import render_page

        where, name = page
        where.write(name, render_page(make_page_data(summary, figures.partial, figures.grids.page)))
    return judge(found, summary, by, conditions)


def _check_traffic(figures: "WatchFigures", place: str) -> None:
    """Raise UserError if there is nothing to report."""
    from kdissect.report.aggregate.partial_tables import CALLS

    if not figures.partial.count(CALLS):
        raise UserError(f"the watch of {place} has seen no Kafka traffic in this time")
