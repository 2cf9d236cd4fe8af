"""`replay.target.producers`, against a target on paper: numbering, and which transactions wait for what."""

from __future__ import annotations

import tempfile
from functools import partial
from random import Random

import pytest

from kdissect.protocol.records.record_decoder import read_records
from kdissect.replay.load.analysis import load
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.load.requests import read
from kdissect.replay.load.spool import Spool
from kdissect.replay.pass_state import RequestGates
from kdissect.replay.rewrite.batch_rewrite import (
    batches_of,
)
from kdissect.replay.settings import Pace
from kdissect.replay.target.producers import ProducerIdentity, Transactions
from tests.helpers.conversations import CAPTURES
from tests.helpers.paper_cluster import PRODUCE, batch, produce, took
from tests.helpers.paper_order import (
    LIMIT,
    WRITTEN,
    Strict,
    begun,
    far,
)
from tests.helpers.paper_target import (
    MS,
    FarTarget,
    Script,
    play,
    settings,
    topology,
)
from tests.helpers.tiers import thorough_after


def test_sequences_wrap_behind_the_largest_int32() -> None:
    script, strict = begun(), Strict()
    for number, records in enumerate((LIMIT - 2, 1, 5, 1)):
        data = bytearray(batch(number))
        data[57:61] = records.to_bytes(4, "big")
        script.add(1 + number, PRODUCE, 9, produce(bytes(data)), took(0))
    done = far(script, strict, leaders=1)
    sent = [
        batches_of(body["topic_data"][0]["partition_data"][0]["records"])[0].base_sequence
        for _, _, body in done.sent(PRODUCE)
    ]
    assert sent == [0, LIMIT - 2, LIMIT - 1, 4]
    assert strict.refusals == []


def lag_by_chance(random: Random, mean_ms: float, _link: object) -> int:
    """Return nanoseconds until an answer."""
    return int(random.expovariate(1 / mean_ms) * MS)


@pytest.mark.slow
@pytest.mark.parametrize("lag_ms", thorough_after(1, [3.0, 0.1, 30.0]))
def test_a_captured_restart_stays_in_sequence_however_late_answers_come(lag_ms: float) -> None:
    """Leaders moved, connections broke, retries came: the numbers fit for any order of answers."""
    shelf = Spool()
    with tempfile.TemporaryDirectory() as spool:
        capture = read([str(CAPTURES / "broker-restart.pcapng")], (), spool, shelf)
        for seed in range(3):
            random, strict = Random(seed), Strict()
            asked = settings(pace=Pace.ASAP)
            partitions = load(capture, shelf, asked).source.topics["orders"].partitions
            target = FarTarget(strict, lag=partial(lag_by_chance, random, lag_ms))
            known = topology({"t-orders": partitions}, leaders=2)
            done = play(capture, shelf, target, known, asked, prepared=True)
            assert strict.refusals == []
            assert strict.repeated == 0
            assert done.buckets()["retry"] > 5
            found = [
                (each.key, each.value)
                for log in strict.log.values()
                for data in log
                for each in read_records(data)
            ]  # type: ignore[union-attr]
            assert len(set(found)) == len(found) == WRITTEN
    shelf.close()


INIT, ADD, END = 22, 24, 26


def items() -> list[ReplayItem]:
    script = Script()
    for at, key in enumerate((INIT, ADD, PRODUCE, END)):
        script.add(at, key, 0, {}, raw=b"")
    return [ReplayItem(request, "client", transaction="payments") for request in script.requests]


def test_only_earlier_conflicting_requests_that_have_not_ended_are_waited_for() -> None:
    requests, gates = items(), RequestGates()
    transactions = Transactions(requests, {"payments": [0, 1, 2, 3]}, gates)
    assert list(transactions.earlier(requests[3], lambda _key: True)) == [0, 1, 2]
    assert list(transactions.earlier(requests[3], {ADD}.__contains__)) == [1]
    gates.end(0)
    gates.end(2)
    assert list(transactions.earlier(requests[3], lambda _key: True)) == [1]
    gates.end(1)
    assert list(transactions.earlier(requests[3], lambda _key: True)) == []
    assert list(transactions.earlier(ReplayItem(requests[3].request, "client"), lambda _key: True)) == []


def test_a_transaction_that_ended_begins_without_partitions() -> None:
    transactions, identity = Transactions([], {}, RequestGates()), ProducerIdentity(4, 0)
    transactions.add_partitions("payments", [("orders", 0)])
    transactions.note_open("payments", identity)
    assert transactions.has_partition("payments", ("orders", 0))
    assert not transactions.has_partition("payments", ("orders", 1))
    assert (transactions.is_open("payments"), transactions.open) == (True, {"payments": identity})
    transactions.end("payments")
    assert not transactions.has_partition("payments", ("orders", 0))
    assert (transactions.is_open("payments"), transactions.is_open(None)) == (False, False)
