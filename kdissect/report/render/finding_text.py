"""Findings in the terminal: a sentence each, most severe first, then the weightiest evidence and what to look at next."""

import textwrap

from kdissect.report.model.summary import (
    Evidence,
    Finding,
    Severity,
    Summary,
)
from kdissect.report.render.table import (
    BOLD,
    DIM,
    GREEN,
    RED,
    YELLOW,
    Terminal,
    heading,
)
from kdissect.text import display_width, format_count, truncate

STYLES = {Severity.CRITICAL: f"{BOLD};{RED}", Severity.WARNING: YELLOW, Severity.NOTE: DIM}
EVIDENCE_SHOWN = {Severity.CRITICAL: 4, Severity.WARNING: 3, Severity.NOTE: 1}
EVIDENCE_IN_SHORT = {Severity.CRITICAL: 2, Severity.WARNING: 1, Severity.NOTE: 0}
LINES_IN_SHORT = 16
"""Lines of findings that leave room for the rest on one screen; what does not fit is counted."""
LABEL = 9
INDENT = " " * (LABEL + 1)


def findings(summary: Summary, terminal: Terminal) -> list[str]:
    """Give the findings, or one line that there are none."""
    if not summary.totals.exchanges:
        return []
    lines = [heading("Findings", "most severe first", terminal)]
    for at, finding in enumerate(summary.findings):
        more = _finding(finding, terminal) if terminal.full else _in_short(finding, terminal)
        if not terminal.full and len(lines) + len(more) > LINES_IN_SHORT:
            left = len(summary.findings) - at
            rest = f"… and {format_count(left)} more finding{'s' if left > 1 else ''}: --full"
            return [*lines, INDENT + terminal.paint(terminal.own(rest), DIM)]
        lines += more
    return lines if summary.findings else [*lines, " " + terminal.paint("nothing wrong found", GREEN)]


def _title(finding: Finding, terminal: Terminal) -> list[str]:
    style = STYLES[finding.severity]
    when = f" (from {terminal.clock(finding.first_time_ns)})" if finding.first_time_ns is not None else ""
    first, *rest = _folded(finding.title + when, terminal)
    lines = [f" {terminal.paint(finding.severity.value.ljust(LABEL), style)}{terminal.paint(first, BOLD)}"]
    return lines + [INDENT + terminal.paint(line, BOLD) for line in rest]


def _in_short(finding: Finding, terminal: Terminal) -> list[str]:
    lines = _title(finding, terminal)
    for row in finding.evidence[: EVIDENCE_IN_SHORT[finding.severity]]:
        lines += _evidence(row, terminal)
    return lines


def _finding(finding: Finding, terminal: Terminal) -> list[str]:
    lines = _title(finding, terminal)
    shown = finding.evidence[: terminal.shown(EVIDENCE_SHOWN[finding.severity])]
    for row in shown:
        lines += _evidence(row, terminal)
    left = len(finding.evidence) - len(shown) + finding.evidence_omitted
    more = f"… and {format_count(left)} more; " if left else ""
    return lines + [
        INDENT + terminal.paint(line, DIM) for line in _folded(f"{more}see: {finding.next}", terminal)
    ]


def _evidence(row: Evidence, terminal: Terminal) -> list[str]:
    """Give who, how often, what, when and in which packet; of long names the middle goes."""
    subject = truncate(terminal.captured(row.subject), _room(terminal) // 2, terminal.ellipsis)
    times = "×" if terminal.unicode else "x"
    tail = terminal.own(f" {times}{format_count(row.count)} · {row.detail}{_where(row, terminal)}")
    if display_width(subject) + display_width(tail) <= _room(terminal):
        return [INDENT + subject + tail]
    return [INDENT + subject, *(INDENT + "  " + line for line in _folded(tail.strip(), terminal))]


def _folded(text: str, terminal: Terminal) -> list[str]:
    return textwrap.wrap(terminal.own(text), _room(terminal) - 2)


def _room(terminal: Terminal) -> int:
    return terminal.width - len(INDENT)


def _where(row: Evidence, terminal: Terminal) -> str:
    if row.place is None:
        return ""
    packet = row.place.request_packet if row.place.request_packet is not None else row.place.response_packet
    at = f" · {terminal.clock(row.first_time_ns)}"
    if packet is not None:
        return f"{at} #{packet}"
    return at if row.place.client_port is None else f"{at} port {row.place.client_port}"
