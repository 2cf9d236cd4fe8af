"""`replay.handlers.share`, against a target on paper."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from kdissect.protocol.error_codes import ErrorCode
from kdissect.replay.disposition import Disposition
from kdissect.replay.effects import Answer, Part
from kdissect.replay.handlers.sending import STATE_PAUSES
from kdissect.replay.handlers.share import learn_acquired
from kdissect.replay.pass_state import PassNotes
from kdissect.replay.settings import Pace
from kdissect.replay.target.share_sessions import OwnShareSession
from tests.helpers.paper_shares import (
    ACCEPT,
    ACKNOWLEDGE,
    FETCH,
    FULL,
    HEARTBEAT,
    NOT_FOUND,
    REJECT,
    RELEASE,
    TARGET,
    Member,
    Sharing,
)
from tests.helpers.paper_target import MS, Tree, replay, topology

UNKNOWN = ErrorCode.UNKNOWN_SERVER_ERROR


def test_two_captured_sessions_are_one_on_a_node_that_leads_both_partitions() -> None:
    member, sharing = Member(), Sharing()
    member.heartbeat(0, 0)
    for at in (50, 100, 150):
        for partition in (0, 1):
            member.fetch(at + partition, partition, [ACCEPT, RELEASE] if at > 50 else None)
    member.acknowledge(200, 0, [REJECT])
    for partition in (0, 1):
        member.acknowledge(220 + partition, partition, epoch=-1)
    member.heartbeat(230, -1)
    done = replay(member.script, sharing, FULL, target=TARGET, delay_ns=5 * MS)
    assert sharing.refused == []
    assert done.buckets() == {
        "answered": 10,
        "policy": 1,
    }  # of two captured sessions that end, one is the target's
    bodies = [body for key in (FETCH, ACKNOWLEDGE) for _, _, body in done.sent(key)]
    assert [body["share_session_epoch"] for body in bodies] == [0, 1, 2, 3, 4, 5, 6, -1]
    assert len({body["member_id"] for body in bodies}) == 1
    assert len(bodies[0]["member_id"]) == 22  # as a Uuid is written
    assert {body["group_id"] for body in bodies} == {"t-g"}
    assert set(sharing.said) == {ACCEPT, RELEASE, REJECT}
    assert abs(sharing.said[ACCEPT] - sharing.said[RELEASE]) <= 6
    assert not sharing.held.get(0)  # all of what was handed out of the partition that was acknowledged last


def test_a_member_joins_before_it_fetches_on_other_connections_and_leaves_when_it_has() -> None:
    member, sharing = Member(), Sharing()
    member.heartbeat(0, 0)
    for at in (50, 100):
        member.fetch(at, 0, [ACCEPT] if at > 50 else None)
    member.acknowledge(200, 0, [ACCEPT], epoch=-1)
    member.heartbeat(230, -1)
    at_once = replace(FULL, pace=Pace.ASAP)
    done = replay(member.script, sharing, at_once, target=TARGET, delay_ns=5 * MS)
    assert done.buckets() == {"answered": 5}
    keys = [key for _, key, _, _ in done.target.asked if key in (HEARTBEAT, FETCH, ACKNOWLEDGE)]
    assert keys == [HEARTBEAT, FETCH, FETCH, ACKNOWLEDGE, HEARTBEAT]


def test_a_member_and_a_session_older_than_the_capture() -> None:
    member, sharing = Member(), Sharing()
    member.epochs.update({0: 7})
    member.fetch(10, 0)
    member.fetch(30, 0, [ACCEPT])
    done = replay(member.script, sharing, FULL, target=TARGET)
    assert [body["member_epoch"] for _, _, body in done.sent(HEARTBEAT)][:1] == [0]
    assert [body["share_session_epoch"] for _, _, body in done.sent(FETCH)] == [0, 1]
    assert [len(topic["partitions"]) for topic in done.sent(FETCH)[0][2]["topics"]] == [2]  # what is assigned
    assert sharing.said == {ACCEPT: 3}
    assert done.buckets() == {"answered": 2}


def test_a_lost_session_begins_again() -> None:
    member, sharing = Member(), Sharing()
    member.heartbeat(0, 0)
    member.fetch(10, 0)
    member.fetch(30, 0)
    member.fetch(60, 0, [ACCEPT])
    member.fetch(80, 0, [ACCEPT])
    forgets = iter([False, True])

    def respond(key: int, version: int, body: Tree) -> Tree | None:
        if key == FETCH and next(forgets, False):
            sharing.epoch = None
        return sharing(key, version, body)

    done = replay(member.script, respond, FULL, target=TARGET)
    assert sharing.refused == [NOT_FOUND]
    assert [body["share_session_epoch"] for _, _, body in done.sent(FETCH)] == [0, 1, 0, 1]
    assert done.context.notes.counts["share sessions begun again"] == 1
    assert sharing.said == {ACCEPT: 3}


class Beginning(Sharing):
    """Keeps no state of share groups at first: fetches are refused, partition by partition or as a whole."""

    def __init__(self, refusals: int, whole: bool) -> None:
        super().__init__()
        self.refusals, self.whole = refusals, whole

    def __call__(self, key: int, version: int, body: Tree) -> Tree | None:
        if key != FETCH or not self.refusals:
            return super().__call__(key, version, body)
        self.refusals -= 1
        if self.whole:
            return {"error_code": UNKNOWN, "responses": []}
        answer = super().__call__(key, version, body) or {}
        self.held.clear()
        for each in (each for topic in answer["responses"] for each in topic["partitions"]):
            each |= {"error_code": UNKNOWN, "acquired_records": []}
        return answer


@pytest.mark.parametrize(("whole", "epochs"), [(False, [0, 1, 2, 3]), (True, [0, 0, 0, 1])])
def test_a_fetch_is_sent_again_until_the_target_keeps_state_of_share_groups(
    whole: bool, epochs: list[int]
) -> None:
    member, sharing = Member(), Beginning(2, whole)
    member.heartbeat(0, 0)
    member.fetch(50, 0)
    member.fetch(5000, 0, [ACCEPT])
    done = replay(member.script, sharing, FULL, target=TARGET)
    assert sharing.refused == []
    assert [body["share_session_epoch"] for _, _, body in done.sent(FETCH)] == epochs
    assert sharing.said == {ACCEPT: 3}
    assert done.buckets() == {"answered": 3}
    assert done.context.notes.counts["fetches of share groups sent again"] == 2


def test_a_target_that_never_keeps_state_of_share_groups_is_asked_a_few_times() -> None:
    member, sharing = Member(), Beginning(1000, whole=True)
    member.heartbeat(0, 0)
    member.fetch(50, 0)
    done = replay(member.script, sharing, FULL, target=TARGET)
    assert len(done.sent(FETCH)) == 1 + STATE_PAUSES
    assert done.buckets() == {"answered": 2}


def test_members_of_share_groups_need_full_groups_and_a_target_that_knows_them() -> None:
    member = Member()
    member.heartbeat(0, 0)
    member.fetch(10, 0)
    done = replay(member.script, Sharing(), target=TARGET)
    assert {item.refusal.reason for item in done.loaded.items if item.refusal} == {
        "group membership is replayed with --groups full, not off"
    }
    older = topology({"t-orders": 4})
    for key in (HEARTBEAT, FETCH, ACKNOWLEDGE):
        del older.versions[key]
    assert replay(member.script, Sharing(), FULL, target=older).buckets() == {"version": 2}


def test_what_was_under_way_in_a_lost_session_does_not_end_the_next_one() -> None:
    session = OwnShareSession()
    context = SimpleNamespace(notes=PassNotes(), names=None)
    asked = [session.next_epoch() for _ in range(3)]
    for epoch in asked[1:]:
        part = Part(FETCH, 2, {"share_session_epoch": epoch})
        answer = Answer(part, Disposition.CLOSED)
        learn_acquired(context, session, answer)  # type: ignore[arg-type]
        if epoch == 1:
            assert session.next_epoch() == 0
    assert session.epoch == 1
    assert context.notes.counts["share sessions begun again"] == 1
