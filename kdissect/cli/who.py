"""`kdissect who`: the writers and readers of a topic."""

import argparse
import json
import sys

from kdissect.cli.context import prepared
from kdissect.cli.report_build import reported
from kdissect.errors import UsageError
from kdissect.text import escape

NAMES_TOLD = 5  # of other topics, where the one that was asked for is not there


def who(chosen: argparse.Namespace) -> None:
    """Run the command."""
    if (chosen.anonymize or chosen.anonymize_key) and any(sign in chosen.named for sign in "*?["):
        raise UsageError("with --anonymize a topic goes by its whole name")
    with prepared(chosen) as ready:
        summary = reported(ready, chosen).summary()

        from kdissect.report.build.find_topic_clients import find_topic_clients, render
        from kdissect.report.render.json import to_plain
        from kdissect.report.render.terminal import terminal_of

        hidden = ready.pseudonyms
        found = find_topic_clients(
            summary, (hidden.name("topic", chosen.named) or "") if hidden else chosen.named
        )
        if not found:
            names = [topic.topic for topic in summary.topics]
            more = len(names) - NAMES_TOLD
            told = ", ".join(map(escape, names[:NAMES_TOLD])) + (f" and {more:,} more" if more > 0 else "")
            seen = f"it has {told}" if names else "it names none"
            raise UsageError(f"no topic {chosen.named!r} in this capture ({seen})")
        if chosen.format == "json":
            sys.stdout.write(json.dumps([to_plain(ends) for ends in found], indent=2) + "\n")
        else:
            sys.stdout.write(render(found, terminal_of(sys.stdout)))
