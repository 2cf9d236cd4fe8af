"""Connections as evidence: rows of the connections table that a rule chose, gathered under a subject, with the place of the first."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kdissect.report.aggregate.grouping import Mask
from kdissect.report.aggregate.histogram import Ints
from kdissect.report.findings.rule_input import Scene
from kdissect.report.model import Evidence, Place

ENDS = ("connection", "client_host", "client_port", "server_host", "server_port", "client_id")
Row = dict[str, Any]


def connections(scene: Scene, chosen: Mask | Ints, *more: str) -> list[Row]:
    """Give connections, the earliest first: their ends, times, and more columns."""
    rows = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
    table = scene.facts.columns.table.select([*ENDS, "first_time_ns", "last_time_ns", *more]).take(rows)
    found: list[Row] = table.to_pylist()
    return sorted(found, key=lambda row: (row["first_time_ns"] or 0, row["connection"]))


def by(rows: Iterable[Row], name: Any) -> list[tuple[Any, list[Row]]]:
    """Gather rows by what `name` gives for each, most rows first."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(name(row), []).append(row)
    return sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))


def client(row: Row) -> str:
    """The client id and the host, as people tell clients apart."""
    return f"{row['client_id'] or '(no client id)'} at {row['client_host'] or '?'}"


def server(row: Row) -> str:
    """The address that the client spoke to."""
    return f"{row['server_host'] or '?'}:{row['server_port']}"


def hosts(rows: Iterable[Row]) -> str:
    """Name the hosts of clients, as many as fit a line."""
    names = sorted({row["client_host"] or "?" for row in rows})
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def place(row: Row) -> Place:
    """Where a connection is in the capture: which it is, and when it began."""
    return Place(
        time_ns=row["first_time_ns"], capture_file=None, request_packet=None, response_packet=None, topic=None,
        partition=None, detail=None, **{name: row[name] for name in ENDS},
    )  # fmt: skip


def connected(subject: str, detail: str, rows: Sequence[Row], count: int | None = None) -> Evidence:
    """Make evidence of connections, counted one by one unless something of theirs is counted."""
    return Evidence(
        subject=subject,
        detail=detail,
        count=len(rows) if count is None else count,
        first_time_ns=min((row["first_time_ns"] for row in rows if row["first_time_ns"] is not None), default=None),
        last_time_ns=max((row["last_time_ns"] for row in rows if row["last_time_ns"] is not None), default=None),
        place=place(rows[0]),
    )  # fmt: skip
