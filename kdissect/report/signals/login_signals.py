"""Signals about logins that fail without an error, and those that are not begun.

    credentials_refused     the server closes the connection after a SASL token
    login_absent            the server closes connections of a client at its first request, without a login

SaslHandshake 0 has no response for a failure, and some servers close in place of one that SaslAuthenticate
has. A single connection that a server closes while its client logs in tells nothing, as it may have stopped.

A listener that wants a login answers ApiVersions, and closes at any other request before SASL has begun.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.protocol.api_keys import ApiKey
from kdissect.report.findings.connection_evidence import chosen_evidence
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.client_names import ClientFacts
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.wording import counted, listed
from kdissect.text import format_clock, format_duration

SECOND = 10**9
CLOSED_AGAIN = 2
"""So many logins that a server cut off were refused, if none of the client succeeded."""

NAMED = 3
LOGIN_KINDS = (
    SignalKind("login_absent", "servers close connections of a client without a login", SignalCounts.CUT),
)
BEFORE_LOGIN = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
"""Requests that a listener with SASL takes before the login."""

NO_LOGIN_REPEATED = 3
AT_ONCE_NS, LARGEST_BYTES = SECOND, 64 << 10
"""A connection that ends later, or after a larger request, has another reason."""


def login_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about logins."""
    if len(context.facts.numbers):
        yield from _cut_logins(context)
        yield from _without_login(context)


def _cut_logins(context: SignalContext) -> Iterator[Signal]:
    """Yield `credentials_refused` for clients whose logins end with a close by the server."""
    facts, columns, connections = context.shared(ClientFacts), context.facts.columns, context.connections
    raw = columns.equals("sasl_outcome", "failed") & ~columns.present("sasl_error")
    cut = columns.equals("sasl_outcome", "unfinished") & connections.ends & connections.by_server
    succeeded = columns.equals("sasl_outcome", "succeeded")
    for client in np.unique(connections.client[raw | cut]).tolist():
        own = connections.client == client
        again = int((cut & own).sum()) >= CLOSED_AGAIN and not (succeeded & own).any()
        rows = np.flatnonzero((raw | cut if again else raw) & own).tolist()
        if rows:
            yield _refused(context, facts, context.client_names[client], rows)


def _refused(context: SignalContext, facts: ClientFacts, client: str, rows: Sequence[int]) -> Signal:
    connections = context.connections
    chosen = np.array(rows)
    first, last = int(connections.first_ns[chosen].min()), int(connections.closed_ns[chosen].max())
    begin = facts.began(client, first)
    numbers = context.facts.numbers[chosen].tolist()
    mechanisms, users = (
        listed(identities(context, name, numbers), NAMED) for name in ("sasl_mechanism", "sasl_user")
    )
    identity = ", ".join(
        [*([f"SASL {mechanisms}"] if mechanisms else []), *([f"user {users}"] if users else [])]
    )
    servers = sorted({context.server_names[number] for number in connections.server[chosen].tolist()})
    detail = f"the server closed the connection after the {mechanisms or 'SASL'} token"
    closed = (
        f"closed {counted(len(rows), 'connection')} after {'its' if len(rows) == 1 else 'their'} SASL token"
    )
    return make_signal(
        "credentials_refused",
        (SubjectKind.CLIENT, client),
        (begin, None if context.end_ns - last < 10 * SECOND else last),
        f"{client} failed to authenticate{f' ({identity})' if identity else ''}: "
        f"{listed(servers, NAMED)} {closed}, from {format_clock(begin)} for {format_duration(last - begin)}",
        measures={"count": len(rows), "lasted_ns": last - begin},
        servers=servers,
        clients=[client],
        requests=len(rows),
        evidence=[chosen_evidence(context.rules, client, detail, chosen)],
    )


def refused_versions(context: SignalContext) -> Bools:
    """Return which connections had a request of a version that brokers refuse."""
    refused = [row.location.connection or 0 for row in context.rules.of_kind("refused_version")]
    found: Bools = np.isin(context.facts.numbers, refused)
    return found


def closed_before_login(context: SignalContext) -> Bools:
    """Return which connections a server closed at their first request other than ApiVersions.

    If it did not answer ApiVersions either, others must log in at that server.
    """
    columns, facts = context.facts.columns, context.connections
    asked = [
        one.location.connection or 0
        for one in context.rules.of_kind("unanswered")
        if one.api_key not in BEFORE_LOGIN
        and one.closed_ns is not None
        and one.closed_ns - one.last_ns <= AT_ONCE_NS
    ]
    logged_in = columns.present("sasl_mechanism")
    closed = facts.by_server & facts.ends & columns.equals("opened", "handshake") & ~logged_in
    closed &= np.isin(context.facts.numbers, asked) & ~refused_versions(context)
    closed &= (columns.ints("responses") <= 1) & (columns.ints("bytes_to_server") < LARGEST_BYTES)
    wants_login = np.isin(facts.server, np.unique(facts.server[logged_in]))
    found: Bools = closed & ((columns.ints("responses") == 1) | wants_login)
    return found


def _without_login(context: SignalContext) -> Iterator[Signal]:
    """Yield one signal for each client that servers close again and again, and never answer."""
    columns, facts = context.facts.columns, context.connections
    closed = closed_before_login(context)
    pairs = facts.client * len(context.server_names) + facts.server
    served = np.isin(pairs, pairs[facts.talks & (columns.ints("responses") > 1)])
    answered = np.unique(facts.client[closed & served])
    clients, counts = np.unique(facts.client[closed], return_counts=True)
    for client in clients[(counts >= NO_LOGIN_REPEATED) & ~np.isin(clients, answered)].tolist():
        yield _no_login(context, client, np.flatnonzero(closed & (facts.client == client)))


def _no_login(context: SignalContext, client: int, rows: Int64s) -> Signal:
    facts, name = context.connections, context.client_names[client]
    begin, last = int(facts.first_ns[rows].min()), int(facts.closed_ns[rows].max())
    servers = sorted({context.server_names[number] for number in facts.server[rows].tolist()})
    others = np.isin(facts.server, facts.server[rows])
    mechanisms = context.facts.columns.arrow("sasl_mechanism").filter(others).drop_null().unique().to_pylist()
    known = f"; others log in there by {listed(sorted(mechanisms), NAMED)}" if mechanisms else ""
    return make_signal(
        "login_absent",
        (SubjectKind.CLIENT, name),
        (begin, None if context.end_ns - last < 5 * SECOND else last),
        f"{name} sends requests without a login since {format_clock(begin)}: {listed(servers, NAMED)} closed "
        f"{counted(len(rows), 'connection')} of it at the first request after ApiVersions{known}",
        measures={"connections": len(rows), "others": len(mechanisms)},
        servers=servers,
        clients=[name],
        requests=len(rows),
        evidence=[chosen_evidence(context.rules, name, "closed by the server at a request", rows)],
    )


def identities(context: SignalContext, column: str, connections: Sequence[int]) -> list[str]:
    """Return the values of `sasl_mechanism` or `sasl_user` of connections, given by their numbers."""
    own = np.isin(context.facts.numbers, np.unique(np.array(connections, np.int64)))
    names = context.facts.columns.values(column)
    return sorted({name for name, is_own in zip(names, own.tolist(), strict=True) if is_own and name})
