"""Paths that pause without a retransmission: dead ones, and hosts that rest."""

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
    pair_connections,
    report_of,
    traffic,
    without,
)
from tests.helpers.paper_capture import PRODUCE
from tests.helpers.report_rows import Row, exchange_of

CLIENT = CLIENT_HOSTS[0]
BROKER = BROKER_HOSTS[0]


def test_two_clients_that_fall_silent_and_go_on_together() -> None:
    steps = without(traffic(), {CLIENT, BROKER}, {CLIENT, BROKER})
    (incident,) = report_of(steps).incidents
    assert (incident.cause, incident.subject.name) == ("path_dead", f"host {CLIENT} and {BROKER}:9092")
    assert incident.confidence < 0.7


def test_clients_that_come_back_with_other_connections() -> None:
    """A client may give its connection up during the pause, and open another one afterwards."""
    steps = without(traffic(), {CLIENT, BROKER}, {CLIENT, BROKER})
    rows = pair_connections()
    broken = [row for row in rows if (row["client_host"], row["server_host"]) == (CLIENT, BROKER)]
    again = [
        row | {"connection": 100 + row["connection"], "first_time_ns": BEGIN + (BACK_S + 1) * SECOND}
        for row in broken
    ]
    for row in broken:
        row["last_time_ns"] = BEGIN + CUT_S * SECOND - MS
    (incident,) = report_of(steps, connections=[*rows, *again]).incidents
    assert (incident.cause, incident.subject.name) == ("path_dead", f"host {CLIENT} and {BROKER}:9092")


def test_connections_that_were_closed_before_a_pause_do_not_take_part_in_it() -> None:
    steps = without(traffic(), {CLIENT, BROKER}, {CLIENT, BROKER})
    rows = pair_connections()
    pair = [row for row in rows if (row["client_host"], row["server_host"]) == (CLIENT, BROKER)]
    closed = BEGIN + CUT_S * SECOND - SECOND // 2
    pair[0] |= {"last_time_ns": closed, "closed_ns": closed, "closed": "fin"}
    again = pair[0] | {
        "connection": 100, "first_time_ns": BEGIN + BACK_S * SECOND, "closed": "open", "closed_ns": None,
        "last_time_ns": BEGIN + LENGTH_S * SECOND,
    }  # fmt: skip
    assert causes(report_of(steps, connections=[*rows, again])) == []


def of_host(rows: list[Row], begin_s: int, end_s: int) -> list[Row]:
    """Return the steps of one host in some seconds."""
    return [
        row
        for row in rows
        if begin_s <= (row["begin_ns"] - BEGIN) // SECOND < end_s
        and CLIENT in (row["client_host"], row["server_host"])
    ]


def resting() -> list[Row]:
    """Return traffic in which one host sends and gets nothing while the path could be cut."""
    rest = of_host(traffic(), CUT_S, BACK_S)
    return [row for row in traffic() if row not in rest]


def test_a_host_that_pauses_with_all_others_is_no_dead_path() -> None:
    assert causes(report_of(resting())) == []


def test_a_host_that_pauses_and_then_sends_what_piled_up() -> None:
    """The requests got lost on the way to where the capture was made, so nobody saw them sent again."""
    steps = resting()
    for row in of_host(steps, BACK_S, BACK_S + 2):
        row["segments"] = 40
    (incident,) = report_of(steps).incidents
    assert (incident.cause, incident.subject.name) == ("path_dead", f"host {CLIENT}")
    assert incident.confidence < 0.7
    assert abs(incident.begin_ns - BEGIN - CUT_S * SECOND) <= SECOND // 5
    assert set(incident.impact.clients) == {f"client-{n} at {CLIENT}" for n in range(1, 5)}


@pytest.mark.parametrize(("until_s", "found"), [(LENGTH_S, ["path_dead"]), (CUT_S, [])])
def test_a_client_that_asks_nothing_after_a_pause_does_not_go_on(until_s: int, found: list[str]) -> None:
    """One of two clients had nothing for this broker for a while, and the other one nothing any more."""
    steps = without(traffic(), {CLIENT, BROKER}, {CLIENT, BROKER})
    exchanges = [
        exchange_of(number, second, PRODUCE, 1000 * second)
        for number, until in ((1, LENGTH_S), (2, until_s))
        for second in range(1, until)
        if not CUT_S <= second < BACK_S
    ]
    assert [cause for cause, _ in causes(report_of(steps, exchanges=exchanges, on_grid=True))] == found
