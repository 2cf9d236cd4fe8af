"""`replay.handlers.producer_ids`, against a target on paper."""

from __future__ import annotations

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
from tests.helpers.paper_target import MS, Script, replay


def test_a_producer_older_than_the_capture_gets_an_id_once() -> None:
    script = Script()
    for connection in (1, 2):
        script.add(0, PRODUCE, 9, produce(batch(40)), took(0), connection=connection)
        script.add(
            9, PRODUCE, 9, produce(batch(7 + connection, producer=901)), took(0), connection=connection
        )
    done = replay(script, Cluster(), target=orders())
    assert len(done.sent(INIT)) == 2
    assert {body["transactional_id"] for _, _, body in done.sent(INIT)} == {None}
    assert done.context.notes.counts["producer ids asked for"] == 2


def test_a_batch_waits_for_the_id_that_another_connection_gets() -> None:
    script = Script()
    script.add(
        0, INIT, 4, {"transactional_id": None, "transaction_timeout_ms": 1}, issued(900, 4), connection=1
    )
    script.add(1, PRODUCE, 9, produce(batch(0)), took(0), connection=2)
    done = replay(script, Cluster(), target=orders(), delay_ns=40 * MS)
    assert len(done.sent(INIT)) == 1
    (sent,) = done.sent(PRODUCE)
    assert sent[0] >= done.sent(INIT)[0][0] + 40 * MS
    assert list(done.player.results)[-1].cause == "dependency"


def test_an_epoch_that_a_client_raises_itself_is_raised_alike() -> None:
    script = Script()
    script.add(0, INIT, 4, {"transactional_id": None, "transaction_timeout_ms": 1}, issued(900, 4))
    script.add(5, PRODUCE, 9, produce(batch(0)), took(0))
    script.add(9, PRODUCE, 9, produce(batch(0, epoch=6)), took(0))
    assert batches_sent(replay(script, Cluster(), target=orders())) == [(0, 5000, 0, 0), (0, 5000, 2, 0)]
