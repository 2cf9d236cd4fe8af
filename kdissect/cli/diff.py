"""`kdissect diff`: two captures, or two reports of `analyze`, against each other."""

import argparse
import json
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kdissect.cli.context import started, surveyed
from kdissect.cli.filter_options import told
from kdissect.cli.options import RANKINGS
from kdissect.cli.report_build import reported
from kdissect.errors import UsageError

MOST_JSON = 1 << 30
NEEDED = ("capture", "filters", "profile", "apis", "clients", "errors", "findings")


def diff(chosen: argparse.Namespace) -> None:
    """Run the command."""
    sides: list[Mapping[str, Any] | None] = [_saved(path) for path in (chosen.before, chosen.after)]
    captures = [path for path, side in zip((chosen.before, chosen.after), sides, strict=True) if side is None]
    for path, side in zip((chosen.before, chosen.after), sides, strict=True):
        if side is not None:
            _check_kept(path, side, chosen, captures)
    by = chosen.by or next((side["profile"]["by"] for side in sides if side is not None), RANKINGS[0])
    with ExitStack() as running:
        engine = running.enter_context(started(chosen, captures)) if captures else None

        from kdissect.report.build.compare import compare
        from kdissect.report.model.summary import ProfileBy
        from kdissect.report.render.comparison_text import render
        from kdissect.report.render.json import to_plain
        from kdissect.report.render.terminal import terminal_of

        for at, path in enumerate((chosen.before, chosen.after)):
            if sides[at] is None and engine is not None:
                found = reported(surveyed(engine, chosen, [path]), chosen, more_to_come=True)
                sides[at] = json.loads(json.dumps(to_plain(found.summary(ProfileBy(by)))))
    before, after = (side or {} for side in sides)
    if before["profile"]["by"] != after["profile"]["by"]:
        rankings = " and ".join(side["profile"]["by"] for side in (before, after))
        raise UsageError(f"the reports rank by {rankings}: make both with the same --by")
    compared = compare(before, after)
    if chosen.format == "json":
        sys.stdout.write(json.dumps(to_plain(compared), indent=2) + "\n")
    else:
        sys.stdout.write(render(compared, terminal_of(sys.stdout)))


def _check_kept(
    path: str, report: Mapping[str, Any], chosen: argparse.Namespace, captures: list[str]
) -> None:
    """Refuse what could only be done to a capture: a kept report stays as it was made."""
    if chosen.anonymize or chosen.anonymize_key is not None:
        raise UsageError(f"{path} keeps its names: --anonymize is for captures, so make the report with it")
    if chosen.by and chosen.by != report["profile"]["by"]:
        raise UsageError(f"{path} ranks by {report['profile']['by']}: make it with --by {chosen.by}")
    asked = told(chosen)
    kept = [(one["option"], tuple(one["values"])) for one in report["filters"]]
    if (asked or captures) and sorted(asked) != sorted(kept):
        spoken = ", ".join(f"{option} {value}" for option, values in kept for value in values) or "none"
        raise UsageError(f"{path} was made with other filters ({spoken}): a kept report is not narrowed")


def _saved(path: str) -> Mapping[str, Any] | None:
    """Give the report in a JSON file; None for what is no JSON, and so a capture or wrong."""
    file = Path(path)
    try:
        with file.open("rb") as opened:
            if opened.read(1) != b"{":
                return None
        report = json.loads(file.read_bytes())
    except OSError:
        return None  # said when it is opened as a capture
    except ValueError as wrong:
        raise UsageError(f"{path} is no JSON: {wrong}") from None

    from kdissect.report.model.summary import SCHEMA_VERSION

    if not isinstance(report, dict) or not all(name in report for name in NEEDED):
        raise UsageError(f"{path} is no report of kdissect analyze")
    if report.get("schema_version") != SCHEMA_VERSION:
        raise UsageError(
            f"{path} is a report of another version of kdissect ({report.get('schema_version')})"
        )
    return report
