"""A signal about TLS: who cannot agree with a server on it, and why, as far as the handshake can be read.

    tls_handshake_failed    TLS handshakes of a host failed, or one side spoke no TLS

Alerts tell the reason, unless they are encrypted (RFC 8446, section 6). Then who closed the connection, and
when, is what is left.
"""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.report.findings.connection_evidence import Row, connection_evidence, select_connections
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.wording import client_text, counted, listed
from kdissect.text import format_clock

TLS_KINDS = (SignalKind("tls_handshake_failed", "TLS handshakes failed", SignalCounts.ATTEMPTS),)
SECOND = 10**9
FAILED = ("failed", "unanswered")
TLS_ALERT_BYTES = 7
"""An alert as a record of its own: five bytes of header, level and description (RFC 8446, section 6)."""

AT_ONCE_NS, LEFT_AT_ONCE, RETRY_NS = SECOND, 5, 5 * SECOND
"""A client leaves at once if it does so within this, so many times, with less than the third in between."""

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
"""Meaning of alerts (RFC 8446, section 6.2); others stand by their names."""

TURNED_AWAY = (
    "the server closed the connection right after the handshake: it probably requires a client certificate "
    "(ssl.client.auth), or refuses the login"
)


def tls_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield one signal for each host and reason of handshakes that failed."""
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
    turned_away = {
        row["client_host"] for row in rows if _ended_without_alert(row) and row["closed_by"] == "server"
    }
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        reason = (
            TURNED_AWAY
            if _ended_without_alert(row) and row["client_host"] in turned_away
            else _tls_reason(row)
        )
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


def _left_at_once(context: SignalContext) -> Bools:
    """Return TLS connections that are closed right after the handshake, if a host does nothing else.

    Some libraries check the certificate when the handshake is over, and send no alert: Node.js does. Servers
    learn only then that a client of TLS 1.3 has no certificate, and their alert is encrypted. If
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


def _repeated(first_ns: Int64s, chosen: Bools) -> Bools:
    """Return these connections if they are many, and follow each other as retries do; else none."""
    times = first_ns[chosen]
    paced = len(times) >= LEFT_AT_ONCE and int(times.max() - times.min()) <= RETRY_NS * len(times)
    return chosen if paced else np.zeros(len(first_ns), bool)


def _gave_up(row: Row) -> bool:
    """Return whether a client closed before the server said anything: it may just have ended."""
    return row["tls_outcome"] == "unanswered" and row["closed_by"] == "client" and not row["bytes_to_client"]


def _ended_without_alert(row: Row) -> bool:
    """Return whether a handshake went well as far as it can be read, and the connection was closed."""
    return row["tls_alert"] is None and row["tls_outcome"] in ("completed", "unfinished")


def _tls_reason(row: Row) -> str:
    """Return why a handshake failed, as far as it can be read."""
    if row["tls_outcome"] is None:
        return "it sent plaintext to a port that speaks TLS"
    if _ended_without_alert(row):
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
