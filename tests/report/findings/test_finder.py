"""Findings are ordered by severity."""

from collections.abc import Sequence
from typing import Any

from kdissect.report.build.report import build_report
from kdissect.report.model.summary import CaptureFacts, Severity
from kdissect.report.partials import (
    EMPTY,
    summarise,
)
from kdissect.tables.schemas import (
    CONNECTIONS,
    EXCHANGES,
    PARTITIONS,
)
from tests.report import paper_capture as handmade
from tests.report.paper_capture import MS, US, T

SECOND = 10**9


PRODUCE, FETCH, METADATA = (0, "Produce", 9), (1, "Fetch", 13), (3, "Metadata", 12)


JOIN, HEARTBEAT, COMMIT = (11, "JoinGroup", 9), (12, "Heartbeat", 4), (8, "OffsetCommit", 9)


ADD_PARTITIONS, SASL = (24, "AddPartitionsToTxn", 3), (36, "SaslAuthenticate", 2)


def connection(number: int, **more: Any) -> dict[str, Any]:
    """A connection seen in full, open for a minute."""
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


def ask(
    number: int, ordinal: int, api: tuple[int, str, int], at_ms: int, latency: int | None = MS, **more: Any
) -> dict[str, Any]:
    """An exchange without error, if it is answered."""
    return handmade.exchange(number, ordinal, api, at_ms, latency, client_id=f"client-{number}") | more


def failing(
    number: int, api: tuple[int, str, int], code: int, times: list[int], **more: Any
) -> list[dict[str, Any]]:
    """Exchanges with an error, at milliseconds."""
    return [
        ask(number, at, api, time, error_code=code, error_count=1, **more) for at, time in enumerate(times)
    ]


def report(
    exchanges: list[dict[str, Any]],
    partitions: Sequence[dict[str, Any]] = (),
    connections: list[dict[str, Any]] | None = None,
):
    """Compose a report of rows."""
    tables = {
        "connections": handmade.table(
            [connection(1), connection(2)] if connections is None else connections, CONNECTIONS
        ),
        "exchanges": handmade.table(exchanges, EXCHANGES),
        "partitions": handmade.table(list(partitions), PARTITIONS),
    }
    return build_report(summarise(tables), CaptureFacts())


def many(
    count: int,
    api: tuple[int, str, int],
    step_ms: float,
    latency: int | None = MS,
    number: int = 1,
    **more: Any,
):
    """Exchanges at a steady pace."""
    return [ask(number, at, api, int(at * step_ms), latency, **more) for at in range(count)]


def test_most_severe_first():
    everything = report(
        [*failing(1, SASL, 58, [0]), *many(1, PRODUCE, 1, acks=1, number=2), *failing(1, HEARTBEAT, 25, [5])]
    )
    assert [finding.severity for finding in everything.findings] == [
        Severity.CRITICAL,
        Severity.WARNING,
        Severity.NOTE,
    ]


def test_nothing_in_nothing():
    assert build_report(EMPTY, CaptureFacts()).findings == ()
