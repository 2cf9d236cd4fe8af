"""Made-up traffic between hosts, second by second, as the tables about TCP have it; and its report."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from kdissect.report.build.build_report import build_report
from kdissect.report.model.summary import CaptureFacts, Summary
from kdissect.report.partials import summarise
from kdissect.report.timeline.grid import SIGNAL_STEPS, grid_over
from kdissect.tables.schemas import BROKERS, ENDS, TCP_SPANS, TCP_STEPS
from tests.helpers.paper_capture import T
from tests.helpers.report_rows import Row, connection, tables

SECOND = 10**9
MS = 10**6
LENGTH_S = 40
BROKER_HOSTS = ("10.0.0.1", "10.0.0.2")
CLIENT_HOSTS = ("10.1.0.1", "10.1.0.2")
BEGIN = T // SECOND * SECOND
CUT_S, BACK_S = 15, 23
"""When a path is cut, and when it is well again."""


def pair_connections(client_id: str | None = None) -> list[Row]:
    """Return two connections of each client host with each broker, by different clients."""
    rows = []
    for client_host in CLIENT_HOSTS:
        for server_host in BROKER_HOSTS:
            for _ in range(2):
                number = len(rows) + 1
                rows.append(
                    connection(
                        number, client_host=client_host, server_host=server_host, closed="open",
                        first_time_ns=BEGIN, last_time_ns=BEGIN + LENGTH_S * SECOND,
                        client_id=client_id or f"client-{number}",
                    )
                )  # fmt: skip
    return rows


def step(client: str, server: str, to_server: bool, second: int, **more: Any) -> Row:
    """Return one direction of a path in one second: ten segments, acknowledged within 0.1 ms."""
    own = {
        "connection": 1, "client_host": client, "server_host": server, "server_port": 9092,
        "to_server": to_server, "begin_ns": BEGIN + second * SECOND,
        "first_ns": BEGIN + second * SECOND + MS, "last_ns": BEGIN + second * SECOND + 990 * MS,
        "segments": 10, "bytes": 1000, "ack_count": 5, "ack_ns": 5 * MS // 10, "ack_min_ns": MS // 10,
        "ack_max_ns": MS // 5, "reply_min_ns": None, "reply_max_ns": None, "repeated_first_ns": None,
        "repeated_last_ns": None, "largest_acked": 200,
    }  # fmt: skip
    return dict.fromkeys(TCP_STEPS.names, 0) | own | more


def traffic(seconds: Iterable[int] = range(LENGTH_S), **more: Any) -> list[Row]:
    """Return steps of all paths in both directions."""
    return [
        step(client, server, to_server, second, **more)
        for second in seconds
        for client in CLIENT_HOSTS
        for server in BROKER_HOSTS
        for to_server in (True, False)
    ]


def standstill(client: str, server: str, to_server: bool, begin_ms: float, end_ms: float, **more: Any) -> Row:
    """Return a time in which data of connection 1 was not acknowledged, and sent again five times."""
    own = {
        "connection": 1, "client_host": client, "server_host": server, "server_port": 9092,
        "to_server": to_server, "begin_ns": BEGIN + round(begin_ms * MS),
        "end_ns": BEGIN + round(end_ms * MS), "kind": "unacknowledged", "outcome": "acknowledged",
        "packets": 5, "most_repeats": 5, "segment_bytes": 100, "bytes": 100, "capture_file": "a.pcap",
    }  # fmt: skip
    return dict.fromkeys(TCP_SPANS.names, 0) | own | more


def report_of(
    steps: Sequence[Row],
    spans: Sequence[Row] = (),
    connections: Sequence[Row] | None = None,
    brokers: Sequence[Row] = (),
    exchanges: Sequence[Row] = (),
    *,
    on_grid: bool = False,
) -> Summary:
    """Return the report of these rows, with the tables of signals about exchanges if they are on a grid."""
    connections = pair_connections() if connections is None else connections
    ends = [{name: row.get(name) for name in ENDS.names} for row in connections] if on_grid else []
    rows = tables(exchanges, (), connections) | {
        "ends": pa.Table.from_pylist(ends, schema=ENDS),
        "tcp_steps": pa.Table.from_pylist(list(steps), schema=TCP_STEPS),
        "tcp_spans": pa.Table.from_pylist(list(spans), schema=TCP_SPANS),
        "brokers": pa.Table.from_pylist(list(brokers), schema=BROKERS),
    }
    facts = CaptureFacts(first_time_ns=BEGIN, last_time_ns=BEGIN + LENGTH_S * SECOND)
    grid = grid_over(facts.first_time_ns, facts.last_time_ns, SIGNAL_STEPS) if on_grid else None
    return build_report(summarise(rows, None, grid), facts)


def causes(summary: Summary) -> list[tuple[str, str]]:
    """Return cause and subject of each incident."""
    return [(incident.cause, incident.subject.name) for incident in summary.incidents]


def sender_of(row: Row) -> str:
    """Return the host that sends in a step."""
    return row["client_host"] if row["to_server"] else row["server_host"]


def without(rows: list[Row], hosts: set[str], pair: set[str]) -> list[Row]:
    """Return steps without those that `hosts` send to each other host of a pair while the path is cut."""
    return [
        row
        for row in rows
        if not (
            CUT_S <= (row["begin_ns"] - BEGIN) // SECOND < BACK_S
            and sender_of(row) in hosts
            and pair <= {row["client_host"], row["server_host"]}
        )
    ]
