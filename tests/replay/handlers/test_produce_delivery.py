"""`replay.handlers.produce_delivery`, against a target on paper."""

from __future__ import annotations

import pytest

from kdissect.replay.disposition import Disposition
from kdissect.replay.net.connection import Connection
from kdissect.replay.rewrite.batch_rewrite import (
    CapturedBatch,
)
from kdissect.replay.settings import Address, Pace
from tests.helpers.paper_cluster import INIT, PRODUCE, Cluster, batch, issued, produce, took
from tests.helpers.paper_order import (
    NOT_LEADER,
    OUT_OF_ORDER,
    TOO_LARGE,
    Strict,
    begun,
    far,
    numbered,
    values,
)
from tests.helpers.paper_target import (
    MS,
    PaperTarget,
    Script,
    Tree,
    play,
    settings,
    topology,
)

ENDING = 51  # CONCURRENT_TRANSACTIONS
METADATA = 3
NOT_ENOUGH_REPLICAS = 19


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
    # The leader comes back between two that are under way: what is behind the one that it refused leaves a
    # gap.
    assert {error for error, *_ in strict.refusals} == {NOT_LEADER, OUT_OF_ORDER}
    assert done.context.notes.counts["sent again"] == len(strict.refusals)
    assert sum(result.again for result in done.player.results) == len(strict.refusals)


def test_batches_are_sent_again_as_often_as_the_one_in_front_of_them() -> None:
    script, refusals = begun(), [5]

    def often(one: CapturedBatch) -> int:
        refusals[0] -= one.base_sequence == 1
        return ENDING if one.base_sequence == 1 and refusals[0] >= 0 else 0

    strict = Strict(often)
    numbered(script, b"0", b"1", b"2", b"3", in_flight=3)
    far(script, strict, lambda _link: 10 * MS)
    assert values(strict, 0) == [0, 1, 2, 3]


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


@pytest.mark.parametrize("error", [ENDING, TOO_LARGE])
def test_what_is_behind_a_transaction_that_is_still_ending_is_sent_again_with_it(error: int) -> None:
    """All attempts fail in the capture. Behind one that is left to its client nothing may overtake it."""
    script, refused = Script(), list[bytes]()

    def once(one: CapturedBatch) -> int:
        refused.append(one.content)
        return error if len(refused) == 2 else 0

    strict = Strict(once)
    begin = {"transactional_id": "bank", "transaction_timeout_ms": 1}
    script.add(0, INIT, 4, begin, issued(900, 4))
    script.add(1, PRODUCE, 12, produce(batch(0, text=b"0"), transaction="bank"), took(0))
    for at, code, connection in ((9, error, 1), (500, 0, 2)):
        for number in (1, 2):
            body = produce(batch(number, text=b"%d" % number), transaction="bank")
            code = code and (OUT_OF_ORDER if number == 2 else code)
            script.add(at + number, PRODUCE, 12, body, took(code), connection=connection, in_flight=2)
    done = far(script, strict, lambda _link: 10 * MS)
    assert values(strict, 0) == [0, 1, 2]
    assert [each[0] for each in strict.refusals] == [error, OUT_OF_ORDER]
    assert done.context.notes.counts["sent again"] == (2 if error == ENDING else 0)
    assert done.buckets()["answered"] == (4 if error == ENDING else 6)


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


class HalfDead(PaperTarget):
    """One whose node 2 refuses connections for a second."""

    def connect(self, link: Connection, address: Address) -> None:
        self.refuse = link.node == 2 and self.now_ns < 1000 * MS
        super().connect(link, address)


@pytest.mark.parametrize("prepared", [False, True])
def test_batches_wait_for_a_leader_that_is_out_of_reach(prepared: bool) -> None:
    script = Script()
    for number in range(60):
        one = produce(batch(text=b"%d" % number), batch(text=b"%d" % number))
        script.add(number, PRODUCE, 9, one, took(0, 0), connection=number % 3)
    known = topology({"t-orders": 2}, leaders=2)
    cluster = Cluster()
    paper = HalfDead(lambda key, version, body: {} if key == METADATA else cluster(key, version, body))
    done = play(script.capture(), script.shelf, paper, known, settings(pace=Pace.ASAP), prepared=prepared)
    assert done.buckets() == {"answered": 60}
    assert {len(result.answers) for result in done.player.results} == {2}
    taken = [
        fields["index"]
        for _, _, body in done.sent(PRODUCE)
        for fields in body["topic_data"][0]["partition_data"]
    ]
    assert (taken.count(0), taken.count(1)) == (60, 60)
    assert done.context.notes.counts["sent again"] >= 3


def test_a_partition_that_takes_no_writes_is_waited_for_once() -> None:
    """Twelve requests of three connections end after one deadline, and not each after one of its own."""
    script, cluster = Script(), Cluster(key0=[NOT_ENOUGH_REPLICAS] * 100_000)
    for number in range(12):
        script.add(number, PRODUCE, 9, produce(batch(text=b"%d" % number)), took(0), connection=number % 3)
    paper = PaperTarget(lambda key, version, body: {} if key == METADATA else cluster(key, version, body))
    asked = settings(pace=Pace.ASAP, dependency_deadline_s=5.0)
    done = play(script.capture(), script.shelf, paper, topology({"t-orders": 1}), asked)
    assert done.buckets() == {"answered": 12}
    assert 5_000 * MS <= paper.now_ns < 6_000 * MS


def test_a_partition_that_takes_writes_again_is_waited_for_again() -> None:
    script, cluster = Script(), Cluster(key0=[NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS, 0] * 4)
    for number in range(4):
        script.add(number * 3_000, PRODUCE, 9, produce(batch(text=b"%d" % number)), took(0))
    paper = PaperTarget(lambda key, version, body: {} if key == METADATA else cluster(key, version, body))
    asked = settings(dependency_deadline_s=5.0)
    done = play(script.capture(), script.shelf, paper, topology({"t-orders": 1}), asked)
    assert [result.again for result in done.player.results] == [2] * 4
