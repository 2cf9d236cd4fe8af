"""Connections as TCP saw them, troubled and busy ones first, and round trips by client and broker."""

from typing import Any

import numpy as np

from kdissect.array_types import Bools
from kdissect.report.aggregate.quantiles import quantile
from kdissect.report.build.page.page_names import (
    PageNames,
    Plain,
)
from kdissect.report.query.connection_facts import KAFKA

MOST_CONNECTIONS = 400
SAME = (
    "client_port",
    "opened",
    "closed",
    "protocol",
    "packets",
    "bytes_to_server",
    "bytes_to_client",
    "retransmitted_segments",
    "out_of_order_segments",
    "lost_bytes",
    "zero_windows",
    "server_rtt_ns",
    "client_rtt_ns",
    "requests",
    "responses",
    "unanswered",
    "orphan_responses",
    "client_host",
    "server_host",
    "server_port",
)
SECURITY = (
    "sasl_mechanism",
    "sasl_outcome",
    "sasl_error",
    "tls_version",
    "tls_sni",
    "tls_outcome",
    "tls_alert",
    "tls_alert_by",
)
"""Columns that a connection has only if they are not null."""

TROUBLES = ("retransmitted_segments", "zero_windows", "lost_bytes", "unanswered", "orphan_responses")


def describe_connections(names: PageNames) -> Plain:
    """Return the connections, numbered as in the pivot."""
    columns = names.facts.columns
    trouble = sum((columns.ints(name) > 0).astype(np.int64) for name in TROUBLES)
    trouble = trouble + columns.equals("closed", "rst")
    trouble = trouble + columns.equals("sasl_outcome", "failed") + columns.equals("tls_outcome", "failed")
    traffic = columns.ints("bytes_to_server") + columns.ints("bytes_to_client")
    kafka = _kafka(names)
    order = np.lexsort((names.facts.numbers, -traffic, -trouble, ~kafka))[:MOST_CONNECTIONS]
    rows = columns.take(order).dicts()
    result = [_row(names, at, row) for at, row in zip(order.tolist(), rows, strict=True)]
    return {"rows": result, "omitted": max(columns.rows - MOST_CONNECTIONS, 0)}


def _kafka(names: PageNames) -> Bools:
    kafka = np.zeros(names.facts.columns.rows, bool)
    for name in KAFKA:
        kafka |= names.facts.columns.equals("protocol", name)
    return kafka


def _row(names: PageNames, number: int, row: dict[str, Any]) -> Plain:
    return {
        "number": number,
        "client": names.client(row["client_id"], row["client_host"]),
        "label": row["client_id"],
        "broker": names.broker(row["server_host"], row["server_port"]),
        "from": names.since(row["first_time_ns"]),
        "to": names.since(row["last_time_ns"]),
        **{name: row[name] for name in SAME},
        "security": {name: row[name] for name in SECURITY if row[name] is not None} or None,
    }


def round_trips(names: PageNames) -> list[list[int | None]]:
    """Return a row for each pair of client and broker with a handshake.

    A row is client, broker, number of connections, median and maximum to the server, median and maximum to
    the client (ns).
    """
    by_pair: dict[tuple[int, int], list[tuple[int | None, int | None]]] = {}
    wanted = ("client_id", "client_host", "server_host", "server_port", "server_rtt_ns", "client_rtt_ns")
    for client_id, host, server, port, there, back in zip(
        *map(names.facts.columns.values, wanted), strict=True
    ):
        if there is not None or back is not None:
            pair = names.client(client_id, host), names.broker(server, port)
            by_pair.setdefault(pair, []).append((there, back))
    return [
        [*pair, len(trips), *_middle([there for there, _ in trips]), *_middle([back for _, back in trips])]
        for pair, trips in sorted(by_pair.items())
    ]


def _middle(values: list[int | None]) -> tuple[int | None, int | None]:
    known = sorted(value for value in values if value is not None and value >= 0)
    return (quantile(known, 500), known[-1]) if known else (None, None)
