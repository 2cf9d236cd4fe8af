"""Advertised addresses that refuse, that nobody can resolve, and their look-alikes."""

from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.report.model.incidents import Incident
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
from tests.helpers.told_capture import Story
from tests.helpers.told_cluster import METADATA, NODES
from tests.helpers.told_groups import analyzed, produce
from tests.helpers.told_metadata import metadata

CLIENT, BROKER = CLIENT_HOSTS[0], BROKER_HOSTS[0]

ADVERTISED = [
    {"node_id": 1, "host": BROKER, "port": 9092},
    {"node_id": 2, "host": BROKER_HOSTS[1], "port": 9999},
]


def attempt(number: int, port: int, second: int) -> Row:
    """Return a refused attempt to connect."""
    return connection(
        number, client_host=CLIENT, server_host=BROKER_HOSTS[1], server_port=port, closed="rst",
        protocol="unknown", bytes_to_server=0, bytes_to_client=0, server_rtt_ns=None, client_id=None,
        first_time_ns=BEGIN + second * SECOND, last_time_ns=BEGIN + second * SECOND + 1000,
    )  # fmt: skip


def test_an_advertised_address_where_nobody_listens() -> None:
    connections = [*pair_connections(), *(attempt(100 + n, 9999, 5 + n) for n in range(6))]
    (incident,) = report_of(traffic(), (), connections, ADVERTISED).incidents
    assert incident.cause == "wrong_advertised_listener"
    assert f"advertises {BROKER_HOSTS[1]}:9999 in Metadata, where nobody can connect" in incident.headline
    assert "6 attempts to connect were refused" in incident.headline
    assert incident.begin_ns == BEGIN + 5 * SECOND


def test_a_broker_that_is_seen_only_as_a_follower_is_up() -> None:
    """On one host, only its replica fetcher shows that broker 3 lives."""
    here = {"client_host": "127.0.0.1", "server_host": "127.0.0.1"}
    brokers = [{"node_id": node, "host": "127.0.0.1", "port": port} for node, port in ((1, 9092), (3, 9999))]
    connections = [row | here for row in pair_connections()]
    follower = {**connections[0], "connection": 99, "client_id": "broker-3-fetcher-0"}
    refused = attempt(100, 9999, 5) | here
    (incident,) = report_of(traffic(), (), [*connections, follower, refused], brokers).incidents
    assert incident.cause == "wrong_advertised_listener"
    assert "Broker 3 advertises 127.0.0.1:9999" in incident.headline
    assert "1 attempt to connect was refused" in incident.headline
    found = dict(causes(report_of(traffic(), (), [*connections, refused], brokers)))
    assert "wrong_advertised_listener" not in found


def test_attempts_at_a_wrong_address_may_begin_and_end_with_the_capture() -> None:
    attempts = [attempt(100 + n, 9999, n) for n in range(41)]
    late = {"first_time_ns": BEGIN + SECOND, "last_time_ns": BEGIN + 39 * SECOND}
    (incident,) = report_of(
        traffic(), (), [*(row | late for row in pair_connections()), *attempts], ADVERTISED
    ).incidents
    assert incident.cause == "wrong_advertised_listener"
    assert incident.begin_ns == BEGIN
    gone = {"last_time_ns": BEGIN + 20 * SECOND}
    connections = [row | (gone if row["server_host"] != BROKER else {}) for row in pair_connections()]
    found = dict(causes(report_of(traffic(), (), [*connections, *attempts], ADVERTISED)))
    assert "wrong_advertised_listener" not in found


def test_an_advertised_address_that_was_open_before_is_not_wrong() -> None:
    opened = connection(99, client_host=CLIENT, server_host=BROKER_HOSTS[1], server_port=9999)
    connections = [*pair_connections(), opened, *(attempt(100 + n, 9999, 5 + n) for n in range(6))]
    found = dict(causes(report_of(traffic(), (), connections, ADVERTISED)))
    assert "wrong_advertised_listener" not in found


def test_an_advertised_broker_that_is_down_is_not_wrong() -> None:
    connections = [row for row in pair_connections() if row["server_host"] == BROKER]
    connections += [attempt(100 + n, 9999, 5 + n) for n in range(6)]
    found = dict(causes(report_of(traffic(), (), connections, ADVERTISED)))
    assert "wrong_advertised_listener" not in found


def test_a_refused_address_that_nobody_advertises() -> None:
    connections = [*pair_connections(), *(attempt(100 + n, 9998, 5 + n) for n in range(6))]
    found = dict(causes(report_of(traffic(), (), connections, ADVERTISED)))
    assert "wrong_advertised_listener" not in found


