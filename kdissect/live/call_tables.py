"""Figures of calls by topic and by connection, of one batch: added up, and bounded.

In come the partials of a batch. Out come sums by name and API. A batch has at most MOST_NAMES names in each
table, those with the most exchanges; the others are added up under "other". `call_series` has the figures by
API, broker, client and group, which a watch keeps from its first batch on.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from kdissect.live.call_series import LATENCY_BOUNDS_NS, OTHER, CallSums, bound_indices
from kdissect.protocol.schema.registry import api_name
from kdissect.report.aggregate.partial_tables import (
    CALLS,
    CONNECTION_FACTS,
    LATENCIES,
    TOPIC_CALLS,
    TOPIC_FLOWS,
    TOPIC_LATENCIES,
)
from kdissect.report.partials import Partial
from kdissect.report.wording import client_id_text
from kdissect.text import format_address

MOST_NAMES = 200

CallTable: TypeAlias = dict[tuple[str, str], CallSums]
"""Sums by name, such as that of a topic, and by API."""


def by_connection(finished: Partial, unfinished: Partial) -> CallTable:
    """Return the calls of a batch by connection; those that are open are named in `unfinished`."""
    calls = finished.table(CALLS)
    busiest = _busiest(calls, ["connection"])
    names = _connections(busiest, unfinished, finished)

    def name(row: Mapping[str, Any]) -> str:
        return names.get(row["connection"], OTHER)

    table: CallTable = {}
    sums = ("exchanges", "errors", "request_bytes", "response_bytes")
    for row in _grouped(calls, ("connection", "api_key", "status"), sums):
        total = _of(table, name(row), row)
        for column in sums:
            setattr(total, column, getattr(total, column) + row[f"{column}_sum"])
        total.unanswered += row["exchanges_sum"] if row["status"] == "unanswered" else 0
    _add_latencies(table, finished.table(LATENCIES), ("connection",), name)
    return table


def by_topic(finished: Partial, names: Mapping[str, str]) -> CallTable:
    """Return the calls of a batch by topic; `names` are those of topics by id.

    An exchange counts for each topic that it names. Bytes are those of records.
    """
    calls = finished.table(TOPIC_CALLS)
    busiest = {_topic(topic, number, names) for topic, number in _busiest(calls, ["topic", "topic_id"])}

    def name(row: Mapping[str, Any]) -> str:
        topic = _topic(row["topic"], row["topic_id"], names)
        return topic if topic in busiest else OTHER

    table: CallTable = {}
    for row in _grouped(calls, ("topic", "topic_id", "api_key"), ("exchanges",)):
        _of(table, name(row), row).exchanges += row["exchanges_sum"]
    for row in _grouped(
        finished.table(TOPIC_FLOWS), ("topic", "topic_id", "api_key"), ("errors", "record_bytes")
    ):
        total = _of(table, name(row), row)
        total.errors += row["errors_sum"]
        total.request_bytes += row["record_bytes_sum"]
    _add_latencies(table, finished.table(TOPIC_LATENCIES), ("topic", "topic_id"), name)
    return table


def _topic(topic: str | None, topic_id: str | None, names: Mapping[str, str]) -> str:
    return topic or names.get(topic_id or "") or topic_id or ""


def _busiest(calls: pa.Table, keys: list[str]) -> set[Any]:
    """Return the keys with the most exchanges: a value, or a tuple of several."""
    added = calls.group_by(keys).aggregate([("exchanges", "sum")])
    most = added.sort_by([("exchanges_sum", "descending"), *((key, "ascending") for key in keys)])
    columns = [most.slice(0, MOST_NAMES)[key].to_pylist() for key in keys]
    return set(columns[0]) if len(keys) == 1 else set(zip(*columns, strict=True))


def _connections(wanted: set[int], *partials: Partial) -> dict[int, str]:
    """Return clients and both addresses of connections as text."""
    columns = ["connection", "client_id", "client_host", "client_port", "server_host", "server_port"]
    names = {}
    for partial in partials:
        table = partial.table(CONNECTION_FACTS).select(columns)
        chosen = table.filter(pa.compute.is_in(table["connection"], pa.array(list(wanted), pa.int64())))
        for number, client_id, *ends in zip(*(chosen[each].to_pylist() for each in columns), strict=True):
            client, server = format_address(ends[0] or "?", ends[1]), format_address(ends[2] or "?", ends[3])
            names[number] = f"{client_id_text(client_id)} {client} → {server}"
    return names


def _grouped(table: pa.Table, keys: Iterable[str], sums: Iterable[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        table.group_by(list(keys)).aggregate([(column, "sum") for column in sums]).to_pylist()
    )
    return rows


def _of(table: CallTable, name: str, row: Mapping[str, Any]) -> CallSums:
    return table.setdefault((name, api_name(row["api_key"])), CallSums())


def _add_latencies(
    table: CallTable, latencies: pa.Table, keys: tuple[str, ...], name: Callable[[Mapping[str, Any]], str]
) -> None:
    """Add counts of latencies by their bounds; waits by design are left out."""
    busy = latencies.filter(pa.compute.invert(latencies["idle_wait"]))
    bounded = busy.append_column("bound", pa.array(bound_indices(busy["bucket"])))
    for row in _grouped(bounded, (*keys, "api_key", "bound"), ("count",)):
        counts = _of(table, name(row), row).by_bound
        counts[min(row["bound"], len(LATENCY_BOUNDS_NS))] += row["count_sum"]
