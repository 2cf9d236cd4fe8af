"""Signals about connections that nobody opens or serves, or that end in place of an error.

attempts_unanswered      attempts of a host to connect get no answer, while its open connections go on
connections_unserved     a server accepts connections, and answers nothing on them, while it serves others
closed_after_acks_none   servers close the connections of a client that wants no acknowledgment (acks=0)

A firewall that lets no new connection pass, and a listener that has as many as it may have, look like clients
that hang. A broker cannot send an error to a producer with acks=0, so it closes the connection.
"""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from kdissect.array_types import Int64s
from kdissect.report.findings.connection_evidence import chosen_evidence
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.client_names import ClientFacts
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.wording import counted, listed
from kdissect.text import format_clock, format_duration

UNSERVED_KINDS = (
    SignalKind("attempts_unanswered", "attempts to connect get no answer", SignalCounts.ATTEMPTS),
    SignalKind("connections_unserved", "a server answers nothing on new connections", SignalCounts.WAITS),
    SignalKind("closed_after_acks_none", "connections of a client with acks=0 are closed", SignalCounts.CUT),
)

SECOND = 10**9
LEAST_ATTEMPTS, LEAST_UNSERVED, LEAST_CLOSED = 4, 3, 3
"""So many connections are no accident."""

UNANSWERED_NS = SECOND
"""An attempt that nobody answered for less may be answered after the end of the capture."""

UNSERVED_NS = 4 * SECOND
"""A server that takes so long for the first response of a connection does not serve it."""

GOES_ON_NS = 2 * SECOND
"""A connection that is seen this long after the first failure goes on."""

CLOSED_NS, LASTED_NS = SECOND, 2 * SECOND
"""A connection that ends this soon after a record ends since of it, if others do so for some seconds."""

NAMED = 3
ENDED_NS = 10 * SECOND
"""A signal that was seen this shortly before the end of the capture lasts to its end: clients back off."""


