"""Large segments, idle connections and closed windows, and their look-alikes."""

from typing import Any

import pytest

from tests.helpers.made_paths import (
    BEGIN,
    BROKER_HOSTS,
    CLIENT_HOSTS,
    SECOND,
    causes,
    pair_connections,
    report_of,
    standstill,
    traffic,
)
from tests.helpers.report_rows import Row

CLIENT, BROKER = CLIENT_HOSTS[0], BROKER_HOSTS[0]
CUT_S = 15


def stuck(number: int, bytes_: int, **more: Any) -> Row:
    return standstill(
        CLIENT, BROKER, True, 1000 * CUT_S + 300 * number, 1000 * (CUT_S + 9), connection=number,
        segment_bytes=bytes_, outcome="open", **more,
    )  # fmt: skip


def test_large_segments_that_never_arrive() -> None:
    (incident,) = report_of(traffic(), [stuck(1, 1448), stuck(2, 1400)]).incidents
    assert (incident.cause, incident.subject.name) == ("large_packets_lost", f"host {CLIENT}")
    assert incident.begin_ns == BEGIN + CUT_S * SECOND + 3 * SECOND // 10
    assert "1,400 bytes" in incident.headline
    assert "client-1" in incident.headline


def test_segments_that_are_stuck_although_larger_ones_pass() -> None:
    steps = traffic(largest_acked=9000)
    assert "large_packets_lost" not in dict(causes(report_of(steps, [stuck(1, 1448), stuck(2, 1400)])))


def test_one_large_segment_that_is_stuck_is_no_proof() -> None:
    assert "large_packets_lost" not in dict(causes(report_of(traffic(), [stuck(1, 1448)])))


IDLE = {"idle_ns": 9 * SECOND}


def test_a_connection_that_was_dropped_while_it_was_idle() -> None:
    (incident,) = report_of(traffic(), [stuck(1, 100, **IDLE)]).incidents
    assert incident.cause == "idle_connection_dropped"
    assert "client-1" in incident.headline
    assert "9.00s of silence" in incident.headline


def test_an_idle_connection_that_was_the_only_one_in_use_is_no_dead_path() -> None:
    """The server has nothing to send for a while, until the client opens another connection."""
    steps = [
        row
        for row in traffic()
        if row["client_host"] != CLIENT
        or row["server_host"] != BROKER
        or row["to_server"]
        or not CUT_S <= (row["begin_ns"] - BEGIN) // SECOND < CUT_S + 5
    ]
    found = causes(report_of(steps, [stuck(1, 100, **IDLE)]))
    assert [cause for cause, _ in found] == ["idle_connection_dropped"]


def test_a_connection_that_the_server_had_closed_was_not_dropped() -> None:
    connections = pair_connections()
    connections[0] |= {"closed_ns": BEGIN + 10 * SECOND, "closed_by": "server"}
    assert causes(report_of(traffic(), [stuck(1, 100, **IDLE)], connections)) == []


def test_a_busy_connection_that_is_stuck_was_not_dropped_for_idleness() -> None:
    assert causes(report_of(traffic(), [stuck(1, 100, idle_ns=SECOND)])) == []


def window(number: int, begin_ms: int, lasted_ms: int, to_server: bool = True) -> Row:
    return standstill(
        CLIENT, BROKER, to_server, begin_ms, begin_ms + lasted_ms, connection=number, kind="window_closed"
    )


def test_a_client_that_reads_too_slowly() -> None:
    spans = [window(1, 1000 * CUT_S + 2000 * n, 590) for n in range(5)]
    (incident,) = report_of(traffic(), spans).incidents
    assert (incident.cause, incident.subject.name) == ("slow_reader", f"client-1 at {CLIENT}")
    assert "5 times" in incident.headline


@pytest.mark.parametrize(
    "spans",
    [
        [window(1, 1000 * n, 20) for n in range(30)],
        [window(1, 1000, 300)],
        [window(1, 1000 * n, 590, to_server=False) for n in range(5)],
    ],
    ids=["short", "once", "of the server"],
)
def test_windows_that_say_nothing_about_the_client(spans: list[Row]) -> None:
    assert causes(report_of(traffic(), spans)) == []
