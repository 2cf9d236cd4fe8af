"""A topic with two ids and an address of two brokers are signals where clients are refused for it."""

from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from kdissect.report.model.incidents import Incident
from tests.helpers.told_capture import Line, Story, batch
from tests.helpers.told_groups import analyzed, produce

OLD, NEW = bytes(15) + b"\7", bytes(15) + b"\x08"


def metadata(line: Line, at_ms: float, topic_id: bytes, ports: tuple[int, ...] = (9092, 9093)) -> None:
    """Learn the id of topic orders, and the addresses of brokers 1 and so on."""
    topic = {"name": "orders", "topic_id": topic_id, "partitions": []}
    brokers = [
        {"node_id": node, "host": "10.0.0.1", "port": port, "rack": None}
        for node, port in enumerate(ports, 1)
    ]
    request = {"topics": [{"topic_id": bytes(16), "name": "orders"}]}
    response = {"brokers": brokers, "controller_id": 1, "topics": [topic], "cluster_id": None}
    line.call(at_ms, 1, ApiKey.METADATA, 12, request, response)


def story(ids: tuple[bytes, ...], ports: tuple[int, ...], code: int, lasts_ms: int) -> Story:
    """A writer that learns these ids one after the other, and is refused for some time in the middle."""
    told = Story()
    line = told.connect("10.1.0.2", ("10.0.0.1", 9092), client_id="writer")
    for at_ms in range(100, 29_000, 200):
        error = code if 10_000 <= at_ms < 10_000 + lasts_ms else 0
        produce(line, at_ms, topic="orders", error=error, offset=at_ms)
    for number, topic_id in enumerate(ids):
        metadata(line, 5_050 + 10_000 * number, topic_id, ports)
    return told


def first(told: Story, tmp_path: Path) -> Incident | None:
    return next(iter(analyzed(told, tmp_path).incidents), None)


def test_topic_that_was_deleted_and_created_again(tmp_path: Path) -> None:
    told = story((OLD, NEW), (9092, 9093), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 2_000)
    incident = first(told, tmp_path)
    assert incident is not None
    assert (incident.cause, incident.subject.name) == ("topic_recreated", "orders")
    assert incident.headline.startswith("Topic orders was deleted and created again under its name at ")
    assert "10 requests of writer at 10.1.0.2 refused with UNKNOWN_TOPIC_OR_PARTITION" in incident.headline


def test_topic_whose_old_id_is_known_by_its_offsets_only(tmp_path: Path) -> None:
    """The reader learnt the old id before the capture began; the writer names the same offsets."""
    told = story((NEW,), (9092, 9093), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 2_000)
    reader = told.connect("10.1.0.3", ("10.0.0.1", 9092), client_id="reader")
    for at_ms in range(110, 10_000, 200):
        asked = {"topic_id": OLD, "partitions": [{"partition": 0, "fetch_offset": at_ms - 10}]}
        found = {"partition_index": 0, "high_watermark": at_ms, "records": batch(at_ms - 10, 10)}
        response = {"responses": [{"topic_id": OLD, "partitions": [found]}]}
        reader.call(at_ms, 2, ApiKey.FETCH, 13, {"max_wait_ms": 500, "topics": [asked]}, response)
    incident = first(told, tmp_path)
    assert incident is not None
    assert (incident.cause, incident.subject.name) == ("topic_recreated", "orders")


@pytest.mark.parametrize(("ids", "code"), [((OLD, NEW), 0), ((OLD,), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)])
def test_topic_with_one_id_or_without_refusals_was_not(
    ids: tuple[bytes, ...], code: int, tmp_path: Path
) -> None:
    """Two clusters in one capture may have topics of one name."""
    incident = first(story(ids, (9092, 9093), code, 2_000), tmp_path)
    assert incident is None or incident.cause != "topic_recreated"


@pytest.mark.parametrize(("ends_ms", "mixed"), [(30_000, True), (11_000, False)])
def test_server_that_lacks_a_topic_is_of_another_cluster(ends_ms: int, mixed: bool, tmp_path: Path) -> None:
    """A topic that others serve meanwhile is there; one that they served before only was deleted."""
    told = Story()
    well = told.connect("10.1.0.2", ("10.0.0.1", 9092), client_id="writer")
    for at_ms in range(100, min(ends_ms, 29_000), 200):
        produce(well, at_ms, topic="orders", offset=at_ms)
    line = told.connect("10.1.0.3", ("10.0.0.9", 9092), client_id="stray", at_ms=9_900)
    for at_ms in range(10_000, 29_000, 500):
        produce(line, at_ms, topic="orders", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    incident = first(told, tmp_path)
    assert incident is not None
    assert (incident.cause == "clusters_mixed") is mixed
    if mixed:
        assert incident.subject.name == "10.0.0.9:9092"
        assert incident.headline.startswith("10.0.0.9:9092 does not know topic orders, which 10.0.0.1:9092 ")


def test_coordinator_takes_subscriptions_to_topics_that_are_nowhere(tmp_path: Path) -> None:
    """It answers the heartbeats of a member well, and so serves none of the topics that they name."""
    told = Story()
    member = told.connect("10.1.0.2", ("10.0.0.1", 9092), client_id="member")
    asks = told.connect("10.1.0.2", ("10.0.0.9", 9092), client_id="member")
    wanted = {"group_id": "readers", "member_id": "m", "subscribed_topic_names": ["oders"]}
    known = {"member_id": "m", "member_epoch": 1, "heartbeat_interval_ms": 1000}
    for at_ms in range(100, 29_000, 1000):
        member.call(at_ms, 1, ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, wanted | {"member_epoch": 0}, known)
        unknown = {"name": "oders", "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "partitions": []}
        response = {"brokers": [], "controller_id": 1, "topics": [unknown], "cluster_id": None}
        asks.call(at_ms, 1, ApiKey.METADATA, 4, {"topics": [{"name": "oders"}]}, response)
    incident = first(told, tmp_path)
    assert incident is not None
    assert incident.cause == "missing_topic"


def test_two_brokers_that_advertise_one_address(tmp_path: Path) -> None:
    told = story((OLD,), (9092, 9092), ErrorCode.NOT_LEADER_OR_FOLLOWER, 15_000)
    incident = first(told, tmp_path)
    assert incident is not None
    assert incident.cause == "wrong_advertised_listener"
    assert incident.headline.startswith("Broker 1 and broker 2 advertise one address, 10.0.0.1:9092, so ")


@pytest.mark.parametrize(("ports", "lasts_ms"), [((9092, 9092), 1_000), ((9092, 9093), 15_000)])
def test_leader_that_moves_shares_no_address(ports: tuple[int, ...], lasts_ms: int, tmp_path: Path) -> None:
    """A broker that was replaced by another one at its address refuses nobody for long."""
    incident = first(story((OLD,), ports, ErrorCode.NOT_LEADER_OR_FOLLOWER, lasts_ms), tmp_path)
    assert incident is None or incident.cause != "wrong_advertised_listener"
