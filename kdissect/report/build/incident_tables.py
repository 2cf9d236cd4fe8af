"""The tables `signals` and `incidents`, for queries and exports: one row for each of those in a report.

They are small and made from the whole report, so they are not among the tables that tasks make row by row.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from kdissect.report.model.incidents import Incident, Signal
from kdissect.report.model.summary import Summary
from kdissect.report.wording import TO_THE_END
from kdissect.tables.column import INT64, NS, TEXT, TIME, Column

LASTS_ON = f"it lasts {TO_THE_END}"
SHARE = pa.float64()

SIGNAL_COLUMNS = (
    Column("signal", INT64, "number of the signal, from 0, in the order of time"),
    Column("kind", TEXT, "kind of signal, see [incidents.md](incidents.md#signals)"),
    Column("subject_kind", TEXT, "what it is about: `server`, `client`, `group`, `topic` …"),
    Column("subject", TEXT, "name of the subject"),
    Column("begin_ns", INT64, "when it began", TIME),
    Column("end_ns", INT64, "when it ended", TIME, LASTS_ON),
    Column("sentence", TEXT, "subject, verb, figures, time"),
    Column("servers", TEXT, "servers that it touches, separated by semicolons"),
    Column("clients", TEXT, "clients that it touches, separated by semicolons"),
    Column("groups", TEXT, "groups that it touches, separated by semicolons"),
    Column("topics", TEXT, "topics that it touches, separated by semicolons"),
    Column("requests", INT64, "requests, or attempts to connect, that were delayed or failed"),
    Column("wait_ns", INT64, "how long these requests waited, together", NS),
    Column("incident", INT64, "number of the incident that explains it", null="none does"),
)

INCIDENT_COLUMNS = (
    Column("incident", INT64, "number of the incident, from 0, the greatest impact first"),
    Column("cause", TEXT, "name of the cause, see [incidents.md](incidents.md#causes)"),
    Column("severity", TEXT, "`critical`, `warning` or `note`"),
    Column("subject_kind", TEXT, "what it is about: `server`, `client`, `group`, `topic` …"),
    Column("subject", TEXT, "name of the subject"),
    Column("begin_ns", INT64, "when it began", TIME),
    Column("end_ns", INT64, "when it ended", TIME, LASTS_ON),
    Column("headline", TEXT, "subject, verb, time, figures"),
    Column("clients", TEXT, "clients that it touched, separated by semicolons"),
    Column("requests", INT64, "requests, or attempts to connect, that were delayed or failed"),
    Column("wait_ns", INT64, "how long these requests waited, together", NS),
    Column("share", SHARE, "part of all exchanges of the capture, 0 to 1"),
    Column("confidence", SHARE, "0 to 1; 1 where the capture shows the cause itself"),
)

REPORT_COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "signals": SIGNAL_COLUMNS,
    "incidents": INCIDENT_COLUMNS,
}
"""The tables that are made from a report, by name."""


def incident_tables(summary: Summary) -> dict[str, pa.Table]:
    """Return the tables of `REPORT_COLUMNS` by name."""
    return {
        "signals": _table(SIGNAL_COLUMNS, [_signal(*pair) for pair in enumerate(summary.signals)]),
        "incidents": _table(INCIDENT_COLUMNS, [_incident(*pair) for pair in enumerate(summary.incidents)]),
    }


def report_schemas() -> dict[str, pa.Schema]:
    """Return the schemas of the tables of `REPORT_COLUMNS` by name."""
    return {name: _schema(columns) for name, columns in REPORT_COLUMNS.items()}


def _schema(columns: tuple[Column, ...]) -> pa.Schema:
    return pa.schema([pa.field(column.name, column.type) for column in columns])


def _table(columns: tuple[Column, ...], rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, _schema(columns))


def _signal(number: int, signal: Signal) -> dict[str, Any]:
    joined: Callable[[tuple[str, ...]], str] = "; ".join
    return {
        "signal": number,
        "kind": signal.kind,
        "subject_kind": signal.subject.kind.value,
        "subject": signal.subject.name,
        "begin_ns": signal.begin_ns,
        "end_ns": signal.end_ns,
        "sentence": signal.sentence,
        "servers": joined(signal.servers),
        "clients": joined(signal.clients),
        "groups": joined(signal.groups),
        "topics": joined(signal.topics),
        "requests": signal.requests,
        "wait_ns": signal.wait_ns,
        "incident": signal.incident,
    }


def _incident(number: int, incident: Incident) -> dict[str, Any]:
    return {
        "incident": number,
        "cause": incident.cause,
        "severity": incident.severity.value,
        "subject_kind": incident.subject.kind.value,
        "subject": incident.subject.name,
        "begin_ns": incident.begin_ns,
        "end_ns": incident.end_ns,
        "headline": incident.headline,
        "clients": "; ".join(incident.impact.clients),
        "requests": incident.impact.requests,
        "wait_ns": incident.impact.wait_ns,
        "share": incident.impact.share,
        "confidence": incident.confidence,
    }
