"""The report in a terminal: what was captured, then findings, then rankings, then what went wrong, then what the capture cannot tell.

Every line fits the width. Names from the capture are escaped; a tilde marks percentiles of too few values, a question
mark figures of connections that the capture has not seen in full.
"""

import os
import shutil
from collections.abc import Mapping
from typing import TextIO

from kdissect.report.finding_lines import findings
from kdissect.report.incidents import errors, faults, throttling, unanswered
from kdissect.report.layout import Terminal
from kdissect.report.opening import opening
from kdissect.report.quality import quality
from kdissect.report.summary import Summary
from kdissect.report.tabulation import brokers, clients, idle_waits, profile, topics

NARROWEST, WIDEST = 60, 200

SECTIONS = (
    opening,
    findings,
    profile,
    idle_waits,
    clients,
    brokers,
    topics,
    errors,
    unanswered,
    throttling,
    faults,
    quality,
)


def render(summary: Summary, terminal: Terminal) -> str:
    """Give the report as text that ends with a newline."""
    blocks = [section(summary, terminal) for section in SECTIONS]
    return "\n\n".join("\n".join(lines) for lines in blocks if lines) + "\n"


def terminal_of(stream: TextIO, environment: Mapping[str, str] = os.environ) -> Terminal:
    """Give what a stream can show: its width if it is a terminal, colours unless NO_COLOR or TERM=dumb, UTF-8 or not."""
    is_terminal = stream.isatty()
    columns = (
        shutil.get_terminal_size((100, 24)).columns if is_terminal or environment.get("COLUMNS") else 120
    )
    plain = bool(environment.get("NO_COLOR")) or environment.get("TERM") == "dumb"
    return Terminal(
        width=min(max(columns, NARROWEST), WIDEST),
        colour=is_terminal and not plain,
        unicode=_can_show(stream, "µ·…→─✓▁█"),
    )


def _can_show(stream: TextIO, characters: str) -> bool:
    try:
        characters.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
