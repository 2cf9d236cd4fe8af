"""TLS that fails and why, and what looks like it."""

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
    traffic,
)
from tests.helpers.report_rows import Row, connection

CLIENT, BROKER = CLIENT_HOSTS[0], BROKER_HOSTS[0]


def tls(number: int, **more: Any) -> Row:
    own = {
        "client_host": CLIENT, "server_host": BROKER, "server_port": 9093, "protocol": "tls",
        "client_id": None, "first_time_ns": BEGIN + number * SECOND // 10, "tls_outcome": "failed",
        "tls_alert": "unknown_ca", "tls_alert_by": "client",
        "last_time_ns": BEGIN + number * SECOND // 10 + 1000,
    }  # fmt: skip
    return connection(number, **own | more)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({}, "the client does not know the authority (CA) that signed the certificate"),
        ({"tls_alert": "certificate_expired"}, "the client rejected an expired certificate"),
        ({"tls_alert": "encrypted"}, "it probably does not trust the server's certificate"),
        ({"tls_alert": "protocol_version", "tls_alert_by": "server"}, "does not accept the version of TLS"),
        (
            {"tls_outcome": "unanswered", "tls_alert": None, "closed_by": "server", "bytes_to_client": 0},
            "it spoke TLS to a port that has none",
        ),
        (
            {
                "tls_outcome": None, "tls_alert": None, "protocol": "kafka", "bytes_to_client": 7,
                "responses": 0, "requests": 1,
            },
            "it sent plaintext to a port that speaks TLS",
        ),
    ],
)  # fmt: skip
def test_tls_that_fails_and_why(facts: Row, reason: str) -> None:
    connections = [*pair_connections(), *(tls(100 + n, **facts) for n in range(4))]
    summary = report_of(traffic(), (), connections)
    incident = next(one for one in summary.incidents if one.cause == "tls_failure")
    assert reason in incident.headline
    assert CLIENT in incident.headline
    assert "4 TLS handshakes" in incident.headline


LEFT = {"tls_outcome": "completed", "tls_alert": None, "tls_alert_by": None, "closed_by": "client"}


def test_clients_that_leave_right_after_the_handshake_do_not_trust_the_certificate() -> None:
    connections = [tls(100 + n, **LEFT) for n in range(6)]
    (incident,) = report_of(traffic(), (), [*pair_connections(), *connections]).incidents
    assert incident.cause == "tls_failure"
    assert "right after the handshake: it probably does not trust" in incident.headline


def test_servers_that_close_right_after_the_handshake_turn_the_client_away() -> None:
    """Some of its connections are closed by the client, which learns it from the alert."""
    connections = [tls(100 + n, **LEFT | {"closed_by": ("client", "server")[n % 2]}) for n in range(6)]
    (incident,) = report_of(traffic(), (), [*pair_connections(), *connections]).incidents
    assert incident.cause == "tls_failure"
    assert "6 TLS handshakes" in incident.headline
    assert "it probably requires a client certificate (ssl.client.auth)" in incident.headline


def test_a_client_that_never_ends_the_handshake_is_seen_beside_one_that_works() -> None:
    """On a loopback all clients have one address: the failing one sends the same ClientHello each time."""
    unfinished = LEFT | {"tls_outcome": "unfinished", "bytes_to_server": 349, "bytes_to_client": 1277}
    works = LEFT | {"last_time_ns": BEGIN + 39 * SECOND, "bytes_to_server": 17_743}
    connections = [*(tls(100 + n, **unfinished) for n in range(6)), tls(90, **works)]
    (incident,) = report_of(traffic(), (), [*pair_connections(), *connections]).incidents
    assert incident.cause == "tls_failure"
    assert "6 TLS handshakes" in incident.headline
    different = [tls(100 + n, **unfinished | {"bytes_to_server": 349 + n}) for n in range(6)]
    assert causes(report_of(traffic(), (), [*pair_connections(), *different, tls(90, **works)])) == []


@pytest.mark.parametrize("count", [3, 6], ids=["a probe", "one connection stays"])
def test_short_tls_connections_that_are_no_failure(count: int) -> None:
    connections = [tls(100 + n, **LEFT) for n in range(count)]
    if count > 3:
        connections.append(tls(90, **LEFT | {"last_time_ns": BEGIN + 39 * SECOND}))
    assert causes(report_of(traffic(), (), [*pair_connections(), *connections])) == []


def test_tls_that_works_is_no_failure() -> None:
    connections = [tls(100 + n, tls_outcome="completed", tls_alert=None) for n in range(4)]
    assert causes(report_of(traffic(), (), [*pair_connections(), *connections])) == []
