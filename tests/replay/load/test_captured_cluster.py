"""`replay.load.captured_cluster`: what responses tell about the captured cluster."""

from __future__ import annotations

from kdissect.replay.load.captured_cluster import CapturedCluster, CapturedTopic
from kdissect.replay.rewrite.names import Names
from tests.helpers.paper_target import settings

METADATA, FETCH = 3, 1


def test_metadata_tells_ids_addresses_and_topics() -> None:
    source = CapturedCluster()
    partition = {"replica_nodes": [1, 2]}
    topics = [
        {"name": "orders", "error_code": 0, "partitions": [partition, {"replica_nodes": [1]}]},
        {"name": "gone", "error_code": 3, "partitions": []},
    ]
    body = {"cluster_id": "c", "brokers": [{"host": "10.0.0.1", "port": 9092}], "topics": topics}
    source.learn_response(METADATA, body)
    source.learn_response(FETCH, body)  # describes nothing
    assert (source.cluster_ids, source.addresses) == ({"c"}, {("10.0.0.1", 9092)})
    assert source.topics == {"orders": CapturedTopic(2, 1)}


def test_partitions_that_are_used_exist() -> None:
    source, names = CapturedCluster(), Names(settings(), {b"i" * 16: "sales"})
    fine, failed = {"partition_index": 4, "error_code": 0}, {"partition_index": 9, "error_code": 6}
    responses = [
        {"topic": "orders", "partitions": [fine, failed]},
        {"topic_id": b"i" * 16, "partitions": [fine]},
    ]
    source.learn_partitions(FETCH, {"responses": responses}, names)
    source.add_topic("read")
    assert source.topics == {
        "orders": CapturedTopic(5, 0),
        "sales": CapturedTopic(5, 0),
        "read": CapturedTopic(0, 0),
    }
