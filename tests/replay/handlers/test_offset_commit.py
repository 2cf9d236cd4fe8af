"""`replay.handlers.offset_commit`, against a target on paper."""

from __future__ import annotations

from kdissect.replay.settings import Groups
from tests.helpers.paper_cluster import (
    COMMIT,
    PRODUCE,
    Cluster,
    batch,
    orders,
    produce,
    took,
)
from tests.helpers.paper_target import Script, replay, settings


def test_commits_without_members_are_translated() -> None:
    script = Script()
    script.add(0, PRODUCE, 9, produce(batch(records=5)), took(0, base=1000))
    commit = {
        "group_id": "g",
        "generation_id_or_member_epoch": 3,
        "member_id": "m-1",
        "group_instance_id": "static",
        "topics": [
            {
                "name": "orders",
                "partitions": [
                    {
                        "partition_index": 0,
                        "committed_offset": 1004,
                        "committed_leader_epoch": 7,
                        "committed_metadata": "x",
                    }
                ],
            }
        ],
    }
    script.add(50, COMMIT, 7, commit, {"topics": []})
    done = replay(script, Cluster(), settings(groups=Groups.SIMPLE), target=orders())
    ((_, _, body),) = done.sent(COMMIT)
    assert (
        body["group_id"],
        body["generation_id_or_member_epoch"],
        body["member_id"],
        body["group_instance_id"],
    ) == ("t-g", -1, "", None)
    assert body["topics"][0]["partitions"][0] == {
        "partition_index": 0,
        "committed_offset": 4,
        "committed_leader_epoch": -1,
        "committed_metadata": "x",
    }
