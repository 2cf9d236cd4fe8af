"""`replay.load.group_subscriptions`, against a target on paper."""

from __future__ import annotations

import pytest

from tests.helpers.paper_cluster import JOIN, orders
from tests.helpers.paper_groups import (
    FULL,
    Coordinator,
    heartbeat,
    told_by,
    topics_of,
)
from tests.helpers.paper_target import Script, replay


@pytest.mark.parametrize("source", ["join", "sync", "description", "fetch"])
def test_a_subscription_is_pieced_together(source: str) -> None:
    script = Script()
    heartbeat(script, 0, 1, "first")
    told_by(script, source)
    done = replay(script, Coordinator(leader=0), FULL, target=orders())
    join = done.sent(JOIN)[0][2]
    assert topics_of(join) == ["t-orders"]
    assert join["protocols"][0]["name"] == ("sticky" if source == "join" else "range")
    assert join["session_timeout_ms"] == (7000 if source == "join" else 45_000)
    assert done.buckets() == {"answered": len(done.loaded.items)}