LEADERS = {node: (node, 3, NODES) for node in NODES}


def told(folder: Path, host: str, every_ms: int = 80, used: tuple[int, ...] = (2, 3)) -> tuple[Incident, ...]:
    """Return the incidents of a writer to which broker 1 advertises `host`, and that asks for metadata."""
    brokers = [{"node_id": 1, "host": host, "port": 9092}, *METADATA["brokers"][1:]]
    story = Story()
    first = story.connect("10.1.0.1", ("10.0.0.1", 9092), client_id="feed")
    for at_ms in range(10, 20_000, every_ms):
        answer = metadata("orders", LEADERS) | {"brokers": brokers}
        first.call(at_ms, 2, ApiKey.METADATA, 7, {"topics": None}, answer)
    for node in used:
        line = story.connect("10.1.0.1", (f"10.0.0.{node}", 9092), client_id="feed")
        for at_ms in range(20, 20_000, 200):
            produce(line, at_ms, topic="orders", partition=node, offset=at_ms)
    return analyzed(story, folder).incidents


def test_an_advertised_name_that_leaves_no_packet(tmp_path: Path) -> None:
    (incident, *_) = told(tmp_path, "kafka-1.internal")
    assert incident.cause == "wrong_advertised_listener"
    assert "advertises kafka-1.internal:9092 in Metadata" in incident.headline
    assert "feed at 10.1.0.1 never tries to connect there" in incident.headline
    assert incident.subject.name.startswith("broker 1")
    assert incident.impact.requests > 40  # each request for metadata stands for an attempt in vain


def test_an_advertised_localhost_is_the_own_host_of_each_client(tmp_path: Path) -> None:
    (incident, *_) = told(tmp_path, "localhost")
    assert "localhost:9092 in Metadata, which is the own host of each client: feed" in incident.headline


def test_an_address_that_is_tried_is_no_wrong_one(tmp_path: Path) -> None:
    """The clients ask as often, and reach the broker."""
    assert [row.cause for row in told(tmp_path, "10.0.0.1")] == ["metadata_storm"]


def test_a_capture_of_one_broker_lacks_what_its_clients_send_to_others(tmp_path: Path) -> None:
    story = Story()
    line = story.connect("10.1.0.1", ("10.0.0.1", 9092), client_id="feed")
    for at_ms in range(10, 20_000, 80):
        line.call(at_ms, 2, ApiKey.METADATA, 7, {"topics": None}, metadata("orders", LEADERS))
        produce(line, at_ms + 10, topic="orders", partition=1, offset=at_ms)
    assert "wrong_advertised_listener" not in {one.cause for one in analyzed(story, tmp_path).incidents}


def test_a_broker_that_nobody_needs_is_not_tried(tmp_path: Path) -> None:
    """A client that asks now and then connects to other brokers when it has records for them."""
    assert told(tmp_path, "kafka-1.internal", every_ms=5_000) == ()


def test_a_client_that_only_lists_topics_needs_no_other_broker(tmp_path: Path) -> None:
    assert [row.cause for row in told(tmp_path, "kafka-1.internal", used=())] == ["metadata_storm"]


@pytest.mark.parametrize(
    ("leads_until_s", "is_wrong"), [(25, True), (12, False)], ids=["leads on", "is gone"]
)
def test_a_broker_that_leads_long_after_its_address_refuses_is_up(
    leads_until_s: int, is_wrong: bool, tmp_path: Path
) -> None:
    """One host of clients is seen: what the broker says to others is not in the capture."""
    story = Story()
    line = story.connect("10.1.0.1", ("10.0.0.1", 9092), client_id="feed")
    for at_ms in range(10, 25_000, 500):
        led = {node: (1 if at_ms > 1000 * leads_until_s else node, 3, NODES) for node in NODES}
        answer = metadata("orders", led) | {"brokers": METADATA["brokers"]}
        line.call(at_ms, 2, ApiKey.METADATA, 7, {"topics": None}, answer)
        produce(line, at_ms + 10, topic="orders", partition=1, offset=at_ms)
        story.connect("10.1.0.1", ("10.0.0.2", 9092), client_id="feed", at_ms=at_ms + 5, accepted=False)
    found = {one.cause for one in analyzed(story, tmp_path).incidents}
    assert ("wrong_advertised_listener" in found) == is_wrong
    assert ("broker_down" in found) != is_wrong
