"""Signals about logins that fail without an error: the server closes the connection after a SASL token.

SaslHandshake 0 has no response for a failure, and some servers close in place of one that SaslAuthenticate
has. A single connection that a server closes while its client logs in tells nothing, as it may have stopped.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from kdissect.report.findings.connection_evidence import connection_evidence, select_connections
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.client_names import ClientFacts
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.wording import counted, listed
from kdissect.text import format_clock, format_duration

SECOND = 10**9
CLOSED_AGAIN = 2
"""So many logins that a server cut off were refused, if none of the client succeeded."""

NAMED = 3


def login_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield `credentials_refused` for clients whose logins end with a close by the server."""
    if not len(context.facts.numbers):
        return
    facts, columns, connections = ClientFacts(context), context.facts.columns, context.connections
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
        evidence=[connection_evidence(client, detail, select_connections(context.rules, chosen))],
    )


def identities(context: SignalContext, column: str, connections: Sequence[int]) -> list[str]:
    """Return the values of `sasl_mechanism` or `sasl_user` of connections, given by their numbers."""
    own = np.isin(context.facts.numbers, np.unique(np.array(connections, np.int64)))
    names = context.facts.columns.arrow(column).to_pylist()
    return sorted({name for name, is_own in zip(names, own.tolist(), strict=True) if is_own and name})
