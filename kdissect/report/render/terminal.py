"""The report in a terminal: what was captured, findings, the profile, what the capture cannot tell; in full, all rankings too.

Every line fits the width. Names from the capture are escaped; a tilde marks percentiles of too few values, a question
mark figures of connections that the capture has not seen in full.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from typing import TextIO

from kdissect.report.model.summary import CaptureFacts, Summary
from kdissect.report.render.error_tables import (
    errors,
    faults,
    throttling,
    unanswered,
)
from kdissect.report.render.finding_text import findings
from kdissect.report.render.header import header
from kdissect.report.render.profile_table import profile
from kdissect.report.render.quality import legend, quality
from kdissect.report.render.ranking_table import (
    api_versions,
    brokers,
    clients,
    idle_waits,
    topics,
)
from kdissect.report.render.table import Terminal

NARROWEST, WIDEST = 60, 200
DAY_NS = 24 * 3600 * 10**9

ONE_SCREEN = (header, findings, profile, legend)
EVERYTHING = (
    header,
    findings,
    profile,
    api_versions,
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
    terminal = replace(terminal, dated=_has_midnight(summary.capture))
    sections = EVERYTHING if terminal.full else ONE_SCREEN
    blocks = [section(summary, terminal) for section in sections]
    apart = "\n\n" if terminal.full else "\n"
    return apart.join("\n".join(lines) for lines in blocks if lines) + "\n"


def _has_midnight(capture: CaptureFacts) -> bool:
    first, last = capture.first_time_ns, capture.last_time_ns
    return first is not None and last is not None and first // DAY_NS != last // DAY_NS


def terminal_of(
    stream: TextIO, environment: Mapping[str, str] = os.environ, *, full: bool = True
) -> Terminal:
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
        full=full,
    )


def _can_show(stream: TextIO, characters: str) -> bool:
    try:
        characters.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
