"""Connections as evidence: rows of the connections table that a rule chose, grouped by a subject."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.report.findings.finding_context import FindingContext
from kdissect.report.model.findings import Evidence, Location
from kdissect.report.wording import client_text, listed
from kdissect.text import format_address

ENDS = ("connection", "client_host", "client_port", "server_host", "server_port", "client_id")
HOSTS_NAMED = 3
Row = dict[str, Any]
Subject = TypeVar("Subject", str, tuple[str, str])


def select_connections(context: FindingContext, chosen: Bools | Int64s, *more: str) -> list[Row]:
    """Return connections, the earliest first: both ends, times, and `more` columns."""
    rows = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
    table = context.facts.columns.table.select([*ENDS, "first_time_ns", "last_time_ns", *more]).take(rows)
    connections: list[Row] = table.to_pylist()
    return sorted(connections, key=lambda row: (row["first_time_ns"] or 0, row["connection"]))


def group_connections(
    rows: Iterable[Row], subject: Callable[[Row], Subject]
) -> list[tuple[Subject, list[Row]]]:
    """Return connections by subject, most connections first."""
    groups: dict[Subject, list[Row]] = {}
    for row in rows:
        groups.setdefault(subject(row), []).append(row)
    return sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))


def client_label(row: Row) -> str:
    """Return the client id and its host."""
    return client_text(row["client_id"], row["client_host"])


def server_label(row: Row) -> str:
    """Return the address of the server."""
    return format_address(row["server_host"] or "?", row["server_port"])


def host_labels(rows: Iterable[Row]) -> str:
    """Return the hosts of clients, as many as fit a line."""
    return listed(sorted({row["client_host"] or "?" for row in rows}), HOSTS_NAMED)


def connection_evidence(subject: str, detail: str, rows: Sequence[Row], count: int | None = None) -> Evidence:
    """Return evidence of connections, located at the first; without a count, the connections are counted."""
    firsts, lasts = (
        [row[name] for row in rows if row[name] is not None] for name in ("first_time_ns", "last_time_ns")
    )
    return Evidence(
        subject=subject,
        detail=detail,
        count=len(rows) if count is None else count,
        first_time_ns=min(firsts, default=None),
        last_time_ns=max(lasts, default=None),
        place=_location(rows[0]),
    )


def _location(row: Row) -> Location:
    return Location(
        time_ns=row["first_time_ns"],
        capture_file=None,
        request_packet=None,
        response_packet=None,
        topic=None,
        partition=None,
        detail=None,
        **{name: row[name] for name in ENDS},
    )
