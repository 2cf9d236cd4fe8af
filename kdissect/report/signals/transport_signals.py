"""Signals about single connections and addresses: what a packet's size or age, a window or TLS did to them.

large_segments_stuck     large segments never arrive on a path on which small ones do
idle_connection_dropped  data after a long silence gets no acknowledgment, while other connections go on
window_closed            a client's receive window was closed while the server had data for it
advertised_refused       an address that a broker advertises never accepts a connection
tls_handshake_failed     TLS handshakes of a host failed, or one side spoke no TLS
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from kdissect.report.aggregate.grouping import Mask
from kdissect.report.aggregate.histogram import Ints
from kdissect.report.aggregate.network_tables import STANDSTILLS
from kdissect.report.aggregate.partial_tables import BROKERS
from kdissect.report.findings.connection_evidence import (
    Row,
    connection_evidence,
    select_connections,
)
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.query.node_ids import Address
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.network_signals import host_name
from kdissect.report.signals.path_series import PathSeries, Standstill
from kdissect.report.signals.server_names import follower_of
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.wording import client_text, counted, listed
from kdissect.text import LOOPBACK_HOSTS, format_address, format_clock, format_duration

TRANSPORT_KINDS = (
    SignalKind("large_segments_stuck", "large segments never arrive, small ones do", SignalCounts.WAITS),
    SignalKind("idle_connection_dropped", "data after a silence gets no acknowledgment", SignalCounts.WAITS),
    SignalKind("window_closed", "a client's receive window was closed", SignalCounts.WAITS),
    SignalKind("advertised_refused", "an advertised address accepts nobody", SignalCounts.ATTEMPTS),
    SignalKind("tls_handshake_failed", "TLS handshakes failed", SignalCounts.ATTEMPTS),
)

SECOND = 10**9
LARGE_BYTES = 500
STUCK_REPEATS = 3
STUCK_SPANS = 2
PEERS_NAMED = 2
PASSED_STEPS = 2
IDLE_NS = 4 * SECOND
"""A middlebox forgets a connection after minutes, some after seconds."""

IDLE_REPEATS = 2
CLOSED_NS = SECOND // 5
"""A window that was closed for less did not delay anybody much."""

CLOSED_SPANS, CLOSED_TOTAL_NS = 3, SECOND

TLS_ALERT_BYTES = 7
"""An alert as a record of its own: five bytes of header, level and description (RFC 8446, section 6)."""

AT_ONCE_NS, LEFT_AT_ONCE, RETRY_NS = SECOND, 5, 5 * SECOND
"""A client leaves at once if it does so within this, so many times, with less than the third in between."""

UNANSWERED_NS = SECOND
"""An attempt to connect that nobody answered for less may be answered after the end of the capture."""

UP_EDGE_NS = 2 * SECOND
"""A broker that is up need not talk in the first and the last seconds of a capture."""

FAILED = ("failed", "unanswered")


def transport_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about connections and addresses."""
    series = PathSeries(context)
    yield from _large_segments(context, series)
    yield from _dropped(context, series)
    yield from _closed_windows(context)
    yield from _advertised(context)
    yield from _tls_failures(context)


def _rows_of(context: SignalContext, numbers: set[int]) -> np.ndarray:
    """Return the rows of connections with some numbers."""
    return np.flatnonzero(np.isin(context.facts.numbers, np.array(sorted(numbers), np.int64)))


def _connection_signal(
    context: SignalContext,
    series: PathSeries,
    kind: str,
    subject: tuple[SubjectKind, str],
    spans: list[Standstill],
    end_ns: int | None,
    sentence: str,
    measures: dict[str, int],
) -> Signal:
    """Return a signal about the connections of some standstills."""
    rows = _rows_of(context, {one.connection for one in spans})
    begin = min(one.begin_ns for one in spans)
    requests, wait_ns = series.waits(rows, begin, context.end_ns if end_ns is None else end_ns)
    servers = context.connections.server[rows]
    evidence = select_connections(context.rules, rows) if len(rows) else []
    return make_signal(
        kind,
        subject,
        (begin, end_ns),
        sentence,
        measures=measures | {"connections": len(rows)},
        servers=[context.server_names[number] for number in np.unique(servers).tolist()],
        clients=context.clients_of(rows),
        requests=max(requests, len(rows)),
        wait_ns=wait_ns,
        evidence=[connection_evidence(subject[1], "stuck", evidence)] if evidence else (),
    )


