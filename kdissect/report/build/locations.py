"""Sightings become places: errors, faults, and the first or worst exchange of each API."""

from typing import Any, NamedTuple

import numpy as np

from kdissect.report.aggregate.grouping import Columns, in_one
from kdissect.report.aggregate.merge import Partial
from kdissect.report.aggregate.partial_tables import SIGHTINGS
from kdissect.report.build.connection_facts import Facts
from kdissect.report.model import (
    ErrorSeen,
    FaultSeen,
    Place,
)

ADDRESS = ("client_host", "client_port", "server_host", "server_port")
SAME = (
    "time_ns", "capture_file", "request_packet", "response_packet", "connection", "client_id", "partition", "detail"
)  # fmt: skip


class Sighting(NamedTuple):
    """One row of the sightings, its place resolved."""

    kind: str
    api_key: int | None
    api_name: str | None
    api_version: int | None
    code: int | None
    name: str | None
    exchanges: int
    partitions: int
    place: Place


def sightings(
    partial: Partial, facts: Facts, names: dict[str, str], limit: int
) -> tuple[list[Sighting], int]:
    """Give the sightings, most frequent first, and how many faults were left out beyond `limit`."""
    seen = Columns(partial.part(SIGHTINGS))
    is_fault = seen.equals("kind", "fault")
    ranked = np.lexsort((-seen.ints("partitions"), -seen.ints("exchanges")))
    faults = ranked[is_fault[ranked]]
    kept = np.concatenate([ranked[~is_fault[ranked]], faults[:limit]])
    table = seen.table.take(kept)
    rows = facts.rows(Columns(table))
    client_ids = facts.client_ids(in_one(table["client_id"]), rows)
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


def _sighting(row: dict[str, Any], address: tuple[Any, ...], names: dict[str, str]) -> Sighting:
    topic = row["topic"] if row["topic"] is not None else names.get(row["topic_id"], row["topic_id"])
    place = Place(
        **{name: row[name] for name in SAME}, **dict(zip(ADDRESS, address, strict=True)), topic=topic
    )  # fmt: skip
    return Sighting(**{name: row[name] for name in Sighting._fields if name != "place"}, place=place)


def errors(found: list[Sighting]) -> tuple[ErrorSeen, ...]:
    """Give the errors among the sightings."""
    return tuple(
        ErrorSeen(
            api_key=row.api_key, api_name=row.api_name, error_code=row.code or 0, error_name=row.name,
            exchanges=row.exchanges, partitions=row.partitions, first=row.place,
        )
        for row in found
        if row.kind == "error"
    )  # fmt: skip


def faults(found: list[Sighting]) -> tuple[FaultSeen, ...]:
    """Give the faults among the sightings."""
    return tuple(
        FaultSeen(
            api_key=row.api_key, api_name=row.api_name, api_version=row.api_version, shape=row.name or "",
            exchanges=row.exchanges, first=row.place,
        )
        for row in found
        if row.kind == "fault"
    )  # fmt: skip


def first_places(found: list[Sighting]) -> dict[tuple[str, int | None, int | None], Place]:
    """Give the place of each kind, API key and version."""
    return {
        (row.kind, row.api_key, row.api_version): row.place
        for row in found
        if row.kind not in ("error", "fault")
    }
