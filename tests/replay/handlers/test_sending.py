"""`replay.handlers.sending`, against a target on paper: what is waited for, and which nodes are sent to."""

from __future__ import annotations

from typing import Any

from tests.helpers.paper_cluster import COORDINATOR, PRODUCE, Cluster, batch, orders, produce, took
from tests.helpers.paper_order import (
    Strict,
    begun,
    far,
    numbered,
    values,
)
from tests.helpers.paper_target import (
    MS,
    Script,
    replay,
)


def test_three_connections_of_a_producer_take_turns() -> None:
    script, strict = begun(), Strict()
    for number in range(30):
        numbered(script, b"%d" % number, first=number, connection=1 + number % 3, in_flight=2)
    far(script, strict, lambda link: (1 + hash(link.owner) * 7 % 5) * 10 * MS)
    assert strict.refusals == []
    assert values(strict, 0) == list(range(30))


def test_all_partitions_of_a_request_are_waited_for() -> None:
    script, strict = begun(), Strict()
    for partition, connection in ((0, 1), (1, 2), (2, 3)):
        body = produce(*[batch(0)] * 3)
        body["topic_data"][0]["partition_data"] = [body["topic_data"][0]["partition_data"][partition]]
        script.add(1, PRODUCE, 9, body, took(0), connection=connection)
    script.add(2, PRODUCE, 9, produce(*[batch(1)] * 3), took(0, 0, 0), connection=4)
    far(script, strict, lambda link: {1: 90, 2: 60, 3: 30}.get(link.owner, 1) * MS)
    assert strict.refusals == []
    assert [len(strict.log[partition]) for partition in range(3)] == [2, 2, 2]


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


COORDINATOR_LOADING, NOT_COORDINATOR, GROUP_NOT_FOUND = 14, 16, 69


def described(error: int, group: str) -> dict[str, Any]:
    return {"groups": [{"error_code": error, "group_id": group, "members": []}]}


class Loading(Cluster):
    """A coordinator that moves, then loads its groups, and then knows that there is none."""

    def __init__(self) -> None:
        super().__init__()
        self.said = [NOT_COORDINATOR, COORDINATOR_LOADING, GROUP_NOT_FOUND]

    def __call__(self, key: int, version: int, body: dict[str, Any]) -> dict[str, Any] | None:
        if key == DESCRIBE_GROUPS:
            return described(self.said.pop(0), "t-g")
        return super().__call__(key, version, body)


def test_a_group_is_described_again_when_its_coordinator_is_ready() -> None:
    script = Script()
    script.add(0, DESCRIBE_GROUPS, 6, {"groups": ["g"]}, described(GROUP_NOT_FOUND, "g"))
    done = replay(script, Loading(), target=orders())
    assert done.buckets() == {"answered": 1}
    assert len(done.sent(DESCRIBE_GROUPS)) == 3
    assert len(done.sent(COORDINATOR)) == 3  # sought anew after each error of a coordinator
    assert done.context.notes.counts["asked again"] == 2


def test_a_group_is_not_described_again_after_an_error_that_the_captured_client_got_too() -> None:
    script = Script()
    script.add(0, DESCRIBE_GROUPS, 6, {"groups": ["g"]}, described(COORDINATOR_LOADING, "g"))
    done = replay(script, Loading(), target=orders())
    assert len(done.sent(DESCRIBE_GROUPS)) == 1
