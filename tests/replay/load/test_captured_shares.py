"""`replay.load.captured_shares`: where share groups begin to read, and what they were handed out."""

from __future__ import annotations

from kdissect.replay.load.analysis import load
from kdissect.replay.load.captured_shares import CapturedShares
from tests.helpers.paper_shares import ACCEPT, FULL, ORDERS, Member
from tests.helpers.paper_target import MS, START, Tree

FIRST, SECOND = ("orders", 0), ("orders", 1)


def learnt(member: Member) -> CapturedShares:
    return load(member.script.capture(), member.script.shelf, FULL).shares


def at(ms: float) -> int:
    return START + int(ms * MS)


def test_a_group_begins_with_the_first_fetch_of_a_partition_that_was_answered() -> None:
    member = Member()
    member.heartbeat(0, 0)
    begin, other = member.fetch(10, 0), member.fetch(20, 1)
    member.fetch(30, 0, [ACCEPT])
    shares = learnt(member)
    assert shares.begins(FIRST, at(10.9)) == []  # the response came a millisecond later
    assert shares.begins(FIRST, at(11)) == shares.begins(FIRST, at(99)) == [begin]
    assert shares.begins(SECOND, at(99)) == [other]
    assert shares.begins(("other", 0), at(99)) == []


def test_a_group_has_not_begun_while_responses_leave_the_partition_out_or_have_an_error() -> None:
    member = Member()
    member.heartbeat(0, 0)
    body = {"group_id": "g", "member_id": "m", "share_session_epoch": 0, "max_wait_ms": 1, "min_bytes": 1}
    body |= {"topics": [{"topic_id": ORDERS, "partitions": [{"partition_index": 0}]}]}

    def fetch(at_ms: float, answer: Tree | None) -> int:
        return member.script.add(at_ms, 78, 2, body, answer, connection=int(at_ms))

    def listing(error: int) -> Tree:
        fields = {"partition_index": 0, "error_code": error, "acquired_records": []}
        return {"error_code": 0, "responses": [{"topic_id": ORDERS, "partitions": [fields]}]}

    fetch(10, None)
    fetch(20, {"error_code": 42, "responses": []})
    fetch(30, listing(3))
    fetch(40, {"error_code": 0, "responses": []})
    begin = fetch(50, listing(0))
    fetch(60, listing(0))
    shares = learnt(member)
    assert shares.begins(FIRST, at(99)) == [begin]
    assert shares.is_begin(begin, FIRST)
    assert not shares.is_begin(begin + 1, FIRST)
    assert not shares.is_begin(begin, SECOND)


def test_what_a_fetch_was_handed_out() -> None:
    member = Member()
    member.heartbeat(0, 0)
    empty, full = member.fetch(10, 0), member.fetch(20, 0, acquired=(70, 74))
    shares = learnt(member)
    assert shares.acquired(empty) == {}
    assert shares.acquired(full) == {FIRST: (75, 5)}