# Sizes


def _large_segments(context: SignalContext, series: PathSeries) -> Iterator[Signal]:
    stuck = [
        one
        for one in series.standstills
        if one.segment_bytes >= LARGE_BYTES
        and (one.most_repeats >= STUCK_REPEATS or (one.outcome != "acknowledged" and one.repeats))
    ]
    for host, spans in _by_host(stuck):
        directions = sorted({(one.sender, one.receiver) for one in spans})
        begin, end = min(one.begin_ns for one in spans), max(one.end_ns for one in spans)
        smallest = min(one.segment_bytes for one in spans)
        passed = [
            one
            for direction in directions
            for one in series.steps.get(direction, ())
            if begin // SECOND < one.begin_ns // SECOND < end // SECOND and one.trip_ns is not None
        ]
        largest = max((one.largest_acked for one in passed), default=0)
        if len(spans) < STUCK_SPANS or len(passed) < PASSED_STEPS or not 0 < largest < smallest:
            continue
        name = host_name(context, host)
        peers = sorted({host_name(context, one) for pair in directions for one in pair if one != host})
        yield _connection_signal(
            context,
            series,
            "large_segments_stuck",
            (SubjectKind.HOST, name),
            spans,
            None if end >= context.end_ns - 2 * SECOND else end,
            f"segments of {smallest:,} bytes or more between {name} and {listed(peers, PEERS_NAMED)} never "
            f"arrived from {format_clock(begin)} on, while segments of up to {largest:,} bytes did",
            {
                "smallest_stuck_bytes": smallest,
                "largest_acked_bytes": largest,
                "spans": len(spans),
                "times": sum(one.repeats for one in spans),
                "stuck_from": sum(one.sender == host for one in spans),
                "stuck_to": sum(one.receiver == host for one in spans),
            },
        )


def _by_host(spans: list[Standstill]) -> Iterator[tuple[str, list[Standstill]]]:
    """Yield the host with the most of these standstills, as sender or receiver, and so on with the rest."""
    left = spans
    while left:
        count = Counter(host for one in left for host in (one.sender, one.receiver))
        senders = Counter(one.sender for one in left)
        host = max(sorted(count), key=lambda name: (count[name], senders[name]))
        yield host, [one for one in left if host in (one.sender, one.receiver)]
        left = [one for one in left if host not in (one.sender, one.receiver)]


# Idle connections


def _dropped(context: SignalContext, series: PathSeries) -> Iterator[Signal]:
    facts = context.facts
    row_of = {number: row for row, number in enumerate(facts.numbers.tolist())}
    closed, is_closed = facts.columns.ints("closed_ns"), facts.columns.present("closed_ns")
    by_host: dict[str, list[Standstill]] = defaultdict(list)
    for one in series.standstills:
        row = row_of.get(one.connection)
        open_then = row is not None and not (is_closed[row] and closed[row] < one.begin_ns)
        unheard = one.outcome != "acknowledged" and (one.repeats >= IDLE_REPEATS or one.outcome == "reset")
        if one.idle_ns >= IDLE_NS and open_then and unheard and _others_pass(series, one):
            by_host[one.sender].append(one)
    for sender, spans in by_host.items():
        idle = format_duration(min(one.idle_ns for one in spans))
        host, first = host_name(context, sender), min(spans, key=lambda one: one.begin_ns)
        peer = host_name(context, first.receiver)
        yield _connection_signal(
            context,
            series,
            "idle_connection_dropped",
            (SubjectKind.PATH, f"{host} and {peer}"),
            spans,
            None,
            f"{counted(len({one.connection for one in spans}), 'connection')} from {host} got no "
            f"acknowledgment "
            f"any more after {idle} of silence, first at {format_clock(first.begin_ns)}",
            {"idle_ns": min(one.idle_ns for one in spans), "repeats": sum(one.repeats for one in spans)},
        )


