"""Rows of tables that findings and their text are tested with: connections, exchanges, partitions.

An API is (key, name, version). Times are milliseconds after the start of the capture, latencies nanoseconds.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from kdissect.report.aggregate.partial_tables import PartialTable
from kdissect.report.build.build_report import build_report
from kdissect.report.findings.finding_context import FindingContext
from kdissect.report.findings.observations import find_observations
from kdissect.report.model.summary import CaptureFacts, ProfileBy, Summary
from kdissect.report.partials import summarise
from kdissect.report.query.call_table import CallTable
from kdissect.report.query.connection_facts import read_connection_facts
from kdissect.report.query.topic_names import TopicNames
from kdissect.report.render.json import to_json
from kdissect.tables.schemas import CONNECTIONS, EXCHANGES, PARTITIONS
from tests.helpers import paper_capture
from tests.helpers.paper_capture import MS, US, T

Api = tuple[int, str, int]
Row = dict[str, Any]
SECOND = 10**9

PRODUCE, FETCH, METADATA = (0, "Produce", 9), (1, "Fetch", 13), (3, "Metadata", 12)
JOIN, HEARTBEAT, LEAVE = (11, "JoinGroup", 9), (12, "Heartbeat", 4), (13, "LeaveGroup", 5)
COMMIT, SASL, VOTE = (8, "OffsetCommit", 9), (36, "SaslAuthenticate", 2), (52, "Vote", 1)
ADD_PARTITIONS, END_TXN = (24, "AddPartitionsToTxn", 3), (26, "EndTxn", 3)


def connection(number: int, **more: Any) -> Row:
    """Return a connection that was captured in full and was open for a minute."""
    counts = dict.fromkeys(("bytes_to_server", "bytes_to_client", "packets"), 1000) | dict.fromkeys(
        (
            "lost_bytes",
            "zero_windows",
            "retransmitted_segments",
            "conflicting_segments",
            "out_of_order_segments",
            "duplicate_packets",
        ),
        0,
    )
    own = {
        "connection": number,
        "client_host": f"10.1.0.{number}",
        "client_port": 40000 + number,
        "server_host": "10.0.0.1",
        "server_port": 9092,
        "first_time_ns": T,
        "last_time_ns": T + 60 * SECOND,
        "opened": "handshake",
        "closed": "fin",
        "protocol": "kafka",
        "server_rtt_ns": 200 * US,
        "client_id": f"client-{number}",
        "faults": 0,
    }
    return counts | own | more


def exchange_of(
    number: int, ordinal: int, api: Api, at_ms: int, latency: int | None = MS, **more: Any
) -> Row:
    """Return an exchange of a connection; no latency stands for no response."""
    return paper_capture.exchange(number, ordinal, api, at_ms, latency, client_id=f"client-{number}") | more


def failing(number: int, api: Api, code: int, times: list[int], **more: Any) -> list[Row]:
    """Return exchanges with an error, one for each time in milliseconds."""
    return [
        exchange_of(number, at, api, time, error_code=code, error_count=1, **more)
        for at, time in enumerate(times)
    ]


def produced(api_key: int, ordinals: int, **more: Any) -> list[Row]:
    """Return one partition of `orders` for each exchange of connection 1."""
    return [
        paper_capture.partition(1, ordinal, api_key, 0, None, topic="orders") | more
        for ordinal in range(ordinals)
    ]


def tables(
    exchanges: Sequence[Row], partitions: Sequence[Row] = (), connections: Sequence[Row] | None = None
) -> dict[str, pa.Table]:
    """Return these rows as tables; two connections unless others are given."""
    return {
        "connections": paper_capture.table(
            [connection(1), connection(2)] if connections is None else list(connections), CONNECTIONS
        ),
        "exchanges": paper_capture.table(list(exchanges), EXCHANGES),
        "partitions": paper_capture.table(list(partitions), PARTITIONS),
    }


def report(
    exchanges: Sequence[Row],
    partitions: Sequence[Row] = (),
    connections: Sequence[Row] | None = None,
    facts: CaptureFacts | None = None,
) -> Summary:
    """Return the report of these rows; two connections unless others are given."""
    return build_report(summarise(tables(exchanges, partitions, connections)), facts or CaptureFacts())


def rows_of(
    kind: PartialTable,
    exchanges: Sequence[Row],
    partitions: Sequence[Row] = (),
    connections: Sequence[Row] | None = None,
) -> list[Row]:
    """Return the rows of one table of the partial of these rows, sorted by all their values."""
    rows: list[Row] = summarise(tables(exchanges, partitions, connections)).table(kind).to_pylist()
    return sorted(rows, key=lambda row: [(value is None, value) for value in row.values()])


def many(
    count: int,
    api: Api,
    step_ms: float,
    latency: int | None = MS,
    number: int = 1,
    **more: Any,
) -> list[Row]:
    """Return exchanges of one API at a steady pace."""
    return [exchange_of(number, at, api, int(at * step_ms), latency, **more) for at in range(count)]


def unanswered(api: Api, at_ms: int) -> list[Row]:
    """Return one request without a response."""
    return [exchange_of(1, 0, api, at_ms, None, status="unanswered")]


def json_report(
    latencies_us: Iterable[float],
    errors: int = 0,
    *,
    api: Api = PRODUCE,
    by: ProfileBy = ProfileBy.API,
    **more: Any,
) -> Row:
    """Return the JSON report of calls with these latencies, the first ones with errors: what is compared."""
    rows = [
        paper_capture.exchange(1, at, api, at, int(latency * 1000), **more)
        | {"error_code": 6 if at < errors else 0}
        for at, latency in enumerate(latencies_us)
    ]
    for row in rows:
        row["error_name"] = "NOT_LEADER_OR_FOLLOWER" if row["error_code"] else "NONE"
    both = {
        "exchanges": pa.Table.from_pylist(rows, EXCHANGES),
        "connections": paper_capture.tables()["connections"],
    }
    text = to_json(build_report(summarise(both), CaptureFacts(files=("x.pcap",)), by=by))
    return dict(json.loads(text))


def context_of(partial, summary):
    """Return what rules look at, without topics."""
    facts = read_connection_facts(partial)
    observations, _ = find_observations(partial, facts, TopicNames(partial))
    return FindingContext(
        CaptureFacts(),
        facts,
        summary.connections,
        summary.totals,
        (),
        CallTable(partial, facts),
        observations,
    )
