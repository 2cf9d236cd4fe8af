"""Servers that close connections by a limit: told as stories, and what only looks like it."""

from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import encode_request, encode_response
from tests.helpers.segment_wire import frame
from tests.helpers.told_capture import T0_MS, Line, Story, batch
from tests.helpers.told_cluster import METADATA, cluster
from tests.helpers.told_groups import analyzed

BEGIN_MS, EVERY_MS = 12_000, 600
RECORDS = 100_000


def produce_request(at_ms: float) -> bytes:
    """Return a Produce of some hundred kilobytes."""
    data = {"index": 0, "records": batch(0, RECORDS, at_ms)}
    body = {"acks": -1, "timeout_ms": 1000, "topic_data": [{"name": "orders", "partition_data": [data]}]}
    header = {"request_api_key": 0, "request_api_version": 7, "client_id": "importer", "correlation_id": 2}
    return frame(encode_request(header, body))


def connect(story: Story, at_ms: float) -> Line:
    line = story.connect("10.1.0.8", ("10.0.0.2", 9092), client_id="importer", at_ms=at_ms)
    line.call(at_ms + 1, 1, ApiKey.METADATA, 1, {"topics": None}, METADATA)
    return line


def refused(times: int, part: float = 1.0, reset: bool = True, by_client: bool = False) -> Story:
    """Return a story in which a large request ends its connection, when this part of it was sent."""
    story, _ = cluster(lambda node, at_ms: 3 + at_ms % 2)
    for number in range(times):
        at_ms = BEGIN_MS + number * EVERY_MS
        line, raw = connect(story, at_ms), produce_request(at_ms)
        send(line, at_ms + 5, raw[: int(part * len(raw))])
        line.close(at_ms + 8, by_client=by_client, reset=reset)
    return story


@pytest.mark.parametrize(("part", "reset"), [(0.4, True), (1.0, True), (1.0, False)])
def test_requests_above_the_limit_of_a_broker(part: float, reset: bool, tmp_path: Path) -> None:
    """The broker closes when it has read the size; more or less of the request is on its way then."""
    (incident,) = analyzed(refused(5, part, reset), tmp_path).incidents
    assert incident.cause == "request_size_limit"
    assert incident.subject.name == "importer at 10.1.0.8"
    assert "broker 2 (10.0.0.2:9092) closed 5 connections of it without an answer" in incident.headline
    assert incident.begin_ns / 1e6 - T0_MS == pytest.approx(BEGIN_MS + 8, abs=1)
    assert incident.impact.requests == 5


def answered_elsewhere(story: Story) -> Story:
    """Return the story with another client, whose requests of that size are answered."""
    line = story.connect("10.1.0.7", ("10.0.0.2", 9092), client_id="importer", at_ms=200)
    response = {"responses": [], "throttle_time_ms": 0}
    answer = frame(encode_response(ApiKey.PRODUCE, 7, {"correlation_id": 2}, response))
    for at_ms in range(1000, 20_000, 1000):
        send(line, at_ms, produce_request(at_ms))
        line.send(at_ms + 5, False, answer)
    return story


def send(line: Line, at_ms: float, raw: bytes) -> None:
    for at in range(0, len(raw), 1400):
        line.send(at_ms + at / 1e6, True, raw[at : at + 1400])


@pytest.mark.parametrize(
    "story",
    [refused(2), refused(5, by_client=True), refused(5, part=0.05), answered_elsewhere(refused(5))],
    ids=["twice", "the client closes", "small requests", "as large ones are answered"],
)
def test_closed_connections_that_show_no_limit_of_size(story: Story, tmp_path: Path) -> None:
    causes = [incident.cause for incident in analyzed(story, tmp_path).incidents]
    assert "request_size_limit" not in causes


@pytest.mark.parametrize(("times", "found"), [(6, ["connection_limit"]), (3, [])])
def test_connections_that_are_closed_at_once(times: int, found: list[str], tmp_path: Path) -> None:
    story, _ = cluster(lambda node, at_ms: 3 + at_ms % 2)
    for number in range(times):
        at_ms = BEGIN_MS + number * EVERY_MS
        line = story.connect("10.1.0.8", ("10.0.0.2", 9092), client_id="importer", at_ms=at_ms)
        line.ask(at_ms + 1, ApiKey.METADATA, 1, {"topics": None})
        line.close(at_ms + 3, by_client=False)
    assert [incident.cause for incident in analyzed(story, tmp_path).incidents] == found


@pytest.mark.parametrize("asks", [True, False], ids=["after the request", "before any request"])
def test_an_address_without_a_broker_behind_it(asks: bool, tmp_path: Path) -> None:
    """A proxy that has lost what is behind it closes what it accepted, often before the client sends."""
    story, _ = cluster(lambda node, at_ms: 3 + at_ms % 2)
    for number in range(8):
        at_ms = BEGIN_MS + number * EVERY_MS
        line = story.connect("10.1.0.8", ("10.0.0.77", 9092), client_id="importer", at_ms=at_ms)
        if asks:
            line.ask(at_ms + 1, ApiKey.METADATA, 1, {"topics": None})
        line.close(at_ms + 3, by_client=False)
    (incident,) = analyzed(story, tmp_path).incidents
    assert (incident.cause, incident.subject.name) == ("backend_missing", "10.0.0.77:9092")
    assert "10.0.0.77:9092 accepts connections and closes them at once" in incident.headline
    assert "8 connections of " in incident.headline
    assert "10.1.0.8" in incident.headline


def test_an_address_whose_broker_dies_behind_it_has_no_limit(tmp_path: Path) -> None:
    """A load balancer ends the connections of a broker that died, and closes those of two hosts at once."""
    story, lines = cluster(lambda node, at_ms: None if node == 2 and at_ms > BEGIN_MS - 40 else 3 + at_ms % 2)
    for (_, node), line in lines.items():
        if node == 2:
            line.close(BEGIN_MS, by_client=False)
    for number in range(16):
        at_ms = BEGIN_MS + 100 + number * EVERY_MS
        host = f"10.1.0.{8 + number % 2}"
        line = story.connect(host, ("10.0.0.2", 9092), client_id="importer", at_ms=at_ms)
        line.ask(at_ms + 1, ApiKey.METADATA, 1, {"topics": None})
        line.close(at_ms + 3, by_client=False)
    (incident,) = analyzed(story, tmp_path).incidents
    assert incident.cause == "backend_missing"
    assert " accepts connections and closes them at once, since " in incident.headline
    assert " or before" not in incident.headline
    assert incident.speaks_for == ("nobody got a response from there since then",)
