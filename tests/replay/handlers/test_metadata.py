"""`replay.handlers.metadata`, against a target on paper."""

from __future__ import annotations

from tests.helpers.paper_cluster import EPOCHS, Cluster, orders
from tests.helpers.paper_target import Script, replay


def test_leader_epochs_are_those_of_the_target() -> None:
    script = Script()
    asked = {"partition": 1, "current_leader_epoch": 6, "leader_epoch": 5}
    for at, partition in enumerate((1, 3)):
        body = {
            "replica_id": -1,
            "topics": [
                {
                    "topic": "orders",
                    "partitions": [asked | {"partition": partition}, asked | {"partition": 0}],
                }
            ],
        }
        script.add(at, EPOCHS, 4, body, {"topics": []})
    known = orders(leaders=2)
    known.topics["t-orders"] = known.topics["t-orders"]._replace(epochs={0: 12, 1: 13})
    done = replay(script, Cluster(), target=known)
    told = [
        (each["partition"], each["leader_epoch"], each["current_leader_epoch"])
        for _, _, body in done.sent(EPOCHS)
        for topic in body["topics"]
        for each in topic["partitions"]
    ]
    assert told == [(1, 13, -1), (0, 12, -1), (3, -1, -1), (0, 12, -1)]  # of the last but one none is known
    assert done.context.notes.counts["split"] == 2
    assert done.buckets() == {"answered": 2}
