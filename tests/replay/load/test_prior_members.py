"""`replay.load.prior_members`, against a target on paper."""

from __future__ import annotations

import pytest

from kdissect.replay.disposition import Disposition
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


def test_a_member_of_which_nothing_is_told_is_skipped_and_said() -> None:
    script = Script()
    heartbeat(script, 0, 1, "first")
    heartbeat(script, 10, 1, "stranger", error=25)
    done = replay(script, Coordinator(leader=0), FULL, target=orders())
    first, stranger = done.loaded.items
    assert first.refusal is not None  # so a plan says it too
    assert first.refusal.bucket is Disposition.HEADLESS
    assert "does not tell what it subscribes to" in first.refusal.reason
    assert stranger.refusal is None  # the captured broker did not know it either
    assert done.buckets() == {"headless": 1, "dependency": 1}
    assert done.sent(JOIN) == []
