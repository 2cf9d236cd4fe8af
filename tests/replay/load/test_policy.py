"""`replay.load.policy`, against a target on paper."""

from __future__ import annotations

from kdissect.replay.disposition import Disposition
from kdissect.replay.settings import Groups
from tests.helpers.paper_cluster import JOIN, Cluster, orders
from tests.helpers.paper_target import Script, replay, settings


def test_groups_of_other_protocols_are_refused_ahead() -> None:
    script = Script()
    join = {
        "group_id": "workers",
        "session_timeout_ms": 1,
        "rebalance_timeout_ms": 1,
        "member_id": "",
        "protocol_type": "connect",
        "protocols": [],
    }
    script.add(0, JOIN, 5, join, None)
    done = replay(script, Cluster(), settings(groups=Groups.FULL), target=orders())
    (item,) = done.loaded.items  # so a plan says it too
    assert item.refusal == (Disposition.POLICY, "groups of protocol type 'connect' are not supported")
    assert done.buckets() == {"policy": 1}
