"""Paths that are dead, slow or lossy since a moment, and what only looks like it."""

import pytest

from tests.helpers.made_paths import (
    BACK_S,
    BEGIN,
    BROKER_HOSTS,
    CLIENT_HOSTS,
    CUT_S,
    LENGTH_S,
    MS,
    SECOND,
    causes,
    report_of,
    sender_of,
    standstill,
    traffic,
    without,
)
from tests.helpers.report_rows import Row

CLIENT, OTHER = CLIENT_HOSTS
BROKER, SECOND_BROKER = BROKER_HOSTS


def test_nothing_is_wrong_with_steady_traffic() -> None:
    summary = report_of(traffic())
    assert causes(summary) == []


def test_a_host_that_is_not_heard_while_data_to_it_is_sent_again() -> None:
    steps = without(traffic(), {CLIENT}, {CLIENT})
    spans = [standstill(CLIENT, server, False, CUT_S * 1000 + 100, BACK_S * 1000) for server in BROKER_HOSTS]
    (incident,) = report_of(steps, spans).incidents
    assert (incident.cause, incident.subject.name) == ("path_dead", f"host {CLIENT}")
    assert abs(incident.begin_ns - BEGIN - CUT_S * SECOND) <= SECOND // 5
    assert incident.end_ns is not None
    assert abs(incident.end_ns - BEGIN - BACK_S * SECOND) <= SECOND // 5
    assert set(incident.impact.clients) == {f"client-{n} at {CLIENT}" for n in range(1, 5)}


def test_a_host_that_is_not_heard_any_more_when_the_capture_ends() -> None:
    """Its connections are still open, and requests on them have no response: only packets are sent again."""
    after = [row for row in traffic(range(CUT_S, LENGTH_S)) if sender_of(row) != CLIENT]
    spans = [
        standstill(CLIENT, server, False, CUT_S * 1000 + 100, LENGTH_S * 1000) for server in BROKER_HOSTS
    ]
    (incident,) = report_of([*traffic(range(CUT_S)), *after], spans).incidents
    assert (incident.cause, incident.subject.name, incident.end_ns) == ("path_dead", f"host {CLIENT}", None)
    assert abs(incident.begin_ns - BEGIN - CUT_S * SECOND) <= SECOND // 5


def test_a_host_of_which_no_packet_was_captured_is_not_silent() -> None:
    """A capture may have one direction only: nobody knows what the other one sent, and when."""
    steps = [row for row in traffic() if sender_of(row) != CLIENT]
    spans = [standstill(CLIENT, server, False, CUT_S * 1000 + 100, BACK_S * 1000) for server in BROKER_HOSTS]
    assert "path_dead" not in [cause for cause, _ in causes(report_of(steps, spans))]


def test_one_pair_of_hosts_that_cannot_reach_each_other() -> None:
    steps = without(traffic(), {CLIENT}, {CLIENT, BROKER})
    spans = [standstill(CLIENT, BROKER, False, CUT_S * 1000, BACK_S * 1000)]
    assert causes(report_of(steps, spans)) == [("path_dead", f"host {CLIENT} and {BROKER}:9092")]


def test_a_frozen_process_whose_host_acknowledges_is_no_dead_path() -> None:
    """The kernel acknowledges what arrives: nothing is sent again."""
    steps = traffic(range(CUT_S)) + traffic(range(BACK_S, LENGTH_S))
    acknowledging = [
        row | {"segments": 0} for row in traffic(range(CUT_S, BACK_S)) if row["server_host"] == BROKER
    ]
    assert causes(report_of([*steps, *acknowledging])) == []


def late(row: Row, ns: int, bare_ns: int | None = None) -> Row:
    """Return a step in which every round trip is longer."""
    return row | {"ack_min_ns": bare_ns or ns, "ack_max_ns": 2 * ns, "reply_min_ns": ns, "reply_count": 5}


def after_cut(rows: list[Row], receiver: str, ns: int, **more: int) -> list[Row]:
    return [
        late(row, ns, **more)
        if (row["begin_ns"] - BEGIN) // SECOND >= CUT_S
        and receiver in (row["client_host"], row["server_host"])
        and sender_of(row) != receiver
        else row
        for row in rows
    ]


@pytest.mark.parametrize("receiver", [BROKER, CLIENT])
def test_every_acknowledgment_of_a_host_is_late_since_a_moment(receiver: str) -> None:
    (incident,) = report_of(after_cut(traffic(), receiver, 50 * MS)).incidents
    assert incident.cause == "path_slow"
    assert receiver in incident.subject.name
    assert abs(incident.begin_ns - BEGIN - CUT_S * SECOND) <= SECOND
    assert "50.0ms" in incident.headline


def test_late_responses_alone_are_no_slow_path() -> None:
    """A slow broker: responses take 10 ms, and the kernel acknowledges after 40 ms where there are none."""
    steps = after_cut(traffic(), BROKER, 10 * MS, bare_ns=41 * MS)
    assert causes(report_of(steps)) == []


def test_a_path_that_was_always_long_is_not_slow() -> None:
    assert causes(report_of([late(row, 60 * MS) for row in traffic()])) == []


def losses(pairs: list[tuple[str, str]], first_s: int, count: int = 12) -> list[Row]:
    return [
        standstill(
            client, server, True, (first_s + n) * 1000, (first_s + n) * 1000 + 220, packets=1, most_repeats=1
        )
        for client, server in pairs
        for n in range(count)
    ]


def test_a_host_that_loses_packets_since_a_moment() -> None:
    pairs = [(CLIENT, BROKER), (CLIENT, SECOND_BROKER)]
    (incident,) = report_of(traffic(), losses(pairs, CUT_S)).incidents
    assert (incident.cause, incident.subject.name) == ("path_lossy", f"host {CLIENT}")
    assert incident.begin_ns == BEGIN + CUT_S * SECOND


def test_a_loss_now_and_then_on_a_busy_path_is_no_lossy_path() -> None:
    busy = [row | {"segments": 1000 * row["segments"]} for row in traffic()]
    assert causes(report_of(busy, losses([(CLIENT, BROKER), (CLIENT, SECOND_BROKER)], CUT_S))) == []


def test_a_single_burst_of_losses_is_no_lossy_path() -> None:
    burst = [
        standstill(CLIENT, BROKER, True, 15000 + 10 * n, 15250 + 10 * n, packets=1, most_repeats=1)
        for n in range(20)
    ]
    assert causes(report_of(traffic(), burst)) == []


def test_processes_of_one_host_have_no_path_between_them() -> None:
    local = "127.0.0.1"
    steps = [row | {"client_host": local, "server_host": local} for row in traffic()]
    spans = [standstill(local, local, False, CUT_S * 1000, BACK_S * 1000)]
    assert causes(report_of(without(steps, {local}, {local}), spans)) == []