def _others_pass(series: PathSeries, span: Standstill) -> bool:
    """Return whether other data on the same path was acknowledged while one connection stood still."""
    return any(
        one.trip_ns is not None
        for one in series.steps.get((span.sender, span.receiver), ())
        if span.begin_ns // SECOND
        < one.begin_ns // SECOND
        <= max(span.end_ns, span.begin_ns + 3 * SECOND) // SECOND
    )


# Windows


def _closed_windows(context: SignalContext) -> Iterator[Signal]:
    facts = context.facts
    row_of = {number: row for row, number in enumerate(facts.numbers.tolist())}
    by_client: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for span in context.partial.table(STANDSTILLS).to_pylist():
        row = row_of.get(span["connection"])
        if span["kind"] == "window_closed" and span["to_server"] and row is not None:
            by_client[context.client_names[int(context.connections.client[row])]].append(span | {"row": row})
    for client, spans in by_client.items():
        long = [span for span in spans if span["end_ns"] - span["begin_ns"] >= CLOSED_NS]
        total = sum(span["end_ns"] - span["begin_ns"] for span in long)
        if not long or (len(long) < CLOSED_SPANS and total < CLOSED_TOTAL_NS):
            continue
        begin, end = min(span["begin_ns"] for span in long), max(span["end_ns"] for span in long)
        rows = np.unique([span["row"] for span in long])
        servers = np.unique(context.connections.server[rows]).tolist()
        longest = max(span["end_ns"] - span["begin_ns"] for span in long)
        yield make_signal(
            "window_closed",
            (SubjectKind.CLIENT, client),
            (begin, None if end >= context.end_ns - SECOND else end),
            f"{client} closed its receive window {counted(len(long), 'time')} from {format_clock(begin)} "
            f"on, for "
            f"{format_duration(total)} in all and up to {format_duration(longest)}",
            measures={"times": len(long), "closed_ns": total, "longest_ns": longest},
            servers=[context.server_names[number] for number in servers],
            requests=len(long),
            wait_ns=total,
            evidence=[connection_evidence(client, "window closed", select_connections(context.rules, rows))],
        )


# Addresses


def _advertised(context: SignalContext) -> Iterator[Signal]:
    """Yield each address that Metadata names, and that nobody could connect to in the whole capture."""
    columns, facts = context.facts.columns, context.connections
    hosts, ports = columns.arrow("server_host").to_pylist(), columns.arrow("server_port").to_pylist()
    nodes = {(row["host"], row["port"]): row["node_id"] for row in context.partial.table(BROKERS).to_pylist()}
    silent = (columns.ints("bytes_to_server") == 0) & (columns.ints("bytes_to_client") == 0)
    by_address: dict[Address, list[int]] = defaultdict(list)
    for row, address in enumerate(zip(hosts, ports, strict=True)):
        if address in nodes:
            by_address[address].append(row)
    for address, connections in by_address.items():
        rows = np.array(connections, np.int64)
        failed = silent[rows] & ~columns.present("server_rtt_ns")[rows]
        refused = int((columns.equals("closed", "rst")[rows] & failed).sum())
        waited = context.end_ns - facts.first_ns[rows] >= UNANSWERED_NS
        if failed.all() and (refused or waited.any()) and _is_up(context, address, nodes[address], rows):
            yield _advertised_signal(context, address, nodes[address], rows, refused)


def _advertised_signal(
    context: SignalContext, address: Address, node: int, rows: np.ndarray, refused: int
) -> Signal:
    begin = int(context.connections.first_ns[rows].min())
    text = format_address(address[0] or "?", address[1])
    name = context.servers.of_node(node)
    subject = f"broker {node}" if text in name else name
    how = "refused" if 2 * refused >= len(rows) else "not answered"
    attempts = f"{counted(len(rows), 'attempt')} to connect {'was' if len(rows) == 1 else 'were'} {how}"
    return make_signal(
        "advertised_refused",
        (SubjectKind.SERVER, subject),
        (begin, None),
        f"{subject} advertises {text} in Metadata, where nobody can connect: {attempts} from "
        f"{format_clock(begin)} on",
        measures={"attempts": len(rows), "refused": refused, "node_id": node},
        servers=[context.servers.name(*address)],
        clients=context.clients_at(rows),
        requests=len(rows),
        evidence=[connection_evidence(text, how, select_connections(context.rules, rows))],
    )


