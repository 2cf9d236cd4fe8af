"""The exchanges that the page can show in full, for its drawer: as many as fit, each once.

Those with errors come first, then the slowest, then the earliest. A row has the values of `COLUMNS` and, at
its end, an object with those of `RARE` that are there. Times are nanoseconds: the first from the first step,
the others from the first. Packets are numbers as `PageNames.packet_ref` makes them. `connections`
has what the exchanges of a connection share.
"""

import json
from typing import Any

import numpy as np

from kdissect.array_types import Int64s
from kdissect.report.build.page.page_names import PageNames, Plain, sorted_columns
from kdissect.report.build.page.size_budget import fitting_rows
from kdissect.report.timeline.count_examples import (
    EXAMPLES_BY_CONNECTION,
    EXAMPLES_BY_ERROR,
    EXAMPLES_BY_LATENCY,
    PARTITION_FIELDS,
)

MOST_FOR_EXAMPLES = 300_000
TIMES = ("request_first_ns", "request_last_ns", "response_first_ns", "response_last_ns")
SAME = ("ordinal", "api_version", "correlation_id", "request_bytes", "response_bytes")
COLUMNS = ("connection", "client", "request", "response", "api", *SAME, *TIMES)
RARE = (
    "status",
    "idle_wait",
    "in_flight",
    "error_code",
    "error_name",
    "error_count",
    "throttle_ms",
    "acks",
    "replica_id",
    "group_id",
    "generation",
    "transactional_id",
    "fault",
)
ORDINARY = {"status": "answered", "idle_wait": False, "in_flight": 1, "error_name": "NONE", "error_count": 0}
"""Values that are left out, beside null."""

ENDS = ("client_host", "client_port", "server_host", "server_port")
CONNECTION_COLUMNS = ("number", "place", "broker", *ENDS)


def list_examples(names: PageNames, most: int = MOST_FOR_EXAMPLES) -> Plain:
    """Return the examples: `columns` and `rows`, `connection_columns` and `connections`."""
    found: dict[tuple[Any, ...], list[Any]] = {}
    places: dict[int, int] = {}
    for part in (EXAMPLES_BY_ERROR, EXAMPLES_BY_LATENCY, EXAMPLES_BY_CONNECTION):
        columns = sorted_columns(names.partial, part)
        hosts = names.facts.column_at("client_host", names.facts.rows(columns)).to_pylist()
        for row, host in zip(columns.dicts(), hosts, strict=True):
            key = (
                row["connection"],
                row["ordinal"],
                row["capture_file"],
                row["request_packet"],
                row["response_packet"],
            )
            if row["connection"] is not None and key not in found:
                place = places.setdefault(row["connection"], len(places))
                found[key] = [place, *_values(names, row, host)]
    kept = fitting_rows(list(found.values()), most) if found else []
    used = max((row[0] for row in kept), default=-1) + 1
    return {
        "columns": COLUMNS,
        "rows": kept,
        "connection_columns": CONNECTION_COLUMNS,
        "connections": _connections(names, list(places)[:used]),
    }


def _values(names: PageNames, row: Plain, host: str | None) -> list[Any]:
    """Return the values of an exchange but for its connection."""
    rare = {name: row[name] for name in RARE if row[name] not in (None, ORDINARY.get(name))}
    if row["partitions"]:
        rare["partitions"] = _partitions(names, row["partitions"])
    begin = next((row[name] for name in TIMES if row[name] is not None), names.start_ns)
    return [
        names.client(row["client_id"], host),
        names.packet_ref(row["capture_file"], row["request_packet"]),
        names.packet_ref(row["capture_file"], row["response_packet"]),
        names.api(row["api_key"]),
        *(row[name] for name in SAME),
        *_times(names, row, begin),
        rare,
    ]


def _times(names: PageNames, row: Plain, begin: int) -> list[int | None]:
    later = [None if row[name] is None else row[name] - begin for name in TIMES]
    first = next((at for at, value in enumerate(later) if value is not None), 0)
    later[first] = names.since(begin)
    return later


def _partitions(names: PageNames, text: str) -> list[Plain]:
    """Return the partitions of an exchange, with the names of topics that are known by their ids."""
    listed = [dict(zip(PARTITION_FIELDS, one, strict=True)) for one in json.loads(text)]
    for one in listed:
        one["topic"] = names.topic(one["topic"], one.pop("topic_id"))
    return [
        {name: value for name, value in one.items() if value not in (None, 0) or name == "partition"}
        for one in listed
    ]


def _connections(names: PageNames, numbers: list[int]) -> list[list[Any]]:
    rows: Int64s = np.array([names.connection(number) for number in numbers], np.int64)
    ends = [names.facts.column_at(name, rows).to_pylist() for name in ENDS]
    return [
        [number, place, names.broker(end[2], end[3]), *end]
        for number, place, *end in zip(numbers, rows.tolist(), *ends, strict=True)
    ]
