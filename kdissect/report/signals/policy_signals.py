"""Signals about connections that servers close as soon as they are open, without a response.

    closed_at_once   connections of one host that servers closed before they answered anything

A server does so with connections beyond its limit for the address (max.connections.per.ip), and with those it
can make nothing of. Connections whose request had a version that brokers refuse are left out.
"""

from collections.abc import Iterator

import numpy as np

from kdissect.report.aggregate.histogram import Ints
from kdissect.report.findings.connection_evidence import connection_evidence, select_connections
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.wording import counted
from kdissect.text import format_clock

POLICY_KINDS = (
    SignalKind("closed_at_once", "servers close connections before they answer", SignalCounts.ATTEMPTS),
)

SECOND = 10**9
AT_ONCE_NS = SECOND
REPEATED = 5


def policy_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield one signal for each client host whose connections servers close at once, again and again."""
    columns, facts = context.facts.columns, context.connections
    refused = {row.location.connection for row in context.rules.of_kind("refused_version")}
    numbers = columns.ints("connection").tolist()
    at_once = facts.by_server & columns.equals("protocol", "kafka") & columns.equals("opened", "handshake")
    at_once &= (facts.closed_ns - facts.first_ns <= AT_ONCE_NS) & (columns.ints("responses") == 0)
    at_once &= columns.ints("bytes_to_client") == 0
    at_once &= np.array([number not in refused for number in numbers], bool)
    for host in np.unique(facts.host[at_once]).tolist():
        rows = np.flatnonzero(at_once & (facts.host == host))
        if len(rows) >= REPEATED:
            yield _closed(context, rows)


def _closed(context: SignalContext, rows: Ints) -> Signal:
    facts = context.connections
    host = context.facts.columns.arrow("client_host")[int(rows[0])].as_py() or "?"
    begin, last = int(facts.first_ns[rows].min()), int(facts.closed_ns[rows].max())
    servers = sorted({context.server_names[number] for number in facts.server[rows].tolist()})
    to_the_end = context.end_ns - last < SECOND
    detail = "closed by the server before any response"
    return make_signal(
        "closed_at_once",
        (SubjectKind.HOST, host),
        (begin, None if to_the_end else last),
        f"{counted(len(rows), 'connection')} of host {host} to {counted(len(servers), 'server')} were closed "
        f"by the server before any response, from {format_clock(begin)} on",
        measures={"connections": len(rows), "servers": len(servers)},
        servers=servers,
        clients=context.clients_of(rows),
        requests=len(rows),
        evidence=[connection_evidence(host, detail, select_connections(context.rules, rows))],
    )
