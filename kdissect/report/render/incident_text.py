"""Incidents as text: a headline each, then what it led to; in full, also why, and what to look at next."""

import textwrap

from kdissect.report.model.incidents import Incident
from kdissect.report.model.summary import Summary
from kdissect.report.render.finding_text import INDENT, LABEL_WIDTH, STYLES
from kdissect.report.render.table import heading
from kdissect.report.render.terminal import BOLD, DIM, Terminal
from kdissect.report.wording import counted, listed
from kdissect.text import format_duration

CONSEQUENCES_IN_SHORT = 3
LINES_IN_SHORT = 12
"""Lines of incidents that leave room for the rest on one screen; the first incident is always shown."""

CLIENTS_NAMED = 3


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
    first, *rest = _folded(incident.headline, terminal)
    label = terminal.paint(incident.severity.value.ljust(LABEL_WIDTH), style)
    lines = [f" {label}{terminal.paint(first, BOLD)}"]
    lines += [INDENT + terminal.paint(line, BOLD) for line in rest]
    consequences = [_impact(incident), *incident.consequences]
    shown = consequences if terminal.full else consequences[:CONSEQUENCES_IN_SHORT]
    for sentence in shown:
        lines += [INDENT + line for line in _folded(f"- {sentence}", terminal)]
    if terminal.full:
        reasons = [line for text in _reasons(incident) for line in _folded(text, terminal)]
        lines += [INDENT + terminal.paint(line, DIM) for line in reasons]
    return lines


def _impact(incident: Incident) -> str:
    impact = incident.impact
    parts = []
    if impact.clients:
        names = listed(impact.clients, CLIENTS_NAMED)
        parts.append(f"{counted(len(impact.clients), 'client')} affected ({names})")
    if impact.requests:
        parts.append(f"{counted(impact.requests, 'request')} delayed or failed")
    if impact.wait_ns:
        parts.append(f"{format_duration(impact.wait_ns)} of waiting in all")
    return ", ".join(parts) or "no request was delayed"


def _reasons(incident: Incident) -> list[str]:
    reasons = [f"for: {reason}" for reason in incident.speaks_for]
    reasons += [f"against: {reason}" for reason in incident.speaks_against]
    return [*reasons, f"look at: {incident.next}"]


def _folded(text: str, terminal: Terminal) -> list[str]:
    return textwrap.wrap(terminal.show(terminal.escape(text)), terminal.width - len(INDENT) - 2)
