"""`replay.handlers.waiting`, against a target on paper."""

from __future__ import annotations

from tests.helpers.paper_cluster import PRODUCE, batch, produce, took
from tests.helpers.paper_order import (
    Strict,
    begun,
    far,
    numbered,
    values,
)
from tests.helpers.paper_target import (
    MS,
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
