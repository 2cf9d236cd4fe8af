"""Signals about connections that servers close by a limit, without a response.

    closed_at_once          connections of one host that servers closed before they answered anything
    large_requests_closed   connections of one client that servers close at each large request

A server closes at once what is beyond its limit for the address (max.connections.per.ip), and what it can
make nothing of. A proxy without a server behind it closes all that it accepts, which is `serving` 0. It may
have had one before, which is `served`. Both may close before the client sent anything. Connections whose
request had a version that brokers refuse are left out.

A server that reads a size above socket.request.max.bytes closes the connection, and answers nothing. Often
the client still sends then. So the size of such a request is not known, but how much was sent in vain is.
"""

from collections.abc import Iterator

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.protocol.api_keys import ApiKey
from kdissect.report.findings.connection_evidence import chosen_evidence
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.login_signals import closed_before_login, refused_versions
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.signal_tables import PACE
from kdissect.report.wording import counted, listed
from kdissect.text import format_clock, format_size

POLICY_KINDS = (
    SignalKind("closed_at_once", "servers close connections before they answer", SignalCounts.ATTEMPTS),
    SignalKind("large_requests_closed", "servers close connections at large requests", SignalCounts.CUT),
)

SECOND = 10**9
AT_ONCE_NS = SECOND
REPEATED = 5
LARGE_BYTES, LARGE_REPEATED = 64 << 10, 3
"""The least that a client sent for a request that may be too large, and how many times."""


def policy_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about limits of servers."""
    yield from _at_once(context)
    yield from _at_large_requests(context)


def _at_once(context: SignalContext) -> Iterator[Signal]:
    """Yield one signal for each client host whose connections servers close at once, again and again."""
    columns, facts = context.facts.columns, context.connections
    accepted = columns.present("server_rtt_ns") & (columns.ints("bytes_to_server") == 0)
    asked = columns.equals("protocol", "kafka") | accepted
    at_once = facts.by_server & facts.ends & asked & columns.equals("opened", "handshake")
    at_once &= (facts.closed_ns - facts.first_ns <= AT_ONCE_NS) & (columns.ints("responses") == 0)
    at_once &= columns.ints("bytes_to_client") == 0
    at_once &= ~refused_versions(context) & ~closed_before_login(context)
    for host in np.unique(facts.host[at_once]).tolist():
        rows = np.flatnonzero(at_once & (facts.host == host))
        if len(rows) >= REPEATED:
            yield _closed(context, rows)


def _closed(context: SignalContext, rows: Int64s) -> Signal:
    facts = context.connections
    host = context.facts.columns.arrow("client_host")[int(rows[0])].as_py() or "?"
    begin, last = int(facts.first_ns[rows].min()), int(facts.closed_ns[rows].max())
    closing = np.unique(facts.server[rows])
    answered = context.facts.columns.ints("responses") > 0
    served = np.unique(facts.server[answered])
    serving = np.unique(facts.server[answered & (facts.closed_ns > begin + AT_ONCE_NS)])
    servers = sorted({context.server_names[number] for number in closing.tolist()})
    to_the_end = context.end_ns - last < SECOND
    detail = "closed by the server before any response"
    return make_signal(
        "closed_at_once",
        (SubjectKind.HOST, host),
        (begin, None if to_the_end else last),
        f"{counted(len(rows), 'connection')} of host {host} to {counted(len(servers), 'server')} were closed "
        f"by the server before any response, from {format_clock(begin)} on",
        measures={
            "connections": len(rows),
            "servers": len(servers),
            "serving": int(np.isin(closing, serving).sum()),
            "served": int(np.isin(closing, served).sum()),
        },
        servers=servers,
        clients=context.clients_of(rows),
        requests=len(rows),
        evidence=[chosen_evidence(context.rules, host, detail, rows)],
    )


def _at_large_requests(context: SignalContext) -> Iterator[Signal]:
    """Yield one signal for each client whose connections servers close when it sends a large request.

    Nobody else's request of that size is answered, and the servers go on: one that ends closes all.
    """
    columns, facts = context.facts.columns, context.connections
    sent, unanswered = np.zeros(columns.rows, np.int64), context.rules.of_kind("unanswered")
    for one, row in zip(
        unanswered, context.facts.rows_of([one.location.connection for one in unanswered]), strict=True
    ):
        if row >= 0 and one.closed_ns is not None and one.closed_ns - one.last_ns <= AT_ONCE_NS:
            sent[row] = columns.ints("bytes_to_server")[row] // max(int(columns.ints("requests")[row]), 1)
    closed = facts.by_server & facts.ends & (sent >= LARGE_BYTES)
    for client in np.unique(facts.client[closed]).tolist():
        rows = np.flatnonzero(closed & (facts.client == client))
        smallest = int(sent[rows].min())
        if len(rows) >= LARGE_REPEATED and _largest_answered(context) < smallest and _went_on(context, rows):
            yield _too_large(context, client, rows, smallest)


def _largest_answered(context: SignalContext) -> int:
    """Return the size of the largest Produce that was answered, as the mean of a row of PACE."""
    pace = context.table(PACE)
    answered = (pace.ints("cell") >= 0) & (pace.ints("api_key") == ApiKey.PRODUCE)
    sizes = pace.ints("request_bytes")[answered] // np.maximum(pace.ints("exchanges")[answered], 1)
    return int(sizes.max(initial=0))


def _went_on(context: SignalContext, rows: Int64s) -> bool:
    """Return whether other connections of the servers were open when each of these was closed."""
    facts = context.connections

    def others(row: int) -> Bools:
        stayed: Bools = (
            facts.talks
            & (facts.server == facts.server[row])
            & (facts.first_ns < facts.closed_ns[row])
            & (facts.closed_ns > facts.closed_ns[row] + AT_ONCE_NS)
        )
        return stayed

    return all(others(row).any() for row in rows.tolist())


def _too_large(context: SignalContext, client: int, rows: Int64s, smallest: int) -> Signal:
    facts, name = context.connections, context.client_names[client]
    begin, last = int(facts.closed_ns[rows].min()), int(facts.closed_ns[rows].max())
    servers = sorted({context.server_names[number] for number in facts.server[rows].tolist()})
    return make_signal(
        "large_requests_closed",
        (SubjectKind.CLIENT, name),
        (begin, None if context.end_ns - last < 5 * SECOND else last),
        f"{listed(servers, 3)} closed {counted(len(rows), 'connection')} of {name} without an answer when it "
        f"had sent {format_size(smallest)} or more of a request, from {format_clock(begin)} on",
        measures={"connections": len(rows), "smallest_bytes": smallest},
        servers=servers,
        requests=len(rows),
        evidence=[chosen_evidence(context.rules, name, "closed by the server in a large request", rows)],
    )
