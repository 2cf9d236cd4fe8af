"""`replay.handlers.heartbeats`, against a target on paper."""

from __future__ import annotations

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from tests.helpers.paper_cluster import COMMIT, Tree, orders
from tests.helpers.paper_groups import (
    CONSUMER_HEARTBEAT,
    FULL,
    ByHeartbeat,
    commit,
)
from tests.helpers.paper_shares import TARGET, Member, Sharing
from tests.helpers.paper_target import MS, FarTarget, Script, play, replay

OFFSET_FETCH = 9


def test_a_member_without_leaders_says_all_first() -> None:
    script = Script()
    commit(script, 0, 1, "m", version=9)
    for at, epoch in ((10, 9), (20, 9), (30, -1)):
        body = {"group_id": "g", "member_id": "m", "member_epoch": epoch}
        answer = {"error_code": 0, "member_id": "m", "member_epoch": epoch, "heartbeat_interval_ms": 1}
        script.add(at, CONSUMER_HEARTBEAT, 1, body, answer, connection=2)
    done = replay(script, ByHeartbeat(), FULL, target=orders())
    assert done.buckets() == {"answered": 4}
    beats = [body for _, _, body in done.sent(CONSUMER_HEARTBEAT)]
    assert [body["member_epoch"] for body in beats] == [0, 31, 31, -1]
    assert [body["subscribed_topic_names"] for body in beats] == [["t-orders"], None, None, None]
    assert (beats[0]["topic_partitions"], len({body["member_id"] for body in beats})) == ([], 1)
    ((_, _, committed),) = done.sent(COMMIT)
    assert (committed["member_id"], committed["generation_id_or_member_epoch"]) == (beats[0]["member_id"], 31)


class Raising(ByHeartbeat):
    """A coordinator that raises the epoch at every heartbeat, and refuses commits at an older one."""

    epoch = 30

    def __call__(self, key: int, version: int, body: Tree) -> Tree | None:
        answer = super().__call__(key, version, body)
        if key == CONSUMER_HEARTBEAT and answer is not None:
            self.epoch += 1
            return answer | {"member_epoch": self.epoch}
        if key == OFFSET_FETCH:
            stale = any(group["member_epoch"] != self.epoch for group in body["groups"])
            error = ErrorCode.STALE_MEMBER_EPOCH if stale else ErrorCode.NONE
            return {"groups": [{"group_id": "t-g", "topics": [], "error_code": error}]}
        if key == COMMIT and body["generation_id_or_member_epoch"] != self.epoch:
            parts = [{"partition_index": 0, "error_code": ErrorCode.STALE_MEMBER_EPOCH}]
            return {"topics": [{"name": "t-orders", "partitions": parts}]}
        return answer


def test_a_commit_beside_a_heartbeat_that_raises_the_epoch_is_sent_again() -> None:
    script = Script()
    for at, epoch, took_ms in ((0, 0, 1), (10, 9, 30)):
        body = {"group_id": "g", "member_id": "m", "member_epoch": epoch}
        answer = {"error_code": 0, "member_id": "m", "member_epoch": 9, "heartbeat_interval_ms": 1}
        script.add(at, CONSUMER_HEARTBEAT, 1, body, answer, in_flight=2, took_ms=took_ms)
    commit(script, 11, 1, "m", version=9)
    target = FarTarget(Raising(), lag=lambda _link: 5 * MS)
    done = play(script.capture(), script.shelf, target, orders(), FULL)
    committed = [body["generation_id_or_member_epoch"] for _, _, body in done.sent(COMMIT)]
    assert committed == [31, 32]
    assert done.buckets() == {"answered": 3}


def test_an_offset_fetch_beside_a_heartbeat_that_raises_the_epoch_is_sent_again() -> None:
    script = Script()
    for at, epoch, took_ms in ((0, 0, 1), (10, 9, 30)):
        body = {"group_id": "g", "member_id": "m", "member_epoch": epoch}
        answer = {"error_code": 0, "member_id": "m", "member_epoch": 9, "heartbeat_interval_ms": 1}
        script.add(at, CONSUMER_HEARTBEAT, 1, body, answer, in_flight=2, took_ms=took_ms)
    group = {"group_id": "g", "member_id": "m", "member_epoch": 9, "topics": None}
    found = {"groups": [{"group_id": "g", "topics": [], "error_code": 0}]}
    script.add(11, OFFSET_FETCH, 9, {"groups": [group]}, found)
    target = FarTarget(Raising(), lag=lambda _link: 5 * MS)
    done = play(script.capture(), script.shelf, target, orders(), FULL)
    asked = [body["groups"][0] for _, _, body in done.sent(OFFSET_FETCH)]
    assert [each["member_epoch"] for each in asked] == [31, 32]
    assert len({each["member_id"] for each in asked}) == 1
    assert done.buckets() == {"answered": 3}


