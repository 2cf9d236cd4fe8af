"""The lines on TLS and SASL, worked out on paper."""

from typing import Any

from kdissect.report.build.build_report import build_report
from kdissect.report.model.summary import CaptureFacts
from kdissect.report.partials import summarise
from kdissect.report.render.report_text import render
from kdissect.report.render.terminal import Terminal
from kdissect.tables.schemas import CONNECTIONS, EXCHANGES, PARTITIONS
from tests.helpers import paper_capture


def connection(number: int, **more: Any) -> dict[str, Any]:
    return {
        "connection": number,
        "client_host": "10.1.0.1",
        "client_port": 40000 + number,
        "server_host": "10.0.0.1",
        "server_port": 9093,
        "first_time_ns": paper_capture.T,
        "last_time_ns": paper_capture.T,
        "opened": "handshake",
        "closed": "fin",
        "protocol": "kafka",
        "packets": 10,
        "bytes_to_server": 1024,
        "bytes_to_client": 1024,
        **more,
    }


def tls(version: str | None, outcome: str, decryption: str, **more: Any) -> dict[str, Any]:
    return {"tls_version": version, "tls_outcome": outcome, "tls_decryption": decryption} | more


def said(rows: list[dict[str, Any]]) -> dict[str, str]:
    tables = {
        "connections": paper_capture.table(rows, CONNECTIONS),
        "exchanges": paper_capture.table([], EXCHANGES),
        "partitions": paper_capture.table([], PARTITIONS),
    }
    text = render(build_report(summarise(tables), CaptureFacts()), Terminal(200))
    words = (line.split(maxsplit=1) for line in text.splitlines())
    return {found[0]: found[1] for found in words if len(found) == 2 and found[0] in {"TLS", "SASL"}}


def test_nothing_is_said_where_there_is_neither() -> None:
    assert said([connection(1)]) == {}


def test_tls_by_version_decryption_and_failure() -> None:
    rows = [
        connection(1, **tls("TLS 1.3", "completed", "whole")),
        connection(2, **tls("TLS 1.2", "completed", "partly", tls_undecrypted_bytes=100)),
        connection(3, protocol="tls", **tls("TLS 1.3", "completed", "no_keys")),
        connection(
            4, protocol="tls", **tls(None, "failed", "no_keys", tls_alert="unknown_ca", tls_alert_by="client")
        ),
        connection(5),
    ]
    assert said(rows)["TLS"] == (
        "4 of 5 connections (8.00 KiB, 80.0% of all bytes) · 2 TLS 1.3 · 1 TLS 1.2 · 1 of "
        "unknown version · 1 decrypted · "
        "1 partly decrypted · 2 without keys · 1 failed: unknown_ca by client"
    )


def test_sasl_by_mechanism_and_outcome() -> None:
    rows = [
        connection(1, sasl_mechanism="PLAIN", sasl_outcome="succeeded", sasl_reauthentications=3),
        connection(2, sasl_mechanism="PLAIN", sasl_outcome="failed", sasl_error="SASL_AUTHENTICATION_FAILED"),
        connection(3, sasl_mechanism="\x1b[31mevil", sasl_outcome="unfinished"),
    ]
    assert said(rows)["SASL"] == "2 PLAIN · 1 \\x1b[31mevil · 3 reauthenticated · 1 failed · 1 unfinished"