def unserved_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about connections that are not served."""
    if len(context.facts.numbers):
        yield from _unanswered(context)
        yield from _unserved(context)
        yield from _closed(context)


def _until(context: SignalContext, last_ns: int) -> int | None:
    return None if context.end_ns - last_ns < ENDED_NS else last_ns


def _grouped(of: Int64s, rows: Int64s) -> dict[int, Int64s]:
    """Return rows by what they belong to, in one pass: there may be as many hosts as connections."""
    order = rows[np.argsort(of[rows], kind="stable")]
    numbers, first = np.unique(of[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(order, first[1:]), strict=True)) if len(order) else {}


def _goes_on(context: SignalContext, own: Int64s, begin_ns: int) -> Int64s:
    """Return the connections among `own` that were open before a time and are used after it."""
    facts = context.connections
    served = context.facts.columns.ints("responses")[own] > 0
    open_before = (facts.first_ns[own] < begin_ns) & (facts.last_ns[own] > begin_ns + GOES_ON_NS)
    return own[served & open_before]


def _unanswered(context: SignalContext) -> Iterator[Signal]:
    columns, facts = context.facts.columns, context.connections
    silent = ~facts.talks & (columns.ints("bytes_to_client") == 0) & (columns.ints("bytes_to_server") == 0)
    silent &= columns.equals("opened", "handshake") & ~columns.present("server_rtt_ns") & ~facts.ends
    silent &= np.minimum(facts.last_ns, context.end_ns) <= context.end_ns - UNANSWERED_NS
    talking = _grouped(facts.host, np.flatnonzero(facts.talks))
    for host, rows in _grouped(facts.host, np.flatnonzero(silent)).items():
        if len(rows) < LEAST_ATTEMPTS or host not in talking:
            continue
        begin, own = int(facts.first_ns[rows].min()), talking[host]
        going_on = _goes_on(context, own[np.isin(facts.server[own], facts.server[rows])], begin)
        if len(going_on) and not (facts.first_ns[own] >= begin).any():
            yield _attempts(context, rows, going_on)


def _attempts(context: SignalContext, rows: Int64s, going_on: Int64s) -> Signal:
    facts = context.connections
    host = context.facts.columns.arrow("client_host")[int(rows[0])].as_py()
    servers = sorted({context.server_names[number] for number in facts.server[rows].tolist()})
    begin, last = int(facts.first_ns[rows].min()), int(facts.last_ns[rows].max())
    attempts, others = counted(len(rows), "attempt"), counted(len(going_on), "open connection")
    return make_signal(
        "attempts_unanswered",
        (SubjectKind.HOST, host),
        (begin, _until(context, last)),
        f"host {host} cannot open new connections since {format_clock(begin)}: {attempts} to connect to "
        f"{listed(servers, NAMED)} got no answer, while {others} of it "
        f"{'goes' if len(going_on) == 1 else 'go'} on",
        measures={"attempts": len(rows), "going_on": len(going_on)},
        servers=servers,
        requests=len(rows),
        evidence=[chosen_evidence(context.rules, f"host {host}", "no answer", rows)],
    )


def _unserved(context: SignalContext) -> Iterator[Signal]:
    columns, facts = context.facts.columns, context.connections
    waited = np.where(facts.ends, facts.closed_ns, context.end_ns) - facts.first_ns
    hung = columns.equals("opened", "handshake") & columns.equals("protocol", "kafka")
    hung &= (columns.ints("bytes_to_client") == 0) & (columns.ints("bytes_to_server") > 0)
    hung &= (waited >= UNSERVED_NS) & ~facts.by_server & ~context.facts.doubtful
    if int(hung.sum()) < LEAST_UNSERVED:
        return
    talking = _grouped(facts.server, np.flatnonzero(facts.talks))
    for server, rows in _grouped(facts.server, np.flatnonzero(hung)).items():
        own = talking.get(server, rows[:0])
        begin, last = int(facts.first_ns[rows].min()), int((facts.first_ns + waited)[rows].max())
        going_on = len(_goes_on(context, own, begin))
        answered = (columns.ints("responses")[own] > 0) & (facts.first_ns[own] > begin)
        answered &= columns.equals("opened", "handshake")[own]
        if going_on and int(answered.sum()) < len(rows):
            yield _hung(context, rows, going_on, (begin, last), int(waited[rows].max()))


def _hung(
    context: SignalContext, rows: Int64s, going_on: int, span: tuple[int, int], longest_ns: int
) -> Signal:
    facts = context.connections
    server = context.server_names[int(facts.server[rows[0]])]
    return make_signal(
        "connections_unserved",
        (SubjectKind.SERVER, server),
        (span[0], _until(context, span[1])),
        f"{server} answers nothing on {counted(len(rows), 'new connection')} since {format_clock(span[0])}, "
        f"which waited up to {format_duration(longest_ns)}, while it serves {going_on} that were open before",
        measures={"connections": len(rows), "going_on": going_on, "longest_ns": longest_ns},
        clients=context.clients_of(rows),
        requests=len(rows),
        wait_ns=longest_ns,
        evidence=[chosen_evidence(context.rules, server, "no response", rows)],
    )


def _closed(context: SignalContext) -> Iterator[Signal]:
    facts, records = context.connections, context.rules.of_kind("acks_none")
    numbers = np.array([one.location.connection or 0 for one in records], np.int64)
    rows = np.minimum(np.searchsorted(context.facts.numbers, numbers), len(context.facts.numbers) - 1)
    after_ns = facts.closed_ns[rows] - np.array([one.last_ns for one in records], np.int64)
    closed = (context.facts.numbers[rows] == numbers) & facts.ends[rows] & facts.by_server[rows]
    closed &= (after_ns >= 0) & (after_ns <= CLOSED_NS)
    found: dict[str, set[int]] = defaultdict(set)
    for at in np.flatnonzero(closed).tolist():
        found[records[at].client].add(int(rows[at]))
    for client, connections in sorted(found.items()):
        rows = np.array(sorted(connections))
        closed_ns = context.connections.closed_ns[rows]
        if len(rows) >= LEAST_CLOSED and int(closed_ns.max() - closed_ns.min()) >= LASTED_NS:
            yield _without_acks(context, client, rows)


def _without_acks(context: SignalContext, client: str, rows: Int64s) -> Signal:
    facts = context.connections
    client_facts = context.shared(ClientFacts)
    first, last = int(facts.closed_ns[rows].min()), int(facts.closed_ns[rows].max())
    begin = client_facts.began(client, int(facts.first_ns[rows].min()))
    topics = sorted(client_facts.written.get(client, ()))
    about = f" to topic {listed(topics, NAMED)}" if topics else ""
    return make_signal(
        "closed_after_acks_none",
        (SubjectKind.CLIENT, client),
        (begin, _until(context, last)),
        f"{client} writes{about} with acks=0, and brokers close the connection after its records: "
        f"{counted(len(rows), 'connection')} from {format_clock(first)} for {format_duration(last - first)}",
        measures={"connections": len(rows), "lasted_ns": last - first},
        servers=sorted({context.server_names[number] for number in facts.server[rows].tolist()}),
        clients=[client],
        topics=topics,
        requests=len(rows),
        evidence=[chosen_evidence(context.rules, client, "closed by the server after a record", rows)],
    )
