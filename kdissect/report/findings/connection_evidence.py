"""Connections as evidence: rows of the connections table that a rule chose, gathered under a subject, with the place of the first."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kdissect.report.aggregate.grouping import Mask
from kdissect.report.aggregate.histogram import Ints
from kdissect.report.findings.context import FindingContext
from kdissect.report.model.summary import Evidence, Location

ENDS = ("connection", "client_host", "client_port", "server_host", "server_port", "client_id")
Row = dict[str, Any]


def select_connections(scene: FindingContext, chosen: Mask | Ints, *more: str) -> list[Row]:
    """Give connections, the earliest first: their ends, times, and more columns."""
    rows = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
    table = scene.facts.columns.table.select([*ENDS, "first_time_ns", "last_time_ns", *more]).take(rows)
    found: list[Row] = table.to_pylist()
    return sorted(found, key=lambda row: (row["first_time_ns"] or 0, row["connection"]))


def group_connections(rows: Iterable[Row], name: Any) -> list[tuple[Any, list[Row]]]:
    """Gather rows by what `name` gives for each, most rows first."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(name(row), []).append(row)
    return sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))


def client_label(row: Row) -> str:
    """The client id and the host, as people tell clients apart."""
    return f"{row['client_id'] or '(no client id)'} at {row['client_host'] or '?'}"


def server_label(row: Row) -> str:
    """The address that the client spoke to."""
    return f"{row['server_host'] or '?'}:{row['server_port']}"


def host_labels(rows: Iterable[Row]) -> str:
    """Name the hosts of clients, as many as fit a line."""
    names = sorted({row["client_host"] or "?" for row in rows})
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def connection_location(row: Row) -> Location:
    """Where a connection is in the capture: which it is, and when it began."""
    return Location(
        time_ns=row["first_time_ns"], capture_file=None, request_packet=None, response_packet=None, topic=None,
        partition=None, detail=None, **{name: row[name] for name in ENDS},
    )  # fmt: skip


def connection_evidence(subject: str, detail: str, rows: Sequence[Row], count: int | None = None) -> Evidence:
    """Make evidence of connections, counted one by one unless something of theirs is counted."""
    return Evidence(
        subject=subject,
        detail=detail,
        count=len(rows) if count is None else count,
        first_time_ns=min((row["first_time_ns"] for row in rows if row["first_time_ns"] is not None), default=None),
        last_time_ns=max((row["last_time_ns"] for row in rows if row["last_time_ns"] is not None), default=None),
        place=connection_location(rows[0]),
    )  # fmt: skip
