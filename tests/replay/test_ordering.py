"""Numbers of idempotent batches, against a target on paper that is as strict as brokers are, and as far away as they may be."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable
from random import Random

import pytest

from kdissect.protocol.records.record_decoder import read_records
from kdissect.replay.disposition import Disposition
from kdissect.replay.handlers.replay_context import new_context
from kdissect.replay.load.analysis import load
from kdissect.replay.load.requests import read
from kdissect.replay.load.spool import Spool
from kdissect.replay.net.connection import Connection
from kdissect.replay.net.pool import ConnectionPool
from kdissect.replay.rewrite.batch_rewrite import (
    CapturedBatch,
    batch_of,
    batches_of,
)
from kdissect.replay.settings import Pace
from tests.helpers.conversations import CAPTURES
from tests.helpers.paper_target import (
    MS,
    FarTarget,
    OnPaper,
    PaperTarget,
    Script,
    Tree,
    play,
    settings,
    topology,
)
from tests.replay.test_courses import INIT, PRODUCE, Cluster, batch, issued, orders, produce, took

NOT_LEADER, TOO_LARGE, OUT_OF_ORDER, OLD_EPOCH = 6, 10, 45, 47
LIMIT = 1 << 31
WRITTEN = 1280  # records of broker-restart.pcapng, by its clients' own account


class Strict(Cluster):
    """Takes a producer's batches in sequence only, and a batch that it has already without writing it, as brokers do."""

    def __init__(self, fails: Callable[[CapturedBatch], int] = lambda _batch: 0) -> None:
        super().__init__()
        self.fails = fails
        self.log: dict[int, list[bytes]] = defaultdict(list)  # partition -> batches
        self.refusals: list[tuple[int, int, int, int]] = []  # error, partition, epoch, sequence
        self.repeated = 0
        self._last: dict[tuple[int, int], tuple[int, list[tuple[int, int]]]] = {}

    def __call__(self, key: int, version: int, body: Tree) -> Tree | None:
        if key not in (PRODUCE, INIT):
            return {}
        if key == INIT:
            return super().__call__(key, version, body)
        answer = []
        for topic in body["topic_data"]:
            name = {each: topic[each] for each in ("name", "topic_id") if each in topic}
            parts = [
                {"index": each["index"], "error_code": self._take(each["index"], batch_of(each["records"])), "base_offset": 0}
                for each in topic["partition_data"]
            ]  # fmt: skip
            answer.append(name | {"partition_responses": parts})
        return {"responses": answer}

    def _take(self, partition: int, one: CapturedBatch) -> int:
        error = self.fails(one) or (self._number(partition, one) if one.producer_id >= 0 else 0)
        if error > 0:
            self.refusals.append((error, partition, one.producer_epoch, one.base_sequence))
        elif error < 0:
            self.repeated += 1
        else:
            self.log[partition].append(one.data)
        return max(error, 0)

    def _number(self, partition: int, one: CapturedBatch) -> int:
        epoch, taken = self._last.get((partition, one.producer_id), (-1, []))
        this = one.base_sequence, (one.base_sequence + one.records) % LIMIT
        if one.producer_epoch < epoch:
            return OLD_EPOCH
        if one.producer_epoch > epoch:
            if epoch >= 0 and this[0]:
                return OUT_OF_ORDER
            taken = []
        elif this in taken:
            return -1
        elif taken and this[0] != taken[-1][1]:
            return OUT_OF_ORDER
        self._last[partition, one.producer_id] = one.producer_epoch, [*taken[-4:], this]
        return 0


def far(
    script: Script,
    strict: Strict,
    lag: Callable[[Connection], int] = lambda _link: MS,
    leaders: int = 2,
    prepared: bool = False,
    **more: float,
) -> OnPaper:
    asked = settings(pace=Pace.ASAP, **more)
    target = FarTarget(strict, lag=lag)
    return play(script.capture(), script.shelf, target, orders(leaders), asked, prepared=prepared)


def begun() -> Script:
    script = Script()
    script.add(0, INIT, 4, {"transactional_id": None, "transaction_timeout_ms": 1}, issued(900, 4))
    return script


