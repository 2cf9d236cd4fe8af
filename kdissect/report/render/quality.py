"""The last section of a report: what is missing or uncertain, warnings, and the marks in the tables."""

import textwrap

from kdissect.report.model.summary import Figures, ProfileBy, QualityCounter, Summary
from kdissect.report.render.table import heading
from kdissect.report.render.terminal import DIM, YELLOW, Terminal
from kdissect.text import display_width, format_count, format_share, format_size

AMOUNT_WIDTH, SHARE_WIDTH = 9, 6
ENOUGH_FOR_P999 = 1000


def quality(summary: Summary, terminal: Terminal) -> list[str]:
    """Return the lines of quality counters, warnings and legend."""
    lines = []
    if summary.doubts:
        lines.append(heading("Capture quality", "what is missing or uncertain in this capture", terminal))
        lines += [line for counter in summary.doubts for line in _counter(counter, terminal)]
    for warning in summary.capture.warnings:
        folded = _folded("! " + terminal.escape(warning), terminal.width - 2)
        lines += [" " + terminal.paint(line, YELLOW) for line in folded]
    return lines + legend(summary, terminal)


def _counter(counter: QualityCounter, terminal: Terminal) -> list[str]:
    is_size = counter.name.endswith("bytes")
    amount = format_size(counter.count) if is_size else format_count(counter.count)
    share = format_share(counter.count / counter.of) if counter.of else ""
    indent = AMOUNT_WIDTH + SHARE_WIDTH + 4
    first, *rest = _folded(counter.means, terminal.width - indent - 1)
    painted = terminal.paint(amount.rjust(AMOUNT_WIDTH), YELLOW)
    figures = f" {painted} {terminal.paint(share.rjust(SHARE_WIDTH), DIM)}"
    return [f"{figures}  {first}", *(" " * indent + line for line in rest)]


def _folded(text: str, width: int) -> list[str]:
    """Return text in lines of a width; half of it where characters are two columns wide."""
    has_wide = display_width(text) > len(text)
    return textwrap.wrap(text, width // 2 if has_wide else width) or [""]


def legend(summary: Summary, terminal: Terminal) -> list[str]:
    """Return the meaning of the marks that the tables have, and in a short report how to see more."""
    rows: list[Figures] = [
        row.figures for rows in (summary.apis, summary.clients, summary.brokers) for row in rows
    ]
    latencies = [latency for row in rows for latency in (row.service, row.idle) if latency]
    marks = []
    if any(latency.count < ENOUGH_FOR_P999 for latency in latencies):
        marks.append("~ too few values: this percentile is the maximum")
    if any(row.doubtful for row in rows):
        marks.append("? rests on connections that were not captured in full")
    if not terminal.full and summary.totals.exchanges:
        others = "|".join(by for by in ProfileBy if by is not summary.profile.by)
        marks.append(f"--full shows every section, --by {others} changes the ranking")
    return [" " + terminal.paint(line, DIM) for mark in marks for line in _folded(mark, terminal.width - 2)]
