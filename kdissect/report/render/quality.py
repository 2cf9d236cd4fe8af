"""The last section: what the capture cannot tell, one line per doubt, and what the marks in the tables mean."""

import textwrap

from kdissect.report.model.summary import (
    Figures,
    Latency,
    ProfileBy,
    QualityCounter,
    Summary,
)
from kdissect.report.render.table import (
    DIM,
    YELLOW,
    Terminal,
    heading,
)
from kdissect.text import (
    display_width,
    format_count,
    format_share,
    format_size,
)

AMOUNT, SHARE = 9, 6


def quality(summary: Summary, terminal: Terminal) -> list[str]:
    """Give doubts, warnings and legend; nothing when there is nothing to say."""
    lines = []
    if summary.doubts:
        lines += [heading("Capture quality", "what this capture cannot tell", terminal)]
        lines += [line for doubt in summary.doubts for line in _lines(doubt, terminal)]
    for warning in summary.capture.warnings:
        lines += [
            " " + terminal.paint(line, YELLOW)
            for line in _folded("! " + terminal.captured(warning), terminal.width - 2)
        ]
    return lines + legend(summary, terminal)


def _lines(doubt: QualityCounter, terminal: Terminal) -> list[str]:
    amount = format_size(doubt.count) if doubt.name.endswith("bytes") else format_count(doubt.count)
    part = format_share(doubt.count / doubt.of) if doubt.of else ""
    indent = AMOUNT + SHARE + 4
    first, *rest = _folded(doubt.means, terminal.width - indent - 1)
    figures = f" {terminal.paint(amount.rjust(AMOUNT), YELLOW)} {terminal.paint(part.rjust(SHARE), DIM)}"
    return [f"{figures}  {first}", *(" " * indent + line for line in rest)]


def _folded(text: str, width: int) -> list[str]:
    wide = display_width(text) > len(text)
    return textwrap.wrap(text, width // 2 if wide else width) or [""]


def legend(summary: Summary, terminal: Terminal) -> list[str]:
    """Say what the marks in the tables mean, those that are there, and in short how to see more."""
    rows: list[Figures] = [row.figures for row in summary.apis]
    rows += [row.figures for row in summary.clients]
    rows += [row.figures for row in summary.brokers]
    waits: list[Latency] = [wait for figures in rows for wait in (figures.service, figures.idle) if wait]
    marks = []
    if any(wait.count < 1000 for wait in waits):
        marks.append("~ too few values: this percentile is the maximum")
    if any(figures.doubtful for figures in rows):
        marks.append("? rests on connections that were not captured in full")
    if not terminal.full and summary.totals.exchanges:
        marks.append(
            f"--full shows every section, --by {'|'.join(by for by in ProfileBy if by is not summary.profile.by)} ranks otherwise"
        )
    return [" " + terminal.paint(line, DIM) for mark in marks for line in _folded(mark, terminal.width - 2)]
