"""Attempts to connect that a server refuses, and the other address of localhost, which nobody serves."""

import pytest

from kdissect.report.model.findings import Severity
from kdissect.report.model.summary import Summary
from tests.helpers.made_paths import BEGIN, SECOND, pair_connections, report_of
from tests.helpers.report_rows import Row, connection

HERE = {"client_host": "127.0.0.1", "server_host": "127.0.0.1"}


def refused(host: str, seconds: range) -> list[Row]:
    return [
        connection(
            100 + second, client_host=host, server_host=host, server_port=9092, closed="rst",
            protocol="unknown", bytes_to_server=0, bytes_to_client=0, server_rtt_ns=None, client_id=None,
            first_time_ns=BEGIN + second * SECOND, last_time_ns=BEGIN + second * SECOND + 1000,
        )
        for second in seconds
    ]  # fmt: skip


def loud(summary: Summary) -> set[str]:
    return {one.cause for one in summary.incidents} | {
        one.name for one in summary.findings if one.severity is not Severity.NOTE
    }


def test_the_address_of_localhost_that_nobody_serves_is_no_server_that_is_down() -> None:
    """Clients try ::1 first and go on at 127.0.0.1."""
    connections = [*(row | HERE for row in pair_connections()), *refused("::1", range(2, 30, 5))]
    assert "broker_down" not in loud(report_of((), (), connections))


@pytest.mark.parametrize(("seconds", "down"), [(range(2, 30, 5), True), (range(2, 3), False)])
def test_a_server_that_refuses_again_and_again_is_down(seconds: range, down: bool) -> None:
    connections = [*pair_connections(), *refused("10.0.0.9", seconds)]
    incidents = [one for one in report_of((), (), connections).incidents if one.cause == "broker_down"]
    (found,) = incidents or (None,)
    assert (found is not None) == down
    if found is not None:
        assert found.subject.name == "10.0.0.9:9092"
        assert "6 attempts of host 10.0.0.9 to connect refused until the end" in found.headline


def test_a_server_that_closes_new_connections_at_once_has_not_died() -> None:
    """It has accepted them since; one refused attempt in a capture with losses is not enough."""
    steady = pair_connections()[:1]
    closed = [
        connection(
            200 + number, client_host="10.1.0.5", client_id="busy", closed_by="server",
            first_time_ns=BEGIN + 10 * SECOND + number * SECOND // 5,
            last_time_ns=BEGIN + 10 * SECOND + number * SECOND // 5 + 5_000_000,
        )
        for number in range(40)
    ]  # fmt: skip
    attempt = [row | {"client_host": "10.1.0.5"} for row in refused("10.0.0.1", range(14, 15))]
    other = closed[20] | {"connection": 300, "client_port": 50_000, "client_id": "other"}
    rows = [*steady, *closed, other, *attempt]
    assert "broker_killed" not in loud(report_of((), (), rows))


@pytest.mark.parametrize(
    ("closed_by", "closed_s", "cause"),
    [("server", 10, "broker_killed"), ("client", 10, "broker_down"), ("server", 2, "broker_down")],
    ids=["just before", "by its client", "long before"],
)
def test_a_server_that_closes_the_only_connection_seen_and_refuses_the_next_died(
    closed_by: str, closed_s: int, cause: str
) -> None:
    """A capture of another broker has one connection to it."""
    only = connection(
        90, client_host="10.1.0.7", server_host="10.0.0.9", client_id="broker-1-fetcher-0", closed="rst",
        closed_by=closed_by, first_time_ns=BEGIN, last_time_ns=BEGIN + closed_s * SECOND,
    )  # fmt: skip
    rows = [*pair_connections(), only, *refused("10.0.0.9", range(11, 38, 4))]
    (found,) = (one for one in report_of((), (), rows).incidents if one.severity is Severity.CRITICAL)
    assert (found.cause, found.subject.name) == (cause, "10.0.0.9:9092")
    assert ("died at " in found.headline) == (cause == "broker_killed")
    if cause == "broker_killed":
        assert found.begin_ns == BEGIN + closed_s * SECOND
