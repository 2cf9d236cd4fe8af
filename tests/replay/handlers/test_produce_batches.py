"""`replay.handlers.produce_batches`, against a target on paper."""

from __future__ import annotations

from kdissect.replay.settings import Pace
from tests.helpers.paper_cluster import (
    INIT,
    PRODUCE,
    Cluster,
    batch,
    batches_sent,
    issued,
    orders,
    produce,
    took,
)
from tests.helpers.paper_target import MS, Script, replay, settings


def test_sequences_have_no_holes_and_producers_are_the_targets() -> None:
    script = Script()
    script.add(0, INIT, 4, {"transactional_id": None, "transaction_timeout_ms": 1}, issued(900, 4))
    for at, sequence in ((10, 17), (20, 18), (30, 25)):  # the capture lost what was between
        script.add(at, PRODUCE, 9, produce(batch(sequence)), took(0))
    done = replay(script, Cluster(), target=orders())
    assert batches_sent(done) == [(0, 5000, 0, 0), (0, 5000, 0, 1), (0, 5000, 0, 2)]
    assert done.buckets() == {"answered": 4}


def test_numbers_go_on_behind_what_was_taken() -> None:
    script = Script()
    for at, sequence in ((0, 0), (100, 1), (200, 2)):
        script.add(at, PRODUCE, 9, produce(batch(sequence)), took(0))
    done = replay(script, Cluster(key0=[0, 10, 0]), target=orders())  # the second was too large
    assert [sequence for _, _, _, sequence in batches_sent(done)] == [0, 1, 1]


def test_a_partition_keeps_its_order_when_its_leader_moved() -> None:
    script = Script()
    script.add(0, PRODUCE, 9, produce(batch(0)), took(0), connection=1)
    script.add(1, PRODUCE, 9, produce(batch(1)), took(0), connection=1)  # waits behind the first
    script.add(2, PRODUCE, 9, produce(batch(2)), took(0), connection=2, server="10.0.0.2:9092")
    done = replay(script, Cluster(), settings(pace=Pace.ASAP), target=orders(), delay_ns=20 * MS)
    sent = done.sent(PRODUCE)
    assert [sequence for _, _, _, sequence in batches_sent(done)] == [0, 1, 2]
    assert [len(body["topic_data"]) for _, _, body in sent] == [1, 1, 1]
    assert sent[2][0] >= sent[1][0] + 20 * MS
