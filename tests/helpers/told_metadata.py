"""Metadata of three brokers told as a story: who leads each partition, and which replicas are in sync."""

from collections.abc import Mapping, Sequence
from typing import Any

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from tests.helpers.told_capture import Line
from tests.helpers.told_cluster import METADATA, NODES

VERSION = 7
"""The first version with epochs of leaders."""

WITHOUT_EPOCHS = 5

State = tuple[int, int, Sequence[int]]
"""Leader, its epoch, and the replicas in sync of a partition; -1 stands for no leader."""


def metadata(topic: str, states: Mapping[int, State], version: int = VERSION) -> dict[str, Any]:
    """Return a Metadata response about the partitions of a topic; all three brokers have replicas."""
    has_epochs = version >= VERSION
    partitions = [
        {
            "error_code": ErrorCode.NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
            "partition_index": partition,
            "leader_id": leader,
            "replica_nodes": list(NODES),
            "isr_nodes": list(isr),
            "offline_replicas": [],
        }
        | ({"leader_epoch": epoch} if has_epochs else {})
        for partition, (leader, epoch, isr) in states.items()
    ]
    topics = [{"error_code": 0, "name": topic, "is_internal": False, "partitions": partitions}]
    return METADATA | {"cluster_id": "told", "topics": topics}


def tell(line: Line, at_ms: float, topic: str, states: Mapping[int, State], version: int = VERSION) -> None:
    """Ask for metadata, and be told; below version 7 the epochs of leaders are left out."""
    line.call(at_ms, 2, ApiKey.METADATA, version, {"topics": None}, metadata(topic, states, version))
