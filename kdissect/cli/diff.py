"""`kdissect diff`: two captures, or two reports of `analyze`, against each other."""

import argparse
import json
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kdissect.cli.context import prepare_run, spark_engine
from kdissect.cli.filter_options import given_filters
from kdissect.cli.options import RANKINGS, anonymizes
from kdissect.cli.report_build import report_input, signal_grid
from kdissect.errors import ExitCode, UsageError

NEEDED = ("capture", "filters", "profile", "apis", "clients", "errors", "findings")


def diff(arguments: argparse.Namespace) -> int:
    """Run the command."""
    sides: list[Mapping[str, Any] | None] = [
        _saved_report(path) for path in (arguments.before, arguments.after)
    ]
    captures = [
        path for path, side in zip((arguments.before, arguments.after), sides, strict=True) if side is None
    ]
    for path, side in zip((arguments.before, arguments.after), sides, strict=True):
        if side is not None:
            _check_saved(path, side, arguments, captures)
    by = arguments.by or next((side["profile"]["by"] for side in sides if side is not None), RANKINGS[0])
    done: int = ExitCode.DONE
    with ExitStack() as running:
        engine = (
            running.enter_context(spark_engine(arguments, captures, figures_only=True)) if captures else None
        )

        from kdissect.report.build.compare import compare
        from kdissect.report.model.plain import to_plain
        from kdissect.report.model.summary import ProfileBy
        from kdissect.report.render.comparison_text import render
        from kdissect.report.render.terminal import terminal_of

        for at, path in enumerate((arguments.before, arguments.after)):
            if sides[at] is None and engine is not None:
                run = prepare_run(engine, arguments, [path])
                found = report_input(run, arguments, steps=signal_grid(run), more_to_come=True)
                done = run.exit_code(done)
                sides[at] = json.loads(json.dumps(to_plain(found.summary(ProfileBy(by)))))
    before, after = (side or {} for side in sides)
    if before["profile"]["by"] != after["profile"]["by"]:
        rankings = " and ".join(side["profile"]["by"] for side in (before, after))
        raise UsageError(f"the reports rank by {rankings}: make both reports with the same --by")
    compared = compare(before, after)
    if arguments.format == "json":
        sys.stdout.write(json.dumps(to_plain(compared), indent=2) + "\n")
    else:
        sys.stdout.write(render(compared, terminal_of(sys.stdout, color=arguments.color)))
    return done


def _check_saved(
    path: str, report: Mapping[str, Any], arguments: argparse.Namespace, captures: list[str]
) -> None:
    """Raise UsageError for options that cannot change a report that was saved."""
    if anonymizes(arguments):
        raise UsageError(
            f"{path} is a saved report; --anonymize applies to captures only, so make the report with it"
        )
    if arguments.by and arguments.by != report["profile"]["by"]:
        raise UsageError(
            f"{path} ranks by {report['profile']['by']}: make the report with --by {arguments.by}"
        )
    given = given_filters(arguments)
    kept = [(one["option"], tuple(one["values"])) for one in report["filters"]]
    if (given or captures) and sorted(given) != sorted(kept):
        shown = ", ".join(f"{option} {value}" for option, values in kept for value in values) or "none"
        raise UsageError(
            f"{path} was made with other filters ({shown}); filters cannot be applied to a saved report"
        )


def _saved_report(path: str) -> Mapping[str, Any] | None:
    """Return the report in a JSON file; None if the path is not a JSON object.

    Raise UsageError for another one.
    """
    file = Path(path)
    try:
        with file.open("rb") as opened:
            if opened.read(1) != b"{":
                return None
        report = json.loads(file.read_bytes())
    except OSError:
        return None  # reported when it is opened as a capture
    except ValueError as wrong:
        raise UsageError(f"{path} is not JSON: {wrong}") from None

    from kdissect.report.model.summary import SCHEMA_VERSION

    if not isinstance(report, dict) or not all(name in report for name in NEEDED):
        raise UsageError(f"{path} is not a report of kdissect analyze")
    if report.get("schema_version") != SCHEMA_VERSION:
        raise UsageError(
            f"{path} is a report of another version of kdissect ({report.get('schema_version')})"
        )
    return report
