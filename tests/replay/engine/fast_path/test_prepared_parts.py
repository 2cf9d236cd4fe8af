"""`replay.engine.fast_path.prepared_parts`: a Produce request as frames, with its batches."""

from __future__ import annotations

import pytest

from kdissect.protocol.codec.messages import decode_request
from kdissect.replay.disposition import SkipRequest
from kdissect.replay.engine.fast_path.prepared_parts import PreparedRequest, prepare_produce
from kdissect.replay.handlers.replay_context import new_context
from kdissect.replay.load.analysis import load
from tests.helpers.paper_cluster import PRODUCE, batch, produce, took
from tests.helpers.paper_target import Script, Tree, settings, topology


def prepared(body: Tree, leaders: int = 1) -> PreparedRequest:
    script, asked = Script(), settings()
    script.add(0, PRODUCE, 9, body, took(0, 0))
    loaded = load(script.capture(), script.shelf, asked)
    known = topology({"t-orders": 3}, leaders)
    context = new_context(asked, loaded, known, lambda: 0, script.shelf.get)
    return prepare_produce(context, loaded.items[0])


def test_a_part_for_each_leader_has_its_batches_where_it_says() -> None:
    found = prepared(produce(batch(3, records=2), batch(5)), leaders=2)
    assert found.numbered
    assert found.nodes == (1, 2)
    assert found.size == sum(len(each.part.ready) for each in found.parts)
    assert found.produced == (("t-orders-0", 2), ("t-orders-1", 1))
    for number, each in enumerate(found.parts):
        whole = decode_request(each.part.ready[4:]).body
        assert whole is not None
        ((partition,),) = (topic["partition_data"] for topic in whole["topic_data"])
        (position,) = each.positions
        size = len(partition["records"])
        assert each.part.ready[position : position + size] == partition["records"]
        assert each.batches[0].partition == ("orders", number)
        assert each.expected is not None


@pytest.mark.parametrize("body", [produce(batch() + batch()), produce(b""), produce(batch(), topic="b")])
def test_all_else_is_left_to_the_handler(body: Tree) -> None:
    with pytest.raises(SkipRequest):
        prepared(body)
