"""`kdissect ready`: who would fail on a newer Kafka."""

import argparse
import json
import sys

from kdissect.cli.main import HELD
from kdissect.cli.reporting import reported
from kdissect.cli.work import prepared


def ready(chosen: argparse.Namespace) -> int:
    """Run the command; exit with 3 if something breaks."""
    with prepared(chosen) as work:
        found = reported(work, chosen)

        from kdissect.report.json import to_plain
        from kdissect.report.readiness import Verdict, readiness, render
        from kdissect.report.text import terminal_of

        answer = readiness(found.partial, chosen.release)
        if chosen.format == "json":
            sys.stdout.write(json.dumps(to_plain(answer), indent=2) + "\n")
        else:
            sys.stdout.write(render(answer, terminal_of(sys.stdout)))
        return HELD if any(row.verdict is Verdict.BREAKS for row in answer.obstacles) else 0
