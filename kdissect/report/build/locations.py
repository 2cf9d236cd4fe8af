"""Errors, faults, and the first or worst exchange of each API, with their locations in the capture."""

from typing import NamedTuple

import numpy as np

from kdissect.report.aggregate.partial_tables import FIRST_SEEN
from kdissect.report.model.findings import Location
from kdissect.report.model.limited import Limited
from kdissect.report.model.summary import ErrorRow, FaultRow
from kdissect.report.partials import Partial
from kdissect.report.query.connection_facts import ConnectionFacts, capture_locations
from kdissect.report.query.topic_names import TopicNames


class FirstSeenRow(NamedTuple):
    """One row of FIRST_SEEN with its location."""

    kind: str
    api_key: int | None
    api_name: str | None
    api_version: int | None
    code: int | None
    name: str | None
    exchanges: int
    partitions: int
    location: Location


def first_seen_rows(
    partial: Partial, facts: ConnectionFacts, topics: TopicNames, most_faults: int
) -> Limited[FirstSeenRow]:
    """Return the rows of FIRST_SEEN, most frequent first; of the faults, no more than `most_faults`."""
    columns = partial.columns(FIRST_SEEN)
    is_fault = columns.equals("kind", "fault")
    order = np.lexsort((-columns.ints("partitions"), -columns.ints("exchanges")))
    faults = order[is_fault[order]]
    kept = columns.take(np.concatenate([order[~is_fault[order]], faults[:most_faults]]))
    locations = capture_locations(kept, kept.values("time_ns"), facts, topics)
    own = FirstSeenRow._fields[:-1]
    rows = [
        FirstSeenRow(**row, location=location)
        for row, location in zip(kept.dicts(*own), locations, strict=True)
    ]
    rows.sort(
        key=lambda row: (
            -row.exchanges,
            -row.partitions,
            row.api_key or 0,
            row.api_version or 0,
            row.code or 0,
            row.name or "",
        )
    )
    return Limited(tuple(rows), max(len(faults) - most_faults, 0))


def error_rows(rows: tuple[FirstSeenRow, ...]) -> tuple[ErrorRow, ...]:
    """Return the errors among rows of FIRST_SEEN."""
    return tuple(
        ErrorRow(
            api_key=row.api_key,
            api_name=row.api_name,
            error_code=row.code or 0,
            error_name=row.name,
            exchanges=row.exchanges,
            partitions=row.partitions,
            first=row.location,
        )
        for row in rows
        if row.kind == "error"
    )


def fault_rows(rows: tuple[FirstSeenRow, ...]) -> tuple[FaultRow, ...]:
    """Return the faults among rows of FIRST_SEEN."""
    return tuple(
        FaultRow(
            api_key=row.api_key,
            api_name=row.api_name,
            api_version=row.api_version,
            shape=row.name or "",
            exchanges=row.exchanges,
            first=row.location,
        )
        for row in rows
        if row.kind == "fault"
    )


def first_locations(rows: tuple[FirstSeenRow, ...]) -> dict[tuple[str, int | None, int | None], Location]:
    """Return the location of each kind, API key and version, errors and faults left out."""
    return {
        (row.kind, row.api_key, row.api_version): row.location
        for row in rows
        if row.kind not in ("error", "fault")
    }