def numbered(script: Script, *texts: bytes, first: int = 0, **how: int) -> None:
    """Add batches of one record for the first partition, in sequence."""
    for number, text in enumerate(texts, first):
        script.add(1 + number, PRODUCE, 9, produce(batch(number, text=text)), took(0), **how)


def values(strict: Strict, partition: int) -> list[int]:
    """Give the numbers that a partition's records have as their values, in order."""
    return [int(next(read_records(data)).value or b"") for data in strict.log[partition]]  # type: ignore[union-attr]


def test_a_request_for_two_leaders_may_end_after_the_one_behind_it() -> None:
    script, strict = begun(), Strict()
    script.add(1, PRODUCE, 9, produce(batch(0, text=b"a"), batch(0)), took(0, 0), in_flight=2)
    numbered(script, b"b", first=1, in_flight=2)
    numbered(script, b"c", first=2, connection=2)
    done = far(script, strict, lambda link: 50 * MS if link.node == 2 else MS)
    assert strict.refusals == []
    assert len(strict.log[0]) == 3
    assert done.buckets() == {"answered": 4}


def test_what_comes_behind_a_failure_waits_for_those_that_fail_with_it() -> None:
    script, failed = begun(), list[bytes]()

    def fails_once(one: CapturedBatch) -> int:
        first = one.base_sequence == 2 and not failed
        failed.extend([one.content] * first)
        return TOO_LARGE if first else 0

    strict = Strict(fails_once)
    numbered(script, *(b"%d" % number for number in range(30)), in_flight=5)
    done = far(script, strict, lambda _link: 10 * MS)
    assert [error for error, *_ in strict.refusals] == [TOO_LARGE, *[OUT_OF_ORDER] * 4]
    assert values(strict, 0) == [number for number in range(30) if number != 2]
    assert done.buckets() == {"answered": 31}


@pytest.mark.parametrize("prepared", [False, True])
def test_what_is_refused_for_the_moment_is_sent_again_in_order(prepared: bool) -> None:
    script, until = begun(), [12]

    def leaderless(one: CapturedBatch) -> int:
        until[0] -= one.base_sequence >= 4
        return NOT_LEADER if one.base_sequence >= 4 and until[0] > 0 else 0

    strict = Strict(leaderless)
    numbered(script, *(b"%d" % number for number in range(30)), in_flight=5)
    done = far(script, strict, lambda _link: 10 * MS, prepared=prepared)
    assert values(strict, 0) == list(range(30))
    # The leader comes back between two that are under way: what is behind the one that it refused leaves a gap.
    assert {error for error, *_ in strict.refusals} == {NOT_LEADER, OUT_OF_ORDER}
    assert done.context.notes.counts["sent again"] == len(strict.refusals)
    assert sum(result.again for result in done.player.results) == len(strict.refusals)


def test_what_the_capture_refused_too_is_left_to_its_client() -> None:
    script, refused = begun(), list[int]()

    def once(_batch: CapturedBatch) -> int:
        refused.append(NOT_LEADER)
        return NOT_LEADER if len(refused) == 1 else 0

    strict = Strict(once)
    script.add(1, PRODUCE, 9, produce(batch(0, text=b"0")), took(NOT_LEADER))
    numbered(script, b"0", connection=2)
    done = far(script, strict)
    assert values(strict, 0) == [0]
    assert done.context.notes.counts["sent again"] == 0


def test_three_connections_of_a_producer_take_turns() -> None:
    script, strict = begun(), Strict()
    for number in range(30):
        numbered(script, b"%d" % number, first=number, connection=1 + number % 3, in_flight=2)
    far(script, strict, lambda link: (1 + hash(link.owner) * 7 % 5) * 10 * MS)
    assert strict.refusals == []
    assert values(strict, 0) == list(range(30))


