"""Metadata of three brokers told as a story: who leads each partition, and which replicas are in sync."""

from collections.abc import Mapping, Sequence
from typing import Any

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from tests.helpers.told_capture import Line
from tests.helpers.told_cluster import METADATA, NODES

VERSION = 7

State = tuple[int, int, Sequence[int]]
"""Leader, its epoch, and the replicas in sync of a partition; -1 stands for no leader."""


def metadata(topic: str, states: Mapping[int, State]) -> dict[str, Any]:
    """Return a Metadata response about the partitions of a topic; all three brokers have replicas."""
    partitions = [
        {
            "error_code": ErrorCode.NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
            "partition_index": partition,
            "leader_id": leader,
            "leader_epoch": epoch,
            "replica_nodes": list(NODES),
            "isr_nodes": list(isr),
            "offline_replicas": [],
        }
        for partition, (leader, epoch, isr) in states.items()
    ]
    topics = [{"error_code": 0, "name": topic, "is_internal": False, "partitions": partitions}]
    return METADATA | {"cluster_id": "told", "topics": topics}


def tell(line: Line, at_ms: float, topic: str, states: Mapping[int, State]) -> None:
    """Ask for metadata, and be told."""
    line.call(at_ms, 2, ApiKey.METADATA, VERSION, {"topics": None}, metadata(topic, states))
