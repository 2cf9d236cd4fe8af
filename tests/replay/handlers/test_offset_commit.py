"""`replay.handlers.offset_commit`, against a target on paper."""

from __future__ import annotations

from kdissect.replay.rewrite.names import Tree
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


def test_a_partition_that_is_refused_costs_the_others_nothing() -> None:
    script = Script()
    script.add(0, PRODUCE, 9, produce(batch(records=5), batch(records=3)), took(0, 0, base=1000))
    partitions = [{"partition_index": each, "committed_offset": 1003} for each in (0, 1)]
    commit = {"group_id": "g", "topics": [{"name": "orders", "partitions": partitions}]}
    script.add(50, COMMIT, 7, commit, _answer("orders", 0, 0))
    script.add(60, COMMIT, 7, commit, _answer("orders", 0, 29))  # the captured cluster refuses one
    done = replay(script, _Refusing(), settings(groups=Groups.SIMPLE), target=orders())
    commits = done.context.commits.summary(done.context.positions)
    rows = {row["partition"]: row for row in commits}
    assert (rows["orders-0"]["replayed"], rows["orders-0"]["short"]) == (3, 0)
    assert (rows["orders-1"]["replayed"], rows["orders-1"]["short"]) == (None, 3)


class _Refusing(Cluster):
    """A target that refuses offsets of the second partition."""

    def __call__(self, key: int, version: int, body: Tree) -> Tree | None:
        return _answer("t-orders", 0, 29) if key == COMMIT else super().__call__(key, version, body)


def _answer(topic: str, *errors: int) -> Tree:
    partitions = [{"partition_index": each, "error_code": error} for each, error in enumerate(errors)]
    return {"topics": [{"name": topic, "partitions": partitions}]}
