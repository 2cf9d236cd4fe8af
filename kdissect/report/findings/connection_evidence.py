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
TIMES = ("first_time_ns", "last_time_ns")
HOSTS_NAMED = 3
Row = dict[str, Any]
Subject = TypeVar("Subject", str, tuple[str, str])


def select_connections(context: FindingContext, chosen: Bools | Int64s, *more: str) -> list[Row]:
    """Return connections, the earliest first: both ends, times, and `more` columns."""
    rows = _numbers(chosen)
    connections = context.facts.columns.take(rows).dicts(*ENDS, *TIMES, *more)
    return sorted(connections, key=lambda row: (row["first_time_ns"] or 0, row["connection"]))


def _numbers(chosen: Bools | Int64s) -> Int64s:
    """Return the numbers of rows that a mask or their numbers choose."""
    numbers: Int64s = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.int64)
    return numbers


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
    times = ([row[name] for row in rows if row[name] is not None] for name in TIMES)
    return _evidence(subject, detail, len(rows) if count is None else count, times, rows[0])


def chosen_evidence(
    context: FindingContext, subject: str, detail: str, chosen: Bools | Int64s, count: int | None = None
) -> Evidence:
    """Return the evidence of connections that were chosen, as `connection_evidence` does for their rows.

    No row is made of any but the earliest: a server may have 100,000.
    """
    rows, columns = _numbers(chosen), context.facts.columns
    begins = columns.ints("first_time_ns")[rows]
    earliest = select_connections(context, rows[begins == begins.min()])[0]
    times = (columns.ints(name)[rows][columns.present(name)[rows]].tolist() for name in TIMES)
    return _evidence(subject, detail, len(rows) if count is None else count, times, earliest)


def _evidence(
    subject: str, detail: str, count: int, times: Iterable[Sequence[int]], earliest: Row
) -> Evidence:
    """Return evidence with the span of `TIMES` of its connections, located at the earliest of them."""
    firsts, lasts = times
    return Evidence(
        subject=subject,
        detail=detail,
        count=count,
        first_time_ns=min(firsts, default=None),
        last_time_ns=max(lasts, default=None),
        place=_location(earliest),
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
