"""Findings as text: a sentence each, most severe first, then evidence and what to look at next."""

from kdissect.report.model.findings import Evidence, Finding, Severity
from kdissect.report.model.summary import Summary
from kdissect.report.render.table import heading
from kdissect.report.render.terminal import BOLD, DIM, GREEN, RED, YELLOW, Terminal
from kdissect.report.wording import counted
from kdissect.text import display_width, fold, format_count, truncate

STYLES = {Severity.CRITICAL: f"{BOLD};{RED}", Severity.WARNING: YELLOW, Severity.NOTE: DIM}
EVIDENCE_SHOWN = {Severity.CRITICAL: 4, Severity.WARNING: 3, Severity.NOTE: 1}
EVIDENCE_IN_SHORT = {Severity.CRITICAL: 2, Severity.WARNING: 1, Severity.NOTE: 0}
LINES_IN_SHORT, LINES_BESIDE_INCIDENTS = 16, 5
"""Lines of findings that leave room for the rest on one screen; what does not fit is counted."""

LABEL_WIDTH = 9
INDENT = " " * (LABEL_WIDTH + 1)


def findings(summary: Summary, terminal: Terminal) -> list[str]:
    """Return the lines of findings, or that there are none; no lines without exchanges."""
    if not summary.totals.exchanges:
        return []
    lines = [heading("Findings", "most severe first", terminal)]
    shown = [row for row in summary.findings if terminal.full or row.incident is None]
    if not shown:
        return [] if summary.incidents else [*lines, " " + terminal.paint("no problems found", GREEN)]
    for at, finding in enumerate(shown):
        more = _in_full(finding, terminal) if terminal.full else _in_short(finding, terminal)
        room = LINES_BESIDE_INCIDENTS if summary.incidents else LINES_IN_SHORT
        if not terminal.full and len(lines) + len(more) > room:
            left = counted(len(shown) - at, "more finding")
            return [*lines, INDENT + terminal.paint(terminal.show(f"… and {left}: --full"), DIM)]
        lines += more
    return lines


def _title(finding: Finding, terminal: Terminal) -> list[str]:
    style = STYLES[finding.severity]
    when = f" (from {terminal.clock(finding.first_time_ns)})" if finding.first_time_ns is not None else ""
    first, *rest = _folded(finding.title + when, terminal)
    label = terminal.paint(finding.severity.value.ljust(LABEL_WIDTH), style)
    return [f" {label}{terminal.paint(first, BOLD)}", *(INDENT + terminal.paint(line, BOLD) for line in rest)]


def _in_short(finding: Finding, terminal: Terminal) -> list[str]:
    lines = _title(finding, terminal)
    for row in finding.evidence[: EVIDENCE_IN_SHORT[finding.severity]]:
        lines += _evidence(row, terminal)
    return lines


def _in_full(finding: Finding, terminal: Terminal) -> list[str]:
    lines = _title(finding, terminal)
    shown = finding.evidence[: terminal.row_limit(EVIDENCE_SHOWN[finding.severity])]
    for row in shown:
        lines += _evidence(row, terminal)
    left = len(finding.evidence) - len(shown) + finding.evidence_omitted
    more = f"… and {format_count(left)} more; " if left else ""
    text = f"{more}look at: {finding.next}"
    return lines + [INDENT + terminal.paint(line, DIM) for line in _folded(text, terminal)]


def _evidence(row: Evidence, terminal: Terminal) -> list[str]:
    """Return who, how often, what, when and in which packet; long names lose their middle."""
    subject = truncate(terminal.escape(row.subject), _room(terminal) // 2, terminal.ellipsis)
    tail = terminal.sentence(f" ×{format_count(row.count)} · {row.detail}{_location(row, terminal)}")
    if display_width(subject) + display_width(tail) <= _room(terminal):
        return [INDENT + subject + tail]
    return [INDENT + subject, *(INDENT + "  " + line for line in _wrapped(tail.strip(), terminal))]


def _folded(text: str, terminal: Terminal) -> list[str]:
    """Return a sentence in lines; titles and details hold names from the capture."""
    return _wrapped(terminal.sentence(text), terminal)


def _wrapped(escaped: str, terminal: Terminal) -> list[str]:
    return fold(escaped, _room(terminal) - 2)


def _room(terminal: Terminal) -> int:
    return terminal.width - len(INDENT)


def _location(row: Evidence, terminal: Terminal) -> str:
    if row.place is None:
        return ""
    place = row.place
    packets = [
        f"{terminal.clock(time_ns)} #{packet}"
        for time_ns, packet in (
            (place.request_time_ns, place.request_packet),
            (place.response_time_ns, place.response_packet),
        )
        if time_ns is not None and packet is not None
    ]
    if packets:
        return f" · {' to '.join(packets)}"
    packet = place.request_packet if place.request_packet is not None else place.response_packet
    time = f" · {terminal.clock(row.first_time_ns)}"
    if packet is not None:
        return f"{time} #{packet}"
    return time if row.place.client_port is None else f"{time} port {row.place.client_port}"
