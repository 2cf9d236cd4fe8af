"""Signals from findings: each row of evidence is a dated fact about a client, a server or a topic.

The kind of such a signal is the name of the rule. So it is known by row what an incident explains, and a
finding is explained when all of its rows are.
"""

from collections.abc import Iterator

from kdissect.report.findings.rules import RULES
from kdissect.report.model.findings import Evidence, Finding, Severity
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.wording import client_text

ATTEMPTS = frozenset({"refused_connections", "connection_churn", "tls_failed"})
BUSY = frozenset({"empty_fetch_loop", "metadata_storm", "transactions_open"})
"""Requests that are needless or usual, and neither late nor refused."""

CUT = frozenset({"unanswered_cut", "unanswered_timeout"})
LATE = frozenset({"slow_broker", "behind_long_poll", "throttled"})
NO_ERROR = frozenset(
    {"rebalance_storm", "controller_moved", "clock_steps", "capture_loss", "old_message_format"}
)
COUNTS = (
    (CUT, SignalCounts.CUT),
    (ATTEMPTS, SignalCounts.ATTEMPTS),
    (BUSY, SignalCounts.NOTHING),
    (LATE, SignalCounts.WAITS),
    (NO_ERROR, SignalCounts.OTHER),
)


def _counts(name: str, severity: Severity) -> SignalCounts:
    other = SignalCounts.NOTHING if severity is Severity.NOTE else SignalCounts.ERRORS
    return next((counts for names, counts in COUNTS if name in names), other)


FINDING_KINDS = tuple(
    SignalKind(rule.name, f"finding {rule.name}", _counts(rule.name, rule.severity)) for rule in RULES
)
_COUNTS = {kind.name: kind.counts for kind in FINDING_KINDS}


def finding_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield one signal for each row of evidence of each finding."""
    for finding in context.found:
        for row in finding.evidence:
            if row.first_time_ns is not None:
                yield _signal(context, finding, row)


def _signal(context: SignalContext, finding: Finding, row: Evidence) -> Signal:
    place = row.place
    server = client = topic = None
    if place is not None:
        server = context.servers.name(place.server_host, place.server_port) if place.server_host else None
        if place.client_host is not None and place.client_id is not None:
            client = client_text(place.client_id, place.client_host)
        topic = place.topic
    subject = (
        (SubjectKind.CLIENT, client)
        if client
        else (SubjectKind.SERVER, server)
        if server
        else (SubjectKind.CAPTURE, row.subject)
    )
    return make_signal(
        finding.name,
        subject,
        (row.first_time_ns or 0, row.last_time_ns),
        f"{row.subject}: {row.detail}",
        measures={"count": row.count},
        servers=[server] if server else (),
        clients=[client] if client else (),
        topics=[topic] if topic else (),
        requests=0 if _COUNTS[finding.name] is SignalCounts.NOTHING else row.count,
        evidence=[row],
    )
