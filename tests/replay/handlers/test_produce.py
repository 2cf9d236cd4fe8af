"""`replay.handlers.produce`, against a target on paper."""

from __future__ import annotations

import pytest

from tests.helpers.paper_cluster import (
    COORDINATOR,
    PRODUCE,
    Cluster,
    Tree,
    batch,
    batches_sent,
    orders,
    plain,
    produce,
    took,
    written,
)
from tests.helpers.paper_target import MS, Script, replay, topology


def test_a_retry_is_sent_only_if_the_first_attempt_failed_here_too() -> None:
    for errors, sent in (([0, 0], 1), ([7, 0], 2)):
        script = Script()
        script.add(0, PRODUCE, 9, produce(batch(3)), took(6), connection=1)
        script.add(50, PRODUCE, 9, produce(batch(3)), took(0), connection=2)
        done = replay(script, Cluster(key0=list(errors)), target=orders())
        assert len(done.sent(PRODUCE)) == sent
        assert done.buckets().get("retry", 0) == 2 - sent
        if sent == 2:
            assert [sequence for _, _, _, sequence in batches_sent(done)] == [0, 0]


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
def test_records_that_were_batched_anew_are_written_once(compression: int) -> None:
    def batch_of_some(*texts: bytes) -> Tree:
        return produce(plain(*texts, compression=compression, headers=True))

    def script() -> Script:
        made = Script()
        made.add(0, PRODUCE, 9, batch_of_some(b"1", b"2"), None, connection=1)  # never answered
        made.add(1, PRODUCE, 9, batch_of_some(b"3"), took(6), connection=1)
        made.add(90, PRODUCE, 9, batch_of_some(b"1", b"2", b"3", b"4"), took(0), connection=2)
        made.add(95, PRODUCE, 9, batch_of_some(b"5"), took(0), connection=2)
        return made

    done = replay(script(), Cluster(), target=orders())
    assert written(done) == [b"1", b"2", b"3", b"4", b"5"]
    assert done.context.notes.counts["records left out of regrouped retries"] == 3
    assert done.buckets() == {"answered": 4}
    refused = replay(script(), Cluster(key0=[0, 10, 0, 0]), target=orders())
    assert written(refused) == [b"1", b"2", b"3", b"3", b"4", b"5"]  # the first b"3" was refused


def test_requests_are_cut_along_leaders_and_batches() -> None:
    script = Script()
    script.add(0, PRODUCE, 9, produce(batch(0), batch(0), batch(0)), took(0, 0, 0))
    done = replay(script, Cluster(), target=orders(leaders=2))
    assert sorted(len(body["topic_data"][0]["partition_data"]) for _, _, body in done.sent(PRODUCE)) == [1, 2]
    assert done.context.notes.counts["split"] == 1
    assert done.buckets() == {"answered": 1}
    several = Script()
    several.add(0, PRODUCE, 9, produce(batch(0) + batch(1, records=3) + batch(4)), took(0))
    done = replay(several, Cluster(), target=orders())
    assert [sequence for _, _, _, sequence in batches_sent(done)] == [0, 1, 4]
    assert done.buckets() == {"answered": 1}


def test_without_acks_nothing_is_waited_for() -> None:
    script = Script()
    for at in range(5):
        script.add(at, PRODUCE, 9, produce(batch(), acks=0), None)
    script.add(6, COORDINATOR, 3, {"key": "g", "key_type": 0}, None)
    done = replay(script, Cluster(), target=orders(), delay_ns=30 * MS)
    assert done.buckets() == {"no answer due": 5, "answered": 1}


def test_missing_and_internal_topics_are_not_written() -> None:
    script = Script()
    script.add(0, PRODUCE, 9, produce(batch(), topic="gone"), took(0))
    script.add(1, PRODUCE, 9, produce(batch(), topic="__consumer_offsets"), took(0))
    done = replay(script, Cluster(), target=topology({"t-__consumer_offsets": 1}))
    assert done.sent(PRODUCE) == []
    assert {result.reason for result in done.player.results} == {
        "topic t-gone is not on the target",
        "__consumer_offsets is an internal topic",
    }


def test_hostile_frames_are_skipped_and_counted() -> None:
    script = Script()
    for number in range(40):
        body = produce(bytes((number * 7 + at) % 256 for at in range(90)))
        script.add(number, PRODUCE, 9, body, took(0))
    done = replay(script, Cluster(), target=orders())
    assert done.buckets() == {"undecodable": 40}
    assert done.sent(PRODUCE) == []
