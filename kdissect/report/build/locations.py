"""Sightings become places: errors, faults, and the first or worst exchange of each API."""

from typing import Any, NamedTuple

import numpy as np

from kdissect.report.aggregate.grouping import TableColumns, combine_chunks
from kdissect.report.aggregate.partial_tables import FIRST_SEEN
from kdissect.report.model.summary import (
    ErrorRow,
    FaultRow,
    Location,
)
from kdissect.report.partials import Partial
from kdissect.report.query.connection_facts import ConnectionFacts

ADDRESS = ("client_host", "client_port", "server_host", "server_port")
SAME = (
    "time_ns", "capture_file", "request_packet", "response_packet", "connection", "client_id", "partition", "detail"
)  # fmt: skip


class FirstSeenRow(NamedTuple):
    """One row of the sightings, its place resolved."""

    kind: str
    api_key: int | None
    api_name: str | None
    api_version: int | None
    code: int | None
    name: str | None
    exchanges: int
    partitions: int
    place: Location


def first_seen_rows(
    partial: Partial, facts: ConnectionFacts, names: dict[str, str], limit: int
) -> tuple[list[FirstSeenRow], int]:
    """Give the sightings, most frequent first, and how many faults were left out beyond `limit`."""
    seen = TableColumns(partial.part(FIRST_SEEN))
    is_fault = seen.equals("kind", "fault")
    ranked = np.lexsort((-seen.ints("partitions"), -seen.ints("exchanges")))
    faults = ranked[is_fault[ranked]]
    kept = np.concatenate([ranked[~is_fault[ranked]], faults[:limit]])
    table = seen.table.take(kept)
    rows = facts.rows(TableColumns(table))
    client_ids = facts.client_ids(combine_chunks(table["client_id"]), rows)
    table = table.set_column(table.schema.get_field_index("client_id"), "client_id", client_ids)
    addresses = zip(*(facts.taken(name, rows).to_pylist() for name in ADDRESS), strict=True)
    found = [
        _sighting(row, address, names) for row, address in zip(table.to_pylist(), addresses, strict=True)
    ]
    found.sort(
        key=lambda row: (
            -row.exchanges,
            -row.partitions,
            row.api_key or 0,
            row.api_version or 0,
            row.code or 0,
            row.name or "",
        )
    )
    return found, max(len(faults) - limit, 0)


def _sighting(row: dict[str, Any], address: tuple[Any, ...], names: dict[str, str]) -> FirstSeenRow:
    topic = row["topic"] if row["topic"] is not None else names.get(row["topic_id"], row["topic_id"])
    place = Location(
        **{name: row[name] for name in SAME}, **dict(zip(ADDRESS, address, strict=True)), topic=topic
    )  # fmt: skip
    return FirstSeenRow(**{name: row[name] for name in FirstSeenRow._fields if name != "place"}, place=place)


def error_rows(found: list[FirstSeenRow]) -> tuple[ErrorRow, ...]:
    """Give the errors among the sightings."""
    return tuple(
        ErrorRow(
            api_key=row.api_key, api_name=row.api_name, error_code=row.code or 0, error_name=row.name,
            exchanges=row.exchanges, partitions=row.partitions, first=row.place,
        )
        for row in found
        if row.kind == "error"
    )  # fmt: skip


def fault_rows(found: list[FirstSeenRow]) -> tuple[FaultRow, ...]:
    """Give the faults among the sightings."""
    return tuple(
        FaultRow(
            api_key=row.api_key, api_name=row.api_name, api_version=row.api_version, shape=row.name or "",
            exchanges=row.exchanges, first=row.place,
        )
        for row in found
        if row.kind == "fault"
    )  # fmt: skip


def first_locations(found: list[FirstSeenRow]) -> dict[tuple[str, int | None, int | None], Location]:
    """Give the place of each kind, API key and version."""
    return {
        (row.kind, row.api_key, row.api_version): row.place
        for row in found
        if row.kind not in ("error", "fault")
    }
