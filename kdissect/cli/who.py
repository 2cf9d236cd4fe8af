"""`kdissect who`: the writers and readers of a topic."""

import argparse
import json
import sys

from kdissect.cli.context import analysis_run
from kdissect.cli.options import anonymizes
from kdissect.cli.report_build import report_input, signal_grid
from kdissect.errors import UsageError
from kdissect.text import escape

NAMES_LISTED = 5  # other topics, if the requested one is not in the capture


def who(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if anonymizes(arguments) and any(sign in arguments.named for sign in "*?["):
        raise UsageError("with --anonymize, TOPIC must be a full name without wildcards")
    with analysis_run(arguments, figures_only=True) as run:
        # Positions are counted by steps, and name topic ids that no response does.
        summary = report_input(run, arguments, steps=signal_grid(run)).summary()

        from kdissect.report.build.find_topic_clients import find_topic_clients
        from kdissect.report.model.plain import to_plain
        from kdissect.report.render.terminal import terminal_of
        from kdissect.report.render.topic_clients_text import render

        hidden = run.pseudonyms
        found = find_topic_clients(
            summary, (hidden.name("topic", arguments.named) or "") if hidden else arguments.named
        )
        if not found:
            names = [topic.topic for topic in summary.topics]
            more = len(names) - NAMES_LISTED
            listed = ", ".join(map(escape, names[:NAMES_LISTED])) + (
                f" and {more:,} more" if more > 0 else ""
            )
            seen = f"it has {listed}" if names else "it names none"
            raise UsageError(f"no topic {arguments.named!r} in this capture ({seen})")
        if arguments.format == "json":
            sys.stdout.write(json.dumps([to_plain(ends) for ends in found], indent=2) + "\n")
        else:
            sys.stdout.write(render(found, terminal_of(sys.stdout, color=arguments.color)))
        return run.exit_code()
