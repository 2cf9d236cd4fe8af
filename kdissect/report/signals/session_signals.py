"""The signal `sessions_expired`: servers cut off a client each time that its login is too old.

A listener may bound how long a login counts (connections.max.reauth.ms, KIP-368). A client that logs in again
on the same connection goes on. The connection of one that does not is closed at the first request after
that time, which gets no response. So the connections of such a client all end at one age, each in a request.
"""

from collections.abc import Iterator

import numpy as np

from kdissect.array_types import Int64s
from kdissect.report.findings.connection_evidence import chosen_evidence
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.login_signals import identities
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.wording import counted, listed
from kdissect.text import format_clock, format_duration

SECOND = 10**9
SESSION_KINDS = (
    SignalKind("sessions_expired", "servers cut off a client whose login is too old", SignalCounts.CUT),
)
REPEATED, AT_ONCE_NS, LEAST_NS = 3, SECOND, SECOND
"""So many connections end so shortly after a request, each at this age at least."""

ALIKE = 1.5
"""Ages of which the longest is at most so many times the shortest come from one limit."""

AGAIN_NS = 10 * SECOND
NAMED = 3


def session_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield one signal for each client whose connections servers end at one age, in a request."""
    columns, facts = context.facts.columns, context.connections
    asked = [
        one.location.connection or 0
        for one in context.rules.of_kind("unanswered")
        if one.closed_ns is not None and one.closed_ns - one.last_ns <= AT_ONCE_NS
    ]
    cut = facts.by_server & facts.ends & columns.equals("opened", "handshake")
    cut &= columns.equals("sasl_outcome", "succeeded") & (columns.ints("sasl_reauthentications") == 0)
    cut &= np.isin(context.facts.numbers, asked) & (facts.closed_ns - facts.first_ns >= LEAST_NS)
    for client in np.unique(facts.client[cut]).tolist():
        rows = np.flatnonzero(cut & (facts.client == client))
        ages = facts.closed_ns[rows] - facts.first_ns[rows]
        if len(rows) >= REPEATED and ages.max() <= ALIKE * ages.min() and _took_turns(context, rows):
            yield _expired(context, rows, int(np.median(ages)))


def _took_turns(context: SignalContext, rows: Int64s) -> bool:
    """Return whether the connections were closed at several times: a server that ends closes all at once."""
    closed = np.sort(context.connections.closed_ns[rows])
    return int(np.count_nonzero(np.diff(closed) >= SECOND)) >= REPEATED - 1


def _expired(context: SignalContext, rows: Int64s, age_ns: int) -> Signal:
    facts = context.connections
    client = context.client_names[int(facts.client[rows[0]])]
    begin, last = int(facts.closed_ns[rows].min()), int(facts.closed_ns[rows].max())
    numbers = context.facts.numbers[rows].tolist()
    mechanisms, users = (identities(context, name, numbers) for name in ("sasl_mechanism", "sasl_user"))
    identity = "; ".join([f"SASL {listed(mechanisms, NAMED)}", *(f"user {user}" for user in users[:NAMED])])
    servers = [context.server_names[number] for number in np.unique(facts.server[rows]).tolist()]
    return make_signal(
        "sessions_expired",
        (SubjectKind.CLIENT, client),
        (begin, None if context.end_ns - last < max(AGAIN_NS, age_ns) else last),
        f"{client} ({identity}) is cut off each time that its login is {format_duration(age_ns)} old, since "
        f"{format_clock(begin)}: {listed(servers, NAMED)} closed {counted(len(rows), 'connection')} in a "
        "request, and the client had not logged in again on any of them",
        measures={"connections": len(rows), "age_ns": age_ns, "lasted_ns": last - begin},
        servers=servers,
        clients=[client],
        requests=len(rows),
        evidence=[chosen_evidence(context.rules, client, "closed when the login was too old", rows)],
    )