def test_all_partitions_of_a_request_are_waited_for() -> None:
    script, strict = begun(), Strict()
    for partition, connection in ((0, 1), (1, 2), (2, 3)):
        body = produce(*[batch(0)] * 3)
        body["topic_data"][0]["partition_data"] = [body["topic_data"][0]["partition_data"][partition]]
        script.add(1, PRODUCE, 9, body, took(0), connection=connection)
    script.add(2, PRODUCE, 9, produce(*[batch(1)] * 3), took(0, 0, 0), connection=4)
    far(script, strict, lambda link: {1: 90, 2: 60, 3: 30}.get(link.owner, 1) * MS)  # type: ignore[call-overload]
    assert strict.refusals == []
    assert [len(strict.log[partition]) for partition in range(3)] == [2, 2, 2]


def test_a_batch_behind_a_lost_answer_is_not_taken_for_its_repetition() -> None:
    script, silent = begun(), []

    class Forgetful(Strict):
        def __call__(self, key: int, version: int, body: Tree) -> Tree | None:
            answer = super().__call__(key, version, body)
            if key == PRODUCE and len(self.log[0]) == 2 and not silent:
                silent.append(body)
                return None
            return answer

    strict = Forgetful()
    numbered(script, b"a", b"b", b"c", b"d")
    done = far(script, strict)
    assert done.buckets() == {"answered": 4, Disposition.TIMED_OUT.value: 1}
    assert (len(strict.log[0]), strict.repeated, strict.refusals) == (4, 0, [])
    assert done.context.notes.counts["epochs raised"] == 1


def test_a_captured_retry_of_what_may_be_there_leaves_it_to_the_target() -> None:
    script, silent = begun(), []

    class Forgetful(Strict):
        def __call__(self, key: int, version: int, body: Tree) -> Tree | None:
            answer = super().__call__(key, version, body)
            if key == PRODUCE and not silent:
                silent.append(body)
                return None
            return answer

    strict = Forgetful()
    numbered(script, b"a")
    numbered(script, b"a", connection=2)
    numbered(script, b"b", first=1, connection=2)
    done = far(script, strict, answer_deadline_s=5.0)
    assert (len(strict.log[0]), strict.repeated, strict.refusals) == (2, 1, [])
    assert done.context.notes.counts["epochs raised"] == 0


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


@pytest.mark.parametrize("lag_ms", [0.1, 3.0, 30.0])
def test_a_captured_restart_stays_in_sequence_however_late_answers_come(lag_ms: float) -> None:
    """Leaders moved, connections broke, retries came: the numbers fit for any order of answers."""
    shelf = Spool()
    with tempfile.TemporaryDirectory() as spool:
        capture = read([str(CAPTURES / "broker-restart.pcapng")], (), spool, shelf)
        for seed in range(3):
            random, strict = Random(seed), Strict()
            asked = settings(pace=Pace.ASAP)
            partitions = load(capture, shelf, asked).source.topics["orders"].partitions
            target = FarTarget(
                strict, lag=lambda _link, random=random: int(random.expovariate(1 / lag_ms) * MS)
            )  # type: ignore[misc]
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


def test_bounds_are_asked_again_while_a_leader_moves() -> None:
    script, asked = begun(), settings()
    numbered(script, b"a")
    loaded, known = load(script.capture(), script.shelf, asked), orders(2)
    codes = [78, 6]

    def respond(_key: int, _version: int, body: Tree) -> Tree:
        if "allow_auto_topic_creation" in body:
            return {"brokers": [{"node_id": 1, "host": "127.0.0.1", "port": 9092}], "topics": []}
        return {"topics": [{"name": topic["name"], "partitions": [{"partition_index": each["partition_index"], "error_code": codes.pop() if codes else 0, "offset": 7} for each in topic["partitions"]]} for topic in body["topics"]]}  # fmt: skip

    paper = PaperTarget(respond)
    paper.board = board = ConnectionPool(asked, known, paper, lambda: "nonce")
    context = new_context(asked, loaded, known, lambda: paper.now_ns, script.shelf.get)
    ended: list[object] = []
    board.run(context.discovery.learn_bounds(), "control", lambda *_: ended.append(1))
    paper.run(None, 10**10, lambda: bool(ended))
    places = [context.positions.translate(("orders", each), 1000).offset for each in range(4)]
    assert places == [7, 7, 7, 7]
