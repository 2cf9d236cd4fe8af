"""Clients of one host show what that host saw, and not how others saw a server."""

import pytest

from kdissect.report.incidents.one_host import doubts_of_one_host, host_of, one_host
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.make_signal import make_signal


def rose(*clients: str) -> Signal:
    server = "broker 3 (10.1.0.3:9092)"
    return make_signal("latency_rose", (SubjectKind.SERVER, server), (0, None), "…", clients=clients)


@pytest.mark.parametrize(
    ("server", "host"),
    [
        ("broker 1 (10.1.0.1:9092)", "10.1.0.1"),
        ("10.1.0.1:9092", "10.1.0.1"),
        ("broker 1 ([fd00::1]:9092)", "fd00::1"),
        ("broker 1", ""),
    ],
)
def test_the_host_of_a_server(server: str, host: str) -> None:
    assert host_of(server) == host


@pytest.mark.parametrize(
    ("clients", "host"),
    [
        (("a at 10.1.0.11", "b at 10.1.0.11"), "10.1.0.11"),
        (("a at 10.1.0.11", "broker-2-fetcher-0 at 10.1.0.2"), "10.1.0.11"),
        (("a at 10.1.0.11", "b at 10.1.0.12"), ""),
        (("a at 10.1.0.3", "b at 10.1.0.3"), ""),  # beside the broker: everything is at this host
        ((), ""),
    ],
)
def test_the_host_of_all_clients(clients: tuple[str, ...], host: str) -> None:
    assert one_host(rose(*clients)) == host


def test_a_server_is_doubted_if_one_host_alone_shows_it() -> None:
    assert list(doubts_of_one_host(rose("a at 10.1.0.11"))) == [
        "all clients that show it are at host 10.1.0.11: that host may be the reason, or its path"
    ]
    assert list(doubts_of_one_host(rose("a at 10.1.0.11", "b at 10.1.0.12"))) == []
