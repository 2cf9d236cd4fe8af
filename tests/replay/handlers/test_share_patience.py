"""`replay.handlers.share_patience`, against a target on paper."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kdissect.replay.settings import Pace
from tests.helpers.paper_cluster import PRODUCE
from tests.helpers.paper_shares import FETCH, FULL, TARGET, Member, Sharing
from tests.helpers.paper_target import MS, OnPaper, PaperTarget, Tree, play

BACK_MS = 40  # how long the target takes to answer


def played(member: Member, pace: Pace, sharing: Sharing | None = None) -> OnPaper:
    paper = PaperTarget(sharing or Sharing(), BACK_MS * MS)
    script = member.script
    return play(script.capture(), script.shelf, paper, TARGET, replace(FULL, pace=pace), prepared=True)


def order(done: OnPaper) -> list[int]:
    return [key for _, key, _, _ in done.target.asked if key in (PRODUCE, FETCH)]


@pytest.mark.parametrize("pace", [Pace.ASAP, Pace.THINK])
def test_what_a_group_will_read_is_written_when_the_group_has_begun(pace: Pace) -> None:
    member = Member()
    member.produce(0, 0, 60)  # before the group began
    member.heartbeat(1, 0)
    member.fetch(2, 0)
    member.produce(4, 0, 70)
    member.produce(4, 1, 80, connection=21)  # the group does not read this partition
    done = played(member, pace)
    assert done.buckets() == {"answered": 5}
    (begin_ns,) = [at for at, _, _ in done.sent(FETCH)]
    late = [at for at, _, _ in done.sent(PRODUCE) if at > begin_ns]
    assert len(late) == 1
    assert late[0] >= begin_ns + BACK_MS * MS
    assert order(done) == [PRODUCE, PRODUCE, FETCH, PRODUCE]


class Beginning(Sharing):
    """Reads the state of a group at first, and leaves partitions out of its responses until it knows it."""

    reading = 2  # fetches

    def __call__(self, key: int, version: int, body: Tree) -> Tree | None:
        answer = super().__call__(key, version, body)
        if key == FETCH and self.reading:
            self.reading -= 1
            return {"error_code": 0, "responses": []}
        return answer


def test_a_group_begins_with_the_first_response_that_lists_the_partition() -> None:
    member = Member()
    member.heartbeat(0, 0)
    member.fetch(2, 0)
    member.produce(4, 0, 70)
    done = played(member, Pace.ASAP, Beginning())
    assert done.buckets() == {"answered": 3}
    assert order(done) == [FETCH, FETCH, FETCH, PRODUCE]
    assert done.context.notes.counts["fetches of share groups sent again"] == 2


@pytest.mark.parametrize("pace", [Pace.ASAP, Pace.THINK])
def test_a_fetch_comes_after_the_produces_that_it_read(pace: Pace) -> None:
    member = Member()
    member.heartbeat(0, 0)
    member.fetch(10, 0)
    member.fetch(12, 0, acquired=(70, 70))  # a long poll, which the next produce ended
    member.produce(12.5, 0, 70)
    done = played(member, pace)
    assert done.buckets() == {"answered": 4}
    assert order(done) == [FETCH, PRODUCE, FETCH]
    (written_ns,) = [at for at, _, _ in done.sent(PRODUCE)]
    assert done.sent(FETCH)[1][0] >= written_ns + BACK_MS * MS


def waits(done: OnPaper) -> list[int]:
    return [body["max_wait_ms"] for _, _, body in done.sent(FETCH)]


def test_two_sessions_that_are_one_wait_for_their_turn_and_for_the_rest_of_their_time() -> None:
    member = Member()
    member.heartbeat(0, 0)
    for partition, at_ms in enumerate((400, 410)):
        member.fetch(at_ms, partition, wait_ms=500)
    for partition, at_ms in enumerate((1000, 1010)):
        member.fetch(at_ms, partition, wait_ms=500)
    done = played(member, Pace.SCHEDULE)
    first, second, third, fourth = (at // MS for at, _, _ in done.sent(FETCH))
    assert (second - first, fourth - third) == (BACK_MS, BACK_MS)
    # The leader finds out where the group begins to read, then the second one waits for what is left.
    assert waits(done) == [500, 500, 500, 500 - (BACK_MS - 10)]


def test_at_asap_a_fetch_waits_for_what_it_was_handed_out_and_no_longer() -> None:
    member = Member()
    member.heartbeat(0, 0)
    member.fetch(10, 0, wait_ms=500)  # the target hands out three records of each fetch
    member.fetch(600, 0, wait_ms=500)
    member.produce(1000, 0, 70)
    member.fetch(1200, 0, wait_ms=500, acquired=(70, 75))
    member.fetch(1300, 0, wait_ms=500, acquired=(76, 81))
    done = played(member, Pace.ASAP)
    assert waits(done) == [500, 1, 1, 500]


class Empty(Sharing):
    """Hands out nothing."""

    def _hand_out(self, partition: int, error: int) -> Tree:
        return {"partition_index": partition, "acknowledge_error_code": error, "acquired_records": []}


def test_a_group_that_lacks_records_waits_as_long_as_in_the_capture() -> None:
    member = Member()
    member.heartbeat(0, 0)
    member.fetch(10, 0, wait_ms=500)
    for at_ms in (600, 700):
        member.fetch(at_ms, 0, wait_ms=500, acquired=(70, 70))
    assert waits(played(member, Pace.ASAP, Empty())) == [500, 500, 500]
