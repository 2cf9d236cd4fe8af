"""Rules about TLS and SASL: handshakes that failed, clients that could not prove who they are."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from kdissect.report.columns import Mask
from kdissect.report.findings.answers import AUTHENTICATION, refused
from kdissect.report.findings.scene import Judgement, Scene, plural
from kdissect.report.summary import Evidence, Place

ENDS = ("connection", "client_host", "client_port", "server_host", "server_port", "client_id")
ADDED = ("first_time_ns", "last_time_ns", "tls_outcome", "tls_alert", "tls_alert_by", "sasl_mechanism")
ENCRYPTED = "encrypted"


def authentication(scene: Scene) -> Judgement | None:
    """Logins that were refused, with an error or, as an answer to a raw token, by the end of the connection."""
    told = refused(scene, AUTHENTICATION, "Authentication failed")
    columns = scene.facts.columns
    silent = _rows(scene, columns.equals("sasl_outcome", "failed") & ~columns.known("sasl_error"))
    by_client: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in silent:
        by_client[f"{row['client_id'] or '(no client id)'} at {row['client_host'] or '?'}"].append(row)
    rows = [
        _evidence(client, f"{found[0]['sasl_mechanism'] or 'SASL'} token answered by closing", found)
        for client, found in sorted(by_client.items())
    ]
    if not rows:
        return told
    if told is not None:
        return told._replace(evidence=[*told.evidence, *rows])
    return Judgement(
        f"Authentication failed: {plural(len(silent), 'connection')} of {plural(len(rows), 'client')}", rows
    )


def tls_failed(scene: Scene) -> Judgement | None:
    """Handshakes that ended with an alert, or were never answered."""
    columns = scene.facts.columns
    unanswered = columns.equals("tls_outcome", "unanswered") & scene.facts.closed & ~scene.facts.lossy
    found = _rows(scene, columns.equals("tls_outcome", "failed") | unanswered)
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in found:
        groups[f"{row['server_host']}:{row['server_port']}", _reason(row)].append(row)
    rows = [
        _evidence(server, f"{reason}, from {plural(len({row['client_host'] for row in each}), 'host')}", each)
        for (server, reason), each in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    return Judgement(f"{plural(len(found), 'TLS handshake')} failed", rows) if rows else None


def _reason(row: dict[str, Any]) -> str:
    if row["tls_outcome"] == "unanswered":
        return "the server closed without an answer: no TLS there"
    sender = row["tls_alert_by"] or "one side"
    if row["tls_alert"] == ENCRYPTED:
        return f"the {sender} sent an encrypted alert, cannot tell which"
    return f"the {sender} sent {row['tls_alert']}"


def _rows(scene: Scene, mask: Mask) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        scene.facts.columns.table.select([*ENDS, *ADDED]).take(np.flatnonzero(mask)).to_pylist()
    )
    return sorted(rows, key=lambda row: (row["first_time_ns"] or 0, row["connection"]))


def _evidence(subject: str, detail: str, rows: Sequence[dict[str, Any]]) -> Evidence:
    first = rows[0]
    place = Place(
        time_ns=first["first_time_ns"], capture_file=None, request_packet=None, response_packet=None, topic=None,
        partition=None, detail=None, **{name: first[name] for name in ENDS},
    )  # fmt: skip
    return Evidence(
        subject=subject,
        detail=detail,
        count=len(rows),
        first_time_ns=first["first_time_ns"],
        last_time_ns=max(row["last_time_ns"] or 0 for row in rows),
        place=place,
    )