def _is_up(context: SignalContext, address: Address, node: int, attempts: np.ndarray) -> bool:
    """Return whether the broker talks elsewhere during the `attempts`: it serves, or it is a client itself.

    It serves at another address or port. It is a client as a follower, or from its own host. Attempts may
    begin and end with the capture, so the first and the last seconds do not count.
    """
    columns, facts = context.facts.columns, context.connections
    servers = zip(
        columns.arrow("server_host").to_pylist(), columns.arrow("server_port").to_pylist(), strict=True
    )
    clients = zip(
        columns.arrow("client_host").to_pylist(), columns.arrow("client_id").to_pylist(), strict=True
    )
    first_ns, last_ns = int(facts.first_ns[attempts].min()), int(facts.first_ns[attempts].max())
    until_ns = min(last_ns + UNANSWERED_NS // 2, context.end_ns - UP_EDGE_NS)
    throughout = facts.talks & (facts.first_ns <= max(first_ns, context.begin_ns + UP_EDGE_NS))
    throughout &= facts.last_ns >= until_ns
    own_host = address[0] if address[0] not in LOOPBACK_HOSTS else None
    return any(
        server != address
        and (
            context.servers.nodes.get(server) == node
            or (own_host is not None and own_host in (server[0], host))
            or follower_of(client) == node
        )
        for server, (host, client), talks in zip(servers, clients, throughout.tolist(), strict=True)
        if talks
    )


# TLS


def _tls_failures(context: SignalContext) -> Iterator[Signal]:
    columns = context.facts.columns
    failed = np.zeros(columns.rows, bool)
    for outcome in FAILED:
        failed |= columns.equals("tls_outcome", outcome) & context.facts.closed & ~context.facts.lossy
    answered_by_alert = (columns.ints("bytes_to_client") == TLS_ALERT_BYTES) & (
        columns.ints("responses") == 0
    )
    plaintext = answered_by_alert & ~columns.present("tls_outcome") & (columns.ints("requests") > 0)
    wanted = failed | plaintext | _left_at_once(context)
    rows = select_connections(
        context.rules, wanted, "tls_outcome", "tls_alert", "tls_alert_by", "closed_by", "bytes_to_client"
    )
    turned_away = {row["client_host"] for row in rows if _is_over(row) and row["closed_by"] == "server"}
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        reason = TURNED_AWAY if _is_over(row) and row["client_host"] in turned_away else _tls_reason(row)
        groups[row["client_host"] or "?", reason].append(row)
    for (client_host, reason), connections in groups.items():
        if len(connections) == 1 and _gave_up(connections[0]):
            continue
        servers = sorted(
            {context.servers.name(row["server_host"], row["server_port"]) for row in connections}
        )
        named = sorted(
            {client_text(row["client_id"], client_host) for row in connections if row["client_id"]}
        )
        who = listed(named, 2) or f"host {client_host}"
        begin, last = connections[0]["first_time_ns"], connections[-1]["last_time_ns"]
        yield make_signal(
            "tls_handshake_failed",
            (SubjectKind.CLIENT, named[0]) if len(named) == 1 else (SubjectKind.HOST, f"host {client_host}"),
            (begin, None if last >= context.end_ns - 5 * SECOND else last),
            f"{counted(len(connections), 'TLS handshake')} of {who} with {listed(servers, 3)} failed from "
            f"{format_clock(begin)} on: {reason}",
            measures={"attempts": len(connections)},
            servers=servers,
            clients={client_text(row["client_id"], client_host) for row in connections},
            requests=len(connections),
            evidence=[connection_evidence(who, reason, connections)],
        )


def _left_at_once(context: SignalContext) -> Mask:
    """Return TLS connections that are closed right after the handshake, if a host does nothing else.

    Some libraries check the certificate when the handshake is over, and send no alert: Node.js does. Servers
    learn only then that a client of TLS 1.3 has no certificate, and their alert is encrypted. Where
    other connections of the host go on, those count that never finish the handshake, and whose clients send
    equally much each time: one client sends the same ClientHello again.
    """
    columns, facts = context.facts.columns, context.connections
    shaken = columns.equals("tls_outcome", "completed") | columns.equals("tls_outcome", "unfinished")
    shaken &= columns.equals("protocol", "tls") & columns.equals("opened", "handshake")
    short = shaken & context.facts.closed
    short &= (facts.closed_ns - facts.first_ns <= AT_ONCE_NS) & ~context.facts.lossy
    left = np.zeros(columns.rows, bool)
    for host in np.unique(facts.host[short]).tolist():
        own = facts.host == host
        at_once = own & short
        servers = np.unique(facts.server[at_once])
        others = own & ~short & shaken & np.isin(facts.server, servers)
        if not others.any():
            left |= _repeated(facts.first_ns, at_once)
            continue
        unfinished = at_once & columns.equals("tls_outcome", "unfinished") & ~facts.by_server
        for size in np.unique(columns.ints("bytes_to_server")[unfinished]).tolist():
            left |= _repeated(facts.first_ns, unfinished & (columns.ints("bytes_to_server") == size))
    return left


def _repeated(first_ns: Ints, chosen: Mask) -> Mask:
    """Return these connections if they are many, and follow each other as retries do; else none."""
    times = first_ns[chosen]
    paced = len(times) >= LEFT_AT_ONCE and int(times.max() - times.min()) <= RETRY_NS * len(times)
    return chosen if paced else np.zeros(len(first_ns), bool)


ALERTS = {
    "certificate_expired": "{sender} rejected an expired certificate",
    "unknown_ca": "{sender} does not know the authority (CA) that signed the certificate",
    "bad_certificate": "{sender} rejected the certificate",
    "certificate_unknown": "{sender} does not trust the certificate",
    "certificate_required": "{sender} requires a client certificate",
    "protocol_version": "{sender} does not accept the version of TLS",
    "handshake_failure": "{sender} found no cipher suite or certificate in common",
    "unrecognized_name": "{sender} does not know the host name",
}
"""What alerts mean (RFC 8446, section 6.2); others stand by their names."""


def _gave_up(row: Row) -> bool:
    """Return whether a client closed before the server said anything: it may just have ended."""
    return row["tls_outcome"] == "unanswered" and row["closed_by"] == "client" and not row["bytes_to_client"]


TURNED_AWAY = (
    "the server closed the connection right after the handshake: it probably requires a client certificate "
    "(ssl.client.auth), or refuses the login"
)


def _is_over(row: Row) -> bool:
    """Return whether a handshake went well as far as it can be read, and the connection was closed."""
    return row["tls_alert"] is None and row["tls_outcome"] in ("completed", "unfinished")


def _tls_reason(row: Row) -> str:
    """Return why a handshake failed, as far as it can be read."""
    if row["tls_outcome"] is None:
        return "it sent plaintext to a port that speaks TLS"
    if _is_over(row):
        return (
            "the client closed the connection right after the handshake: it probably does not trust the "
            "server's certificate"
        )
    if row["tls_outcome"] == "unanswered":
        if row["closed_by"] == "server" or row["bytes_to_client"]:
            return "it spoke TLS to a port that has none"
        return "the server did not answer the ClientHello"
    sender = f"the {row['tls_alert_by']}" if row["tls_alert_by"] else "one side"
    if row["tls_alert"] == "encrypted":
        what = "does not trust the server's certificate" if sender == "the client" else "rejected the client"
        return f"{sender} broke the handshake off with an encrypted alert: it probably {what}"
    if row["tls_alert"] in ALERTS:
        return ALERTS[row["tls_alert"]].format(sender=sender)
    return f"{sender} sent the alert {row['tls_alert'] or 'of an unknown kind'}"
