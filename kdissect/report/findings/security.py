"""Rules about TLS and SASL: failed handshakes, failed authentication, secrets that travel in plain text."""

import pyarrow as pa
import pyarrow.compute as pc

from kdissect.protocol.error_codes import AUTHENTICATION_ERRORS
from kdissect.report.aggregate.grouping import true_mask
from kdissect.report.findings.connection_evidence import (
    Row,
    client_label,
    connection_evidence,
    group_connections,
    host_labels,
    select_connections,
    server_label,
)
from kdissect.report.findings.finding_context import FindingContext, Judgement
from kdissect.report.findings.responses import errors_by_client
from kdissect.report.wording import counted

READABLE = ("PLAIN", "OAUTHBEARER")
"""SASL mechanisms that send the secret itself (RFC 4616, RFC 7628); the others prove that they know it."""

ENCRYPTED = "encrypted"


def authentication(context: FindingContext) -> Judgement | None:
    """Clients whose authentication failed, with an error or by a close after a raw SASL token."""
    errors = errors_by_client(context, AUTHENTICATION_ERRORS, "Authentication failed")
    columns = context.facts.columns
    closed = select_connections(
        context, columns.equals("sasl_outcome", "failed") & ~columns.present("sasl_error"), "sasl_mechanism"
    )
    rows = []
    for client, connections in group_connections(closed, client_label):
        mechanism = connections[0]["sasl_mechanism"] or "SASL"
        detail = f"the server closed the connection after the {mechanism} token"
        rows.append(connection_evidence(client, detail, connections))
    if not rows or errors is not None:
        return errors._replace(evidence=[*errors.evidence, *rows]) if errors else None
    title = f"{counted(len(closed), 'connection')} of {counted(len(rows), 'client')}"
    return Judgement(f"Authentication failed: {title}", rows)


def readable_login(context: FindingContext) -> Judgement | None:
    """Clients that send a password or token without TLS, with a SASL mechanism that does not protect it."""
    columns = context.facts.columns
    readable = true_mask(pc.is_in(columns.arrow("sasl_mechanism"), pa.array(READABLE)))
    logins = select_connections(context, readable & ~columns.present("tls_version"), "sasl_mechanism")
    rows = []
    for (client, mechanism), connections in group_connections(
        logins, lambda row: (client_label(row), row["sasl_mechanism"])
    ):
        detail = f"SASL {mechanism} without TLS, to {server_label(connections[0])}"
        rows.append(connection_evidence(client, detail, connections))
    title = f"{counted(len(rows), 'client')} sent credentials in plain text"
    return Judgement(title, rows) if rows else None


def tls_failed(context: FindingContext) -> Judgement | None:
    """TLS handshakes that ended with an alert or got no response."""
    columns = context.facts.columns
    unanswered = columns.equals("tls_outcome", "unanswered") & context.facts.closed & ~context.facts.lossy
    failed = select_connections(
        context,
        columns.equals("tls_outcome", "failed") | unanswered,
        "tls_outcome",
        "tls_alert",
        "tls_alert_by",
    )
    rows = []
    for (server, reason), connections in group_connections(
        failed, lambda row: (server_label(row), _reason(row))
    ):
        detail = f"{reason}; clients at {host_labels(connections)}"
        rows.append(connection_evidence(server, detail, connections))
    return Judgement(f"{counted(len(failed), 'TLS handshake')} failed", rows) if rows else None


def _reason(row: Row) -> str:
    if row["tls_outcome"] == "unanswered":
        return (
            "no response to the ClientHello before the connection closed: "
            "the port has no TLS, or the client ended"
        )
    sender = f"the {row['tls_alert_by']}" if row["tls_alert_by"] else "one side"
    if row["tls_alert"] == ENCRYPTED:
        return f"{sender} sent an encrypted alert of unknown kind"
    return f"{sender} sent {row['tls_alert']}"
