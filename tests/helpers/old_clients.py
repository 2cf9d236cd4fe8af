"""Clients of all ages as a partial report: what an upgrade check judges."""

from typing import Any

import pyarrow as pa

from kdissect.report.partials import Partial, summarise
from kdissect.tables.schemas import EXCHANGES
from tests.helpers import paper_capture

CALLS: list[tuple[str, tuple[int, str, int]]] = [
    ("old", (0, "Produce", 2)),
    ("old", (0, "Produce", 2)),
    ("old", (1, "Fetch", 3)),
    ("asks", (18, "ApiVersions", 0)),
    ("asks", (0, "Produce", 2)),
    ("new", (0, "Produce", 9)),
    ("new", (18, "ApiVersions", 3)),
    ("broker", (4, "LeaderAndIsr", 4)),
    ("joins", (11, "JoinGroup", 1)),
]


def call(client: str, ordinal: int, api: tuple[int, str, int], **more: Any) -> dict[str, Any]:
    """Return a call of a client, one in each millisecond."""
    row: dict[str, Any] = paper_capture.exchange(1, ordinal, api, ordinal, paper_capture.MS)
    return row | {"client_id": client} | more


def old_clients() -> Partial:
    """Return the partial of `CALLS`, and of a client `ancient` that speaks Kafka 0.7."""
    rows = [call(client, at, api) for at, (client, api) in enumerate(CALLS)]
    rows.append(call("ancient", 90, (0, "Produce", 0)) | {"api_version": None})
    tables = paper_capture.tables()
    return summarise(
        {"exchanges": pa.Table.from_pylist(rows, EXCHANGES), "connections": tables["connections"]}
    )
