"""A report as text: the capture, incidents, findings, the profile, quality; in full, all rankings too.

Every line fits the width of the terminal, and names from the capture are escaped.
"""

from dataclasses import replace

from kdissect.report.model.summary import CaptureFacts, Summary
from kdissect.report.render.error_tables import (
    errors,
    faults,
    throttling,
    unanswered,
)
from kdissect.report.render.finding_text import findings
from kdissect.report.render.header import header
from kdissect.report.render.incident_text import incidents
from kdissect.report.render.profile_table import profile
from kdissect.report.render.quality import legend, quality
from kdissect.report.render.ranking_tables import (
    api_versions,
    brokers,
    clients,
    idle_waits,
    topics,
)
from kdissect.report.render.terminal import Terminal

DAY_NS = 24 * 3600 * 10**9

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
    terminal = replace(terminal, dated=_spans_midnight(summary.capture))
    sections = EVERYTHING if terminal.full else ONE_SCREEN
    blocks = [section(summary, terminal) for section in sections]
    apart = "\n\n" if terminal.full else "\n"
    return apart.join("\n".join(lines) for lines in blocks if lines) + "\n"


def _spans_midnight(capture: CaptureFacts) -> bool:
    first, last = capture.first_time_ns, capture.last_time_ns
    return first is not None and last is not None and first // DAY_NS != last // DAY_NS
