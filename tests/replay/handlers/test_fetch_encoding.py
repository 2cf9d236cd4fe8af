"""`replay.handlers.fetch_encoding`, against a target on paper."""

from __future__ import annotations

import pytest

from kdissect.replay.settings import Offsets
from tests.helpers.paper_cluster import FETCH
from tests.helpers.paper_fetches import (
    SESSION,
    VERSION,
    Sessions,
    fetch,
)
from tests.helpers.paper_target import Script, Tree, play, settings, topology


@pytest.mark.parametrize(("session", "epoch"), [(0, -1), (SESSION, 1)])
@pytest.mark.parametrize("prepared", [False, True])
def test_topics_that_come_again_behind_others_keep_their_offsets(
    session: int, epoch: int, prepared: bool
) -> None:
    """As librdkafka names them, which goes on behind the partition that it was given last."""
    order = [("orders", 2), ("audit", 1), ("orders", 0), ("audit", 0), ("orders", 1)]
    begin, later = fetch(0, 0, {}), fetch(session, epoch, {})
    for body, at in ((begin, 0), (later, 1000)):
        for number, (topic, partition) in enumerate(order):
            body["topics"] += fetch(0, 0, {partition: at + number}, topic)["topics"]
    made = Script()
    opened: Tree = {"session_id": SESSION, "responses": []}
    made.add(0, FETCH, VERSION, begin, opened)
    made.add(5, FETCH, VERSION, later, opened)
    paper, target = Sessions(0.0), topology({"t-orders": 3, "t-audit": 2})
    asked = settings(offsets=Offsets.IDENTITY)
    done = play(made.capture(), made.shelf, paper, target, asked, prepared=prepared)
    assert done.buckets() == {"answered": 2}
    said = [
        {
            (topic["topic"], each["partition"]): each["fetch_offset"]
            for topic in body["topics"]
            for each in topic["partitions"]
        }
        for body in next(iter(paper.said.values()))
    ]
    assert said == [
        {(f"t-{topic}", partition): at + number for number, (topic, partition) in enumerate(order)}
        for at in (0, 1000)
    ]
