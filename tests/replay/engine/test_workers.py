"""Several processes: who plays what, what they hear of each other, and that what they leave is added up."""

from __future__ import annotations

import os
import time
from collections import Counter

import pytest

from kdissect.protocol.codec.messages import encode_response
from kdissect.replay.disposition import Disposition
from kdissect.replay.engine.fast_path.expected_answer import expected
from kdissect.replay.engine.pass_outcome import PassOutcome, merge_outcomes
from kdissect.replay.engine.pass_results import RequestResult, ResultTable
from kdissect.replay.engine.sharding import shard_requests, worker_settings
from kdissect.replay.engine.stop_signal import StopSignal
from kdissect.replay.engine.workers import WorkerLost, run_workers
from kdissect.replay.load.analysis import load
from kdissect.replay.load.replay_input import ReplayItem
from kdissect.replay.load.spool import SpoolSlot
from kdissect.replay.settings import Caps, Groups
from tests.helpers.paper_target import Script, settings
from tests.replay.test_courses import COMMIT, FETCH, INIT, PRODUCE, batch, issued, produce, took

FIND, NOT_THERE = 10, {"error_code": 15, "node_id": -1, "host": "", "port": -1}


def dealt(script: Script, processes: int, **how: object) -> list[set[int]]:
    asked = settings(processes=processes, **how)
    shares = shard_requests(load(script.capture(), script.shelf, asked), asked)
    return [{item.request.connection for item in share} for share in shares]


def write(script: Script, connection: int, topic: str, sequence: int = -1, producer: int = 900) -> None:
    body = produce(batch(sequence, producer), topic=topic)
    script.add(len(script.requests), PRODUCE, 9, body, took(0), connection=connection)


def test_what_shares_nothing_is_dealt_out_evenly() -> None:
    script = Script()
    for number in range(60):
        write(script, number % 6, f"topic-{number % 6}")
        script.add(number, FIND, 1, {"key": "group", "key_type": 0}, NOT_THERE, connection=number % 6)
    shares = dealt(script, 3)
    assert [len(share) for share in shares] == [2, 2, 2]
    assert set.union(*shares) == set(range(6))
    assert len(dealt(script, 0)) == 1  # so little is not worth a process
    assert len(dealt(script, 9, caps=Caps(connections=2))) == 2


def test_what_shares_a_producer_a_topic_or_a_client_stays_together() -> None:
    script = Script()
    script.add(
        0, INIT, 4, {"transactional_id": None, "transaction_timeout_ms": 1}, issued(7, 0), connection=1
    )
    write(script, 2, "a", 0, producer=7)
    write(script, 3, "b")
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100}
    fetch = {"max_wait_ms": 1, "min_bytes": 1, "topics": [{"topic": "b", "partitions": [partition]}]}
    script.add(5, FETCH, 4, fetch, connection=4, client_id="reader")
    commit = {
        "group_id": "g",
        "topics": [{"name": "c", "partitions": [{"partition_index": 0, "committed_offset": 5}]}],
    }
    script.add(6, COMMIT, 2, commit, connection=5, client_id="reader")
    write(script, 6, "d")
    shares = dealt(script, 9, groups=Groups.SIMPLE)
    assert sorted(shares, key=min) == [{1, 2}, {3, 4, 5}, {6}]


def test_caps_are_shared_out() -> None:
    asked = settings(caps=Caps(requests_per_second=100.0, connections=5))
    script = Script()
    for number in range(4):
        write(script, number, f"topic-{number}")
    items = load(script.capture(), script.shelf, asked).items
    shares: list[list[ReplayItem]] = [items[:3], items[3:]]
    first, second = (worker_settings(asked, number, shares).caps for number in range(2))
    assert (first.requests_per_second, second.requests_per_second) == (75.0, 25.0)
    assert (first.connections, second.connections) == (3, 2)


def test_results_are_kept_to_the_last_field() -> None:
    kept = [
        RequestResult(3, Disposition.ANSWERED, "", 5, 6, 9, "self", 2, 9, 2, 100, 7, 1, ((9, SpoolSlot(10, 20)), (9, SpoolSlot(30, 4)))),
        RequestResult(1, Disposition.POLICY, "not chosen by topic"),
        RequestResult(2, Disposition.NO_ANSWER_DUE, "", 0, 0, None, "", 1, 3, 1, 50),
    ]  # fmt: skip
    results = ResultTable()
    for each in kept:
        results.append(each)
    assert list(results) == kept
    assert len(results) == 3
    whole = merge_outcomes(
        [PassOutcome(), PassOutcome(results, counts=Counter(split=2), stopped="why", peak_lines=4)]
    )
    assert [each.shelf for each in whole.results] == [1, 1, 1]
    assert (whole.counts["split"], whole.stopped, whole.peak_lines) == (2, "why", 4)


class Pretended:
    """An act that tells what it was told."""

    def __init__(self, number: int, word: StopSignal) -> None:
        self.lead_ns, self._number, self._word = 10 * (number + 1), number, word

    def play(self, begin_ns: int) -> PassOutcome:
        if self._number == 5:
            os._exit(1)
        if self._number == 4:
            raise ValueError("not a target")
        while self._number and not self._word.given:
            time.sleep(0.001)
        self._word.give("enough")
        return PassOutcome(counts=Counter({f"from {begin_ns}": self._number}), stopped=self._word.given)


def test_processes_begin_together_and_stop_together() -> None:
    word = StopSignal()
    acts = [lambda number=number: Pretended(number, word) for number in range(3)]
    begin_ns, outcome = run_workers(acts, word, lambda lead_ns: 1000 + lead_ns)
    assert begin_ns == 1030
    assert outcome.counts == {"from 1030": 3}
    assert outcome.stopped == "enough"


@pytest.mark.parametrize(("number", "error"), [(4, ValueError), (5, WorkerLost)])
def test_a_process_that_fails_ends_the_run(number: int, error: type[Exception]) -> None:
    word = StopSignal()
    acts = [lambda each=each: Pretended(each, word) for each in (1, number)]
    with pytest.raises(error):
        run_workers(acts, word, lambda lead_ns: lead_ns)
    assert word.given


@pytest.mark.parametrize("version", range(3, 14))
def test_the_hoped_for_answer_is_known_by_its_bytes(version: int) -> None:
    topic: str | bytes = b"i" * 16 if version >= 13 else "orders"
    hoped = expected(version, ((topic, (1, 4)),))
    key = "topic_id" if version >= 13 else "name"

    def answer(error: int = 0, throttle_ms: int = 0, index: int = 1) -> bytes:
        parts = [
            {"index": index, "error_code": 0, "base_offset": -7},
            {"index": 4, "error_code": error, "base_offset": 1 << 40, "log_append_time_ms": 123},
        ]
        body = {"responses": [{key: topic, "partition_responses": parts}], "throttle_time_ms": throttle_ms}
        return encode_response(PRODUCE, version, {"correlation_id": 99}, body)

    good = answer()
    assert hoped.holds(good)
    assert [int.from_bytes(good[at : at + 8], "big", signed=True) for at in hoped.offsets] == [-7, 1 << 40]
    for other in (answer(error=6), answer(throttle_ms=1), answer(index=2), good[:-1], good + b"\0"):
        assert not hoped.holds(other)