class Assigning(Sharing):
    """A coordinator that assigns partitions to a member of a share group from its fourth heartbeat on."""

    beats = 0

    def __call__(self, key: int, version: int, body: Tree) -> Tree | None:
        answer = super().__call__(key, version, body)
        if key == ApiKey.SHARE_GROUP_HEARTBEAT and answer is not None:
            self.beats += 1
            return answer | {"assignment": answer["assignment"] if self.beats > 3 else None}
        return answer


def test_a_member_of_a_share_group_sends_heartbeats_until_it_has_what_the_captured_one_was_assigned() -> None:
    member, coordinator = Member(), Assigning()
    for at_ms, epoch, assigned in ((0, 0, 0), (10, 1, 2), (20, 1, 0)):
        member.heartbeat(at_ms, epoch, assigned)
    late = member.fetch(5000, 0)
    done = replay(member.script, coordinator, FULL, target=TARGET)
    assert done.buckets() == {"answered": 4}
    beats = [body for _, _, body in done.sent(ApiKey.SHARE_GROUP_HEARTBEAT)]
    assert [body["member_epoch"] for body in beats] == [0, 5, 5, 5, 5, -1]
    assert [body["subscribed_topic_names"] for body in beats] == [["t-orders"], *[None] * 5]
    results = {result.index: result for result in done.player.results}
    # It was the target that made the second one late.
    assert [results[index].cause for index in range(1, late + 1)] == ["dependency", "in-flight cap", ""]


class Fencing(ByHeartbeat):
    """A coordinator that puts a member out at one of its heartbeats, and fences one that begins twice."""

    def __init__(self, fenced_at: int) -> None:
        super().__init__()
        self.fenced_at, self.beats, self.known = fenced_at, 0, False

    def __call__(self, key: int, version: int, body: Tree) -> Tree | None:
        if key == CONSUMER_HEARTBEAT:
            self.beats += 1
            fenced = self.beats == self.fenced_at
            if fenced or (self.known and body["member_epoch"] == 0):
                self.known = not fenced
                return {"error_code": ErrorCode.FENCED_MEMBER_EPOCH, "member_epoch": 0}
            self.known = True
        return super().__call__(key, version, body)


def beats_of(fenced_at: int) -> list[Tree]:
    """Replay a member that the capture let in at its second attempt; return what was sent."""
    script = Script()
    whole = {
        "group_id": "g", "member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 3000,
        "subscribed_topic_names": ["orders"], "topic_partitions": [],
    }  # fmt: skip
    short = {"group_id": "g", "member_id": "m", "member_epoch": 9, "rebalance_timeout_ms": -1}
    good = {"error_code": 0, "member_id": "m", "member_epoch": 9, "heartbeat_interval_ms": 1}
    script.add(0, CONSUMER_HEARTBEAT, 1, whole, {"error_code": ErrorCode.NOT_COORDINATOR})
    for at, body in ((10, whole), (20, short), (30, short), (40, short)):
        script.add(at, CONSUMER_HEARTBEAT, 1, body, good)
    done = replay(script, Fencing(fenced_at), FULL, target=orders())
    assert done.buckets() == {"answered": 5}
    return [body for _, _, body in done.sent(CONSUMER_HEARTBEAT)]


def test_a_member_that_is_in_already_does_not_begin_again() -> None:
    sent = beats_of(fenced_at=0)
    assert [body["member_epoch"] for body in sent] == [0, 31, 31, 31, 31, -1]
    assert sent[1]["subscribed_topic_names"] == ["t-orders"]
    assert sent[1]["topic_partitions"] == [{"topic_id": b"1" * 16, "partitions": [0]}]


def test_a_member_that_was_put_out_says_again_how_long_it_may_take_to_rebalance() -> None:
    sent = beats_of(fenced_at=3)
    assert [body["member_epoch"] for body in sent] == [0, 31, 31, 0, 31, -1]
    assert [body["rebalance_timeout_ms"] for body in sent][:5] == [3000, 3000, -1, 3000, -1]
