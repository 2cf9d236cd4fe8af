"""`kdissect ready`: who would fail on a newer Kafka."""

import argparse
import json
import sys

from kdissect.cli.context import analysis_run
from kdissect.cli.report_build import report_input
from kdissect.errors import ExitCode


def ready(arguments: argparse.Namespace) -> int:
    """Run the command. Return 3 if a client would break."""
    with analysis_run(arguments, figures_only=True) as run:
        found = report_input(run, arguments)

        from kdissect.report.build.check_upgrade import check_upgrade
        from kdissect.report.model.plain import to_plain
        from kdissect.report.model.upgrade_check import UpgradeVerdict
        from kdissect.report.render.terminal import terminal_of
        from kdissect.report.render.upgrade_text import render

        answer = check_upgrade(found.partial, arguments.release)
        if arguments.format == "json":
            sys.stdout.write(json.dumps(to_plain(answer), indent=2) + "\n")
        else:
            sys.stdout.write(render(answer, terminal_of(sys.stdout, color=arguments.color)))
        breaks = any(row.verdict is UpgradeVerdict.BREAKS for row in answer.obstacles)
        return run.exit_code(ExitCode.CONDITION_MET if breaks else ExitCode.DONE)
