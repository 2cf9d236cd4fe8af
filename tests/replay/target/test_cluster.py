"""`replay.target.cluster`: what metadata and versions tell, and requests split by leader."""

from __future__ import annotations

from typing import Any

import pytest

from kdissect.replay.effects import ANY
from kdissect.replay.rewrite.names import Names
from kdissect.replay.safety import AbortRun
from kdissect.replay.target.cluster import TargetCluster, split
from tests.helpers.paper_target import Anywhere, settings, topology

PRODUCE, LIST_OFFSETS = 0, 2


def metadata(leader: int) -> dict[str, Any]:
    partition = {"partition_index": 0, "leader_id": leader, "leader_epoch": 8, "replica_nodes": [1, 2]}
    topic = {"name": "orders", "topic_id": b"o" * 16, "error_code": 0, "partitions": [partition]}
    nodes = [{"node_id": node, "host": f"10.0.0.{node}", "port": 9092} for node in (1, 2)]
    return {"cluster_id": "c", "brokers": nodes, "topics": [topic]}


def test_metadata_tells_nodes_leaders_ids_and_epochs() -> None:
    cluster, names = TargetCluster(Anywhere()), Names(settings(), {})
    cluster.learn_metadata(metadata(2), names)
    assert cluster.nodes == {1: ("10.0.0.1", 9092), 2: ("10.0.0.2", 9092)}
    assert (cluster.leader("orders", 0), cluster.leader("orders", 1), cluster.turn) == (2, ANY, 1)
    assert (cluster.topics["orders"].epochs, cluster.topics["orders"].replicas) == ({0: 8}, 2)
    assert names.id_of("orders") == b"o" * 16
    cluster.learn_metadata({"brokers": [], "topics": []}, names)  # of a broker that knows nothing yet
    cluster.learn_metadata(metadata(2), names)
    assert cluster.turn == 1  # nothing is other than before
    cluster.learn_metadata(metadata(3), names)  # a leader that is not there
    assert (cluster.leader("orders", 0), cluster.turn) == (ANY, 2)


def test_an_address_that_is_not_admitted_changes_nothing() -> None:
    class Nowhere(Anywhere):
        def admit(self, address: tuple[str, int]) -> None:
            raise AbortRun(f"not {address[0]}")

    cluster = TargetCluster(Nowhere())
    with pytest.raises(AbortRun, match=r"not 10\.0\.0\.1"):
        cluster.learn_metadata(metadata(1), Names(settings(), {}))
    with pytest.raises(AbortRun, match=r"not 10\.0\.0\.9"):
        cluster.learn_coordinator(0, "group", 9, ("10.0.0.9", 9092))
    assert (cluster.nodes, cluster.coordinators, cluster.turn) == ({}, {}, 0)


def test_a_target_cannot_name_any_number_of_brokers() -> None:
    """The attacker is a target that has the replayer connect to thousands of ports of an allowed host."""
    cluster = TargetCluster(Anywhere())
    body = metadata(1)
    body["brokers"] = [{"node_id": node, "host": "10.0.0.1", "port": node} for node in range(1, 1002)]
    with pytest.raises(AbortRun, match="names 1,001 brokers"):
        cluster.learn_metadata(body, Names(settings(), {}))
    for node in range(1000):
        cluster.learn_coordinator(0, f"group-{node}", node, ("10.0.0.1", 9092))
    cluster.learn_coordinator(0, "another group", 7, ("10.0.0.1", 9092))
    with pytest.raises(AbortRun, match="names 1,001 brokers"):
        cluster.learn_coordinator(0, "group", 1000, ("10.0.0.1", 9092))


def test_what_one_node_speaks_limits_what_is_sent_to_all() -> None:
    cluster = TargetCluster(Anywhere())
    for ranges in ({PRODUCE: (3, 13), LIST_OFFSETS: (1, 9)}, {PRODUCE: (5, 11), LIST_OFFSETS: (10, 11)}):
        listed = [
            {"api_key": key, "min_version": low, "max_version": high} for key, (low, high) in ranges.items()
        ]
        features = [{"name": "transaction.version", "max_version_level": 2}]
        cluster.learn_versions({"api_keys": listed, "finalized_features": features})
    assert (cluster.versions, cluster.second_generation) == ({PRODUCE: (5, 11)}, True)


def test_a_request_is_split_by_the_leaders_of_its_partitions() -> None:
    cluster, names = topology({"orders": 3}, leaders=2), Names(settings(), {})
    partitions = [{"partition_index": number, "timestamp": -1} for number in range(3)]
    body = {"replica_id": -1, "topics": [{"name": "orders", "partitions": partitions}]}
    found = {
        node: [each["partition_index"] for topic in part["topics"] for each in topic["partitions"]]
        for node, part in split(LIST_OFFSETS, body, cluster, names)
    }
    assert found == {1: [0, 2], 2: [1]}
    assert split(LIST_OFFSETS, {"topics": []}, cluster, names) == [(ANY, {"topics": []})]


def test_topics_that_the_login_may_not_see_are_noted() -> None:
    cluster, body = TargetCluster(Anywhere()), metadata(1)
    body["topics"].append({"name": "payments", "error_code": 29, "partitions": []})
    body["topics"].append({"name": "clicks", "error_code": 3, "partitions": []})
    cluster.learn_metadata(body, Names(settings(), {}))
    assert (set(cluster.topics), cluster.hidden) == ({"orders"}, {"payments"})
