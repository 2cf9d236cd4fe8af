"""Large segments that never came to where the capture was made, though smaller ones of the same host did.

A capture behind the place of the loss shows no retransmission: the segments are not in it at all. But it
shows that bytes are missing in front of others, and that nobody acknowledges them. Bytes that only the
capture lost are acknowledged. In come the facts of connections, out go signals of the kind
`large_segments_stuck`.
"""

from collections.abc import Iterator

import numpy as np

from kdissect.array_types import Int64s
from kdissect.report.aggregate.partial_tables import CALLS
from kdissect.report.findings.connection_evidence import chosen_evidence
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.network_signals import host_name
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.wording import counted, listed
from kdissect.text import format_clock, format_size

SECOND = 10**9
STUCK_CONNECTIONS, SMALLEST_HOLE = 3, 500
"""So many connections of a host hang behind a hole of so many bytes."""

PEERS_NAMED = 2


def unseen_segments(context: SignalContext) -> Iterator[Signal]:
    """Yield one signal for each client's host with several connections that hang behind a hole."""
    columns, facts = context.facts.columns, context.connections
    stuck = context.facts.holes & facts.talks
    stuck &= columns.ints("lost_bytes") >= SMALLEST_HOLE
    for host in np.unique(facts.host[stuck]).tolist():
        rows = np.flatnonzero(stuck & (facts.host == host))
        passing = (facts.host == host) & facts.talks & ~context.facts.lossy & (columns.ints("responses") > 0)
        if len(rows) >= STUCK_CONNECTIONS and passing.any():
            yield _unseen(context, rows)


def _unseen(context: SignalContext, rows: Int64s) -> Signal:
    columns, facts = context.facts.columns, context.connections
    host = columns.arrow("client_host")[int(rows[0])].as_py() or "?"
    name = host_name(context, host)
    begin, last = int(last_answered_ns(context, rows).min()), int(facts.last_ns[rows].max())
    to_server = columns.ints("unacknowledged_bytes_to_server")[rows] >= columns.ints("lost_bytes")[rows]
    servers = [context.server_names[number] for number in np.unique(facts.server[rows]).tolist()]
    missing = int(columns.ints("lost_bytes")[rows].sum())
    return make_signal(
        "large_segments_stuck",
        (SubjectKind.HOST, name),
        (begin, None if last >= context.end_ns - 10 * SECOND else last),
        f"{counted(len(rows), 'connection')} between {name} and {listed(servers, PEERS_NAMED)} hang behind "
        f"{format_size(missing)} that never came from {format_clock(begin)} on, and that nobody acknowledged",
        measures={
            "connections": len(rows),
            "missing_bytes": missing,
            "stuck_from": int(to_server.sum()),
            "stuck_to": int((~to_server).sum()),
        },
        servers=servers,
        clients=context.clients_of(rows),
        requests=len(rows),
        evidence=[chosen_evidence(context.rules, name, "hangs behind a hole", rows)],
    )


def last_answered_ns(context: SignalContext, rows: Int64s) -> Int64s:
    """Return when the last response of each connection came, or else its first packet."""
    calls = context.table(CALLS)
    calls = calls.filter(calls.equals("status", "answered"))
    of = context.facts.rows(calls)
    last_ns = context.connections.first_ns.copy()
    np.maximum.at(last_ns, of[of >= 0], calls.ints("last_ns")[of >= 0])
    return last_ns[rows]
