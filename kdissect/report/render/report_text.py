"""A report as text: the capture, incidents, findings, the profile, quality; in full, all rankings too.

Every line fits the width of the terminal, and names from the capture are escaped. An incident has a headline,
then its consequences; in full, also the reasons, and the next thing to look at. The last section has gaps and
uncertainties, warnings, and the marks in the tables.
"""

from dataclasses import replace

from kdissect.report.model.call_figures import Figures
from kdissect.report.model.incidents import Incident
from kdissect.report.model.summary import ProfileBy, QualityCounter, Summary
from kdissect.report.render.error_tables import (
    errors,
    faults,
    throttling,
    unanswered,
)
from kdissect.report.render.finding_text import INDENT, LABEL_WIDTH, STYLES, findings
from kdissect.report.render.header import header
from kdissect.report.render.profile_table import profile
from kdissect.report.render.ranking_tables import (
    api_versions,
    brokers,
    clients,
    idle_waits,
    topics,
)
from kdissect.report.render.table import heading
from kdissect.report.render.terminal import BOLD, DIM, YELLOW, Terminal
from kdissect.report.wording import counted, listed
from kdissect.text import fold, format_count, format_duration, format_share, format_size, spans_midnight

CONSEQUENCES_IN_SHORT = 3
LINES_IN_SHORT = 12
"""Lines of incidents that leave room for the rest on one screen; the first incident is always shown."""

CLIENTS_NAMED = 3
ERRORS_NAMED = 2


def incidents(summary: Summary, terminal: Terminal) -> list[str]:
    """Return the lines of incidents, the greatest impact first; no lines if there are none."""
    if not summary.incidents:
        return []
    lines = [heading("Incidents", "greatest impact first", terminal)]
    for at, incident in enumerate(summary.incidents):
        more = _incident(incident, terminal)
        if at and not terminal.full and len(lines) + len(more) > LINES_IN_SHORT:
            left = counted(len(summary.incidents) - at, "more incident")
            return [*lines, INDENT + terminal.paint(terminal.show(f"… and {left}: --full"), DIM)]
        lines += more
    return lines


def _incident(incident: Incident, terminal: Terminal) -> list[str]:
    style = STYLES[incident.severity]
    first, *rest = _sentence(incident.headline, terminal)
    label = terminal.paint(incident.severity.value.ljust(LABEL_WIDTH), style)
    lines = [f" {label}{terminal.paint(first, BOLD)}"]
    lines += [INDENT + terminal.paint(line, BOLD) for line in rest]
    consequences = [_impact(incident), *incident.consequences]
    shown = consequences if terminal.full else consequences[:CONSEQUENCES_IN_SHORT]
    for sentence in shown:
        lines += [INDENT + line for line in _sentence(f"- {sentence}", terminal)]
    if terminal.full:
        reasons = [line for text in _reasons(incident) for line in _sentence(text, terminal)]
        lines += [INDENT + terminal.paint(line, DIM) for line in reasons]
    return lines


def _impact(incident: Incident) -> str:
    impact = incident.impact
    parts = []
    if impact.clients:
        names = listed(impact.clients, CLIENTS_NAMED)
        parts.append(f"{counted(len(impact.clients), 'client')} affected ({names})")
    lasted = f"{format_duration(impact.wait_ns)} in all" if impact.wait_ns else ""
    if impact.delayed:
        parts.append(f"{counted(impact.delayed, 'request')} delayed{f' by {lasted}' if lasted else ''}")
    elif lasted:
        parts.append(f"waited {lasted}")
    if impact.failed:
        errors = f" with {listed(impact.errors, ERRORS_NAMED)}" if impact.errors else ""
        parts.append(f"{counted(impact.failed, 'request')} refused{errors}")
    if impact.cut:
        parts.append(f"{counted(impact.cut, 'request')} without a response")
    if impact.attempts:
        parts.append(f"{counted(impact.attempts, 'attempt')} to connect")
    return ", ".join(parts) or "no request was delayed"


def _reasons(incident: Incident) -> list[str]:
    reasons = [f"for: {reason}" for reason in incident.speaks_for]
    reasons += [f"against: {reason}" for reason in incident.speaks_against]
    return [*reasons, f"look at: {incident.next}"]


def _sentence(text: str, terminal: Terminal) -> list[str]:
    return fold(terminal.sentence(text), terminal.width - len(INDENT) - 2)


AMOUNT_WIDTH, SHARE_WIDTH = 9, 6
ENOUGH_FOR_P999 = 1000


def quality(summary: Summary, terminal: Terminal) -> list[str]:
    """Return the lines of quality counters, warnings and legend."""
    lines = []
    if summary.doubts:
        lines.append(heading("Capture quality", "what is missing or uncertain in this capture", terminal))
        lines += [line for counter in summary.doubts for line in _counter(counter, terminal)]
    for warning in summary.capture.warnings:
        folded = fold("! " + terminal.sentence(warning), terminal.width - 2)
        lines += [" " + terminal.paint(line, YELLOW) for line in folded]
    return lines + legend(summary, terminal)


def _counter(counter: QualityCounter, terminal: Terminal) -> list[str]:
    is_size = counter.name.endswith("bytes")
    amount = format_size(counter.count) if is_size else format_count(counter.count)
    share = format_share(counter.count / counter.of) if counter.of else ""
    indent = AMOUNT_WIDTH + SHARE_WIDTH + 4
    first, *rest = fold(terminal.sentence(counter.means), terminal.width - indent - 1)
    painted = terminal.paint(amount.rjust(AMOUNT_WIDTH), YELLOW)
    figures = f" {painted} {terminal.paint(share.rjust(SHARE_WIDTH), DIM)}"
    return [f"{figures}  {first}", *(" " * indent + line for line in rest)]


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
    return [" " + terminal.paint(line, DIM) for mark in marks for line in fold(mark, terminal.width - 2)]


ONE_SCREEN = (header, incidents, findings, profile, legend)
EVERYTHING = (
    header,
    incidents,
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
    """Return the report as text that ends with a newline."""
    capture = summary.capture
    terminal = replace(terminal, dated=spans_midnight(capture.first_time_ns, capture.last_time_ns))
    sections = EVERYTHING if terminal.full else ONE_SCREEN
    blocks = [section(summary, terminal) for section in sections]
    apart = "\n\n" if terminal.full else "\n"
    return apart.join("\n".join(lines) for lines in blocks if lines) + "\n"
