"""`replay.handlers.routing`: leaders, coordinators, or whichever node."""

from __future__ import annotations

from typing import Any

from tests.helpers.paper_cluster import Cluster, orders
from tests.helpers.paper_target import Script, replay

DESCRIBE_GROUPS, DESCRIBE_CONFIGS, DELETE_RECORDS = 15, 32, 21
NOT_LEADER = 6


class Describing(Cluster):
    """Describes everything, and leads nothing."""

    def __call__(self, key: int, version: int, body: dict[str, Any]) -> dict[str, Any] | None:
        if key == DELETE_RECORDS:
            partitions = [{"partition_index": 0, "low_watermark": -1, "error_code": NOT_LEADER}]
            return {"topics": [{"name": "t-orders", "partitions": partitions}]}
        if key in (DESCRIBE_GROUPS, DESCRIBE_CONFIGS):
            return {"groups": []} if key == DESCRIBE_GROUPS else {"results": []}
        return super().__call__(key, version, body)


def test_a_request_without_a_handler_of_its_own_is_rewritten_and_sent() -> None:
    script = Script()
    resources = [{"resource_type": 2, "resource_name": "orders", "configuration_keys": None}]
    script.add(0, DESCRIBE_CONFIGS, 4, {"resources": resources}, {"results": []})
    script.add(1, DESCRIBE_GROUPS, 5, {"groups": ["g"]}, {"groups": []})
    done = replay(script, Describing(), target=orders())
    assert done.buckets() == {"answered": 2}
    ((_, _, configs),) = done.sent(DESCRIBE_CONFIGS)
    assert configs["resources"][0]["resource_name"] == "t-orders"
    ((_, _, groups),) = done.sent(DESCRIBE_GROUPS)
    assert groups["groups"] == ["t-g"]
    assert list(done.context.cluster.coordinators) == [(0, "t-g")]
