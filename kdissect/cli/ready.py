"""`kdissect ready`: who would fail on a newer Kafka."""

import argparse
import json
import sys

from kdissect.cli.context import prepared
from kdissect.cli.report_build import reported
from kdissect.errors import ExitCode


def ready(chosen: argparse.Namespace) -> int:
    """Run the command; exit with 3 if something breaks."""
    with prepared(chosen) as work:
        found = reported(work, chosen)

        from kdissect.report.build.check_upgrade import (
            UpgradeVerdict,
            check_upgrade,
            render,
        )
        from kdissect.report.render.json import to_plain
        from kdissect.report.render.terminal import terminal_of

        answer = check_upgrade(found.partial, chosen.release)
        if chosen.format == "json":
            sys.stdout.write(json.dumps(to_plain(answer), indent=2) + "\n")
        else:
            sys.stdout.write(render(answer, terminal_of(sys.stdout)))
        return (
            ExitCode.CONDITION_MET
            if any(row.verdict is UpgradeVerdict.BREAKS for row in answer.obstacles)
            else 0
        )
