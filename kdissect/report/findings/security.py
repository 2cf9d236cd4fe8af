"""Rules about TLS and SASL: handshakes that failed, clients that could not prove who they are, secrets sent in plain text."""

import pyarrow as pa
import pyarrow.compute as pc

from kdissect.protocol.error_codes import AUTHENTICATION_ERRORS
from kdissect.report.aggregate.grouping import true_mask
from kdissect.report.findings.answers import errors_by_client
from kdissect.report.findings.connection_evidence import (
    Row,
    client_label,
    connection_evidence,
    group_connections,
    host_labels,
    select_connections,
    server_label,
)
from kdissect.report.findings.context import (
    FindingContext,
    Judgement,
    plural,
)

READABLE = ("PLAIN", "OAUTHBEARER")
"""SASL mechanisms that send the secret itself (RFC 4616, RFC 7628); SCRAM and GSSAPI prove that they know it."""

ENCRYPTED = "encrypted"


def authentication(scene: FindingContext) -> Judgement | None:
    """Logins that were refused, with an error or, as an answer to a raw token, by the end of the connection."""
    told = errors_by_client(scene, AUTHENTICATION_ERRORS, "Authentication failed")
    columns = scene.facts.columns
    silent = select_connections(
        scene, columns.equals("sasl_outcome", "failed") & ~columns.known("sasl_error"), "sasl_mechanism"
    )
    rows = [
        connection_evidence(name, f"{found[0]['sasl_mechanism'] or 'SASL'} token answered by closing", found)
        for name, found in group_connections(silent, client_label)
    ]
    if not rows:
        return told
    if told is not None:
        return told._replace(evidence=[*told.evidence, *rows])
    return Judgement(
        f"Authentication failed: {plural(len(silent), 'connection')} of {plural(len(rows), 'client')}", rows
    )


def readable_login(scene: FindingContext) -> Judgement | None:
    """Logins whose password or token anyone on the way can read."""
    columns = scene.facts.columns
    readable = true_mask(pc.is_in(columns.plain("sasl_mechanism"), pa.array(READABLE)))
    found = select_connections(scene, readable & ~columns.known("tls_version"), "sasl_mechanism")
    rows = [
        connection_evidence(name, f"SASL {mechanism} without TLS, to {server_label(each[0])}", each)
        for (name, mechanism), each in group_connections(
            found, lambda row: (client_label(row), row["sasl_mechanism"])
        )
    ]
    title = f"{plural(len(rows), 'client')} sent credentials that anyone on the way can read"
    return Judgement(title, rows) if rows else None


def tls_failed(scene: FindingContext) -> Judgement | None:
    """Handshakes that ended with an alert, or were never answered."""
    columns = scene.facts.columns
    unanswered = columns.equals("tls_outcome", "unanswered") & scene.facts.closed & ~scene.facts.lossy
    found = select_connections(
        scene,
        columns.equals("tls_outcome", "failed") | unanswered,
        "tls_outcome",
        "tls_alert",
        "tls_alert_by",
    )
    rows = [
        connection_evidence(address, f"{reason}; clients at {host_labels(each)}", each)
        for (address, reason), each in group_connections(found, lambda row: (server_label(row), _reason(row)))
    ]
    return Judgement(f"{plural(len(found), 'TLS handshake')} failed", rows) if rows else None


def _reason(row: Row) -> str:
    if row["tls_outcome"] == "unanswered":
        return "the hello had no answer until the connection closed: no TLS there, or a client that ended"
    sender = row["tls_alert_by"] or "one side"
    if row["tls_alert"] == ENCRYPTED:
        return f"the {sender} sent an encrypted alert, cannot tell which"
    return f"the {sender} sent {row['tls_alert']}"
