"""Connections that are reset one by one, and those that end together since a process ended."""

from typing import Any

from kdissect.report.model.incidents import Incident
from tests.helpers.made_paths import BEGIN, BROKER_HOSTS, CLIENT_HOSTS, LENGTH_S, SECOND, report_of, traffic
from tests.helpers.report_rows import Row, connection

CLIENT, OTHER = CLIENT_HOSTS
FIRST_S = 12


def reset(number: int, client_id: str, begin_s: float, age_s: float, **more: Any) -> Row:
    """Return a connection that was reset at that age, in seconds."""
    begin = BEGIN + round(begin_s * SECOND)
    end = begin + round(age_s * SECOND)
    own = {
        "client_host": CLIENT, "server_host": BROKER_HOSTS[0], "client_id": client_id, "first_time_ns": begin,
        "last_time_ns": end, "closed_ns": end, "closed": "rst", "closed_by": "client", "responses": 9,
    }  # fmt: skip
    return connection(number, **own | more)


def steady(number: int, host: str, client_id: str, server: str) -> Row:
    return connection(
        number, client_host=host, server_host=server, client_id=client_id, first_time_ns=BEGIN, closed="open",
        last_time_ns=BEGIN + LENGTH_S * SECOND, responses=90,
    )  # fmt: skip


def others() -> list[Row]:
    """Return connections that go on: of the client to the other broker, and of another host."""
    return [
        steady(1, CLIENT, "app", BROKER_HOSTS[1]),
        *(steady(2 + n, OTHER, "other", server) for n, server in enumerate(BROKER_HOSTS)),
    ]


def resets(connections: list[Row]) -> list[Incident]:
    found = report_of(traffic(), (), connections).incidents
    return [one for one in found if one.cause == "connections_reset"]


def test_connections_that_are_reset_at_one_age() -> None:
    rows = [reset(10 + n, "app", FIRST_S + 3.1 * n, 3) for n in range(7)]
    (incident,) = resets([*others(), *rows])
    assert incident.subject.name == f"host {CLIENT}"
    assert incident.headline.startswith(f"Connections of host {CLIENT} are reset again and again since ")
    assert "7 connections of app at 10.1.0.1" in incident.headline or "6 connections" in incident.headline
    assert "each about 3.00s after it was opened" in incident.headline
    assert incident.begin_ns == BEGIN + (FIRST_S + 3) * SECOND


def test_client_that_ends_and_is_started_again_is_not_reset_by_a_box() -> None:
    """All of its connections end together."""
    rows = [
        reset(10 + 2 * n + server, "crashing", FIRST_S + 3.1 * n, 3, server_host=BROKER_HOSTS[server])
        for n in range(7)
        for server in range(2)
    ]
    assert resets([*others(), *rows]) == []


def test_resets_of_many_hosts_are_not_of_one_path() -> None:
    rows = [
        reset(10 + n, ("app", "other")[n % 2], FIRST_S + 1.5 * n, 3, client_host=(CLIENT, OTHER)[n % 2])
        for n in range(14)
    ]
    assert resets([*others(), *rows]) == []


def test_connections_that_are_closed_in_order_are_not_reset() -> None:
    rows = [reset(10 + n, "app", FIRST_S + 3.1 * n, 3, closed="fin") for n in range(7)]
    assert resets([*others(), *rows]) == []
