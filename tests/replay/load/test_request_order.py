"""`replay.load.request_order`: the order of members of a group, and of requests that write the same state.

Requests that are written twice are sent in the captured order, however slow the target.

The target is one on paper that takes requests when they arrive, and one of its connections is slow.
"""

from __future__ import annotations

from typing import Any

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from kdissect.replay.load.request_order import GroupOrder, LastWriters
from kdissect.replay.load.request_table import Request
from kdissect.replay.load.spool import SpoolSlot
from kdissect.replay.net.connection import Connection
from kdissect.replay.rewrite.names import Names
from kdissect.replay.settings import Groups, Pace
from tests.helpers.paper_cluster import COMMIT, PRODUCE, Cluster, batch, orders, produce, took
from tests.helpers.paper_target import MS, FarTarget, OnPaper, Script, play, settings

JOIN, SYNC, HEARTBEAT = ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT
LEAVE, EPOCH_HEARTBEAT = ApiKey.LEAVE_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT
DESCRIBE = ApiKey.DESCRIBE_GROUPS


def request_of(index: int, connection: int, key: int, sent: int, answered: int) -> Request:
    slot = SpoolSlot(0, 0)
    return Request(
        index, connection, index, "a:1", key, 3, "answered", sent, sent, answered, 1, True, slot, slot, True
    )  # fmt: skip


def test_members_wait_for_what_they_had_waited_for() -> None:
    order = GroupOrder()
    captured = [  # connection, API, sent, answered
        (1, JOIN, 0, 10),
        (1, SYNC, 11, 12),
        (1, COMMIT, 20, 21),
        (2, JOIN, 30, 50),  # begins a rebalance
        (1, HEARTBEAT, 35, 36),
        (1, JOIN, 40, 51),
        (1, SYNC, 52, 54),
        (2, SYNC, 55, 56),  # after the other one, which led in the capture
        (2, HEARTBEAT, 60, 61),
        (1, LEAVE, 70, 71),
        (2, COMMIT, 80, 81),
    ]
    for index, (connection, key, sent, answered) in enumerate(captured):
        request = request_of(index, connection, key, sent, answered)
        order.take(request, {"group_id": "g"}, {})
    assert order.ended == {
        1: (0,),  # also of its own connection, on which two may be in flight
        2: (1,),
        3: (2,),  # a join comes after all that the other member did
        5: (4,),  # the heartbeat before it waits for nothing that the commit had not waited for
        6: (3, 5),
        7: (3, 5),  # a sync after the other join, but not after the other sync
        8: (6, 7),
        9: (6, 8),
        10: (9,),
    }
    assert order.sent == {5: (3,)}


def test_a_join_comes_after_heartbeats_that_it_had_not_disturbed() -> None:
    order = GroupOrder()
    captured = [  # connection, API, sent, answered, error
        (1, HEARTBEAT, 10, 40, 0),  # on the target it would get into the rebalance that the join begins
        (2, HEARTBEAT, 15, 40, ErrorCode.REBALANCE_IN_PROGRESS),
        (3, JOIN, 20, 60, 0),
        (4, JOIN, 30, 60, 0),
    ]
    for index, (connection, key, sent, answered, error) in enumerate(captured):
        body = {"group_id": "g", "member_id": f"member-{connection}"}
        answer = {"error_code": error, "member_id": f"member-{connection}", "generation_id": 7}
        order.take(request_of(index, connection, key, sent, answered), body, answer)
    assert order.ended == {2: (0,), 3: (0,)}
    assert order.together(2) == order.together(3) == [(2, "member-3"), (3, "member-4")]
    assert order.together(0) == []


def test_what_a_member_with_an_epoch_says_comes_after_its_heartbeats() -> None:
    """The target may raise its epoch at any of them, where the captured one did not."""
    order = GroupOrder()
    captured = [  # API, sent, answered, epoch
        (EPOCH_HEARTBEAT, 10, 11, 3),
        (EPOCH_HEARTBEAT, 20, 21, 3),
        (COMMIT, 30, 31, 3),
        (COMMIT, 40, 41, 3),
    ]
    for index, (key, sent, answered, epoch) in enumerate(captured):
        body = {"group_id": "g", "member_id": "m", "member_epoch": epoch}
        order.take(request_of(index, 1, key, sent, answered), body, {"error_code": 0, "member_epoch": epoch})
    assert order.ended == {1: (0,), 2: (1,), 3: (2,)}


SLOW = 1  # the captured connection whose frames take long on their way to the target
TXN_COMMIT, INIT, ADD_OFFSETS, END = 28, 22, 25, 26
Tree = dict[str, Any]


def test_a_description_comes_between_what_changes_the_members() -> None:
    order = GroupOrder()
    captured = [  # connection, API, sent, answered
        (1, JOIN, 0, 10),
        (1, SYNC, 11, 12),
        (2, EPOCH_HEARTBEAT, 13, 30),  # is not answered when the group is described
        (9, DESCRIBE, 20, 21),
        (1, HEARTBEAT, 31, 32),  # changes nothing, and does not wait
        (1, LEAVE, 40, 41),
        (9, DESCRIBE, 50, 51),
    ]
    for index, (connection, key, sent, answered) in enumerate(captured):
        body = {"groups": ["g", "h"]} if key == DESCRIBE else {"group_id": "g", "member_epoch": 0}
        order.take(request_of(index, connection, key, sent, answered), body, {})
    assert {index: order.ended.get(index) for index in (3, 5, 6)} == {3: (1,), 5: (2, 3, 4), 6: (2, 5)}
    assert 3 not in order.ended[4]


def lag(connection: Connection) -> int:
    return 80 * MS if connection.owner == SLOW else MS


class Taker(Cluster):
    """A cluster that also takes offsets in transactions and what administrators change."""

    def __call__(self, key: int, version: int, body: Tree) -> Tree | None:
        taken = (TXN_COMMIT, ApiKey.CREATE_TOPICS, ApiKey.ALTER_CONFIGS)
        return {} if key in taken else super().__call__(key, version, body)


def far(script: Script, pace: Pace, **more: Any) -> OnPaper:
    asked = settings(pace=pace, groups=Groups.SIMPLE, **more)
    target = FarTarget(Taker(), lag=lag)
    return play(script.capture(), script.shelf, target, orders(), asked, prepared=True)


def commit(offset: int, group: str = "g", partition: int = 0) -> Tree:
    each = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
    member = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": ""}
    return member | {"topics": [{"name": "orders", "partitions": [each]}]}


def committed(done: OnPaper, key: int = COMMIT) -> list[int]:
    """Return the offsets that were committed, in the order in which the target got them."""
    return [body["topics"][0]["partitions"][0]["committed_offset"] for _, _, body in done.sent(key)]


@pytest.mark.parametrize("pace", list(Pace))
def test_commits_of_two_connections_arrive_in_the_captured_order(pace: Pace) -> None:
    script = Script()
    for number, connection in enumerate((SLOW, 2, SLOW, 2)):
        script.add(5 * number, COMMIT, 7, commit(10 * number), {"topics": []}, connection=connection)
    done = far(script, pace)
    assert committed(done) == [0, 10, 20, 30]
    assert done.buckets() == {"answered": 4}


def test_commits_of_other_groups_and_partitions_do_not_wait() -> None:
    script = Script()
    script.add(0, COMMIT, 7, commit(1), {"topics": []}, connection=SLOW)
    script.add(5, COMMIT, 7, commit(2, group="h"), {"topics": []}, connection=2)
    script.add(6, COMMIT, 7, commit(3, partition=1), {"topics": []}, connection=3)
    assert committed(far(script, Pace.ASAP)) == [2, 3, 1]


def test_commits_of_two_transactions_arrive_in_the_captured_order() -> None:
    script = Script()
    for number, connection in enumerate((SLOW, 2)):
        begin, own = 20 * number, {"connection": connection}
        who: Tree = {"transactional_id": f"t{number}", "producer_id": 900 + number, "producer_epoch": 0}
        answer = {"error_code": 0, "producer_id": 900 + number, "producer_epoch": 0}
        ask = {"transactional_id": f"t{number}", "transaction_timeout_ms": 9}
        script.add(begin, INIT, 3, ask, answer, **own)
        script.add(begin + 2, ADD_OFFSETS, 3, who | {"group_id": "g"}, {"error_code": 0}, **own)
        offsets = commit(10 * number)["topics"]
        body = who | {
            "group_id": "g",
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": offsets,
        }
        script.add(begin + 4, TXN_COMMIT, 3, body, {"topics": []}, **own)
        script.add(begin + 8, END, 3, who | {"committed": True}, {"error_code": 0}, **own)
    script.add(60, COMMIT, 7, commit(20), {"topics": []}, connection=3)
    done = far(script, Pace.ASAP)
    both = [
        body["topics"][0]["partitions"][0]["committed_offset"]
        for _, key, _, body in done.target.asked
        if key in (COMMIT, TXN_COMMIT)
    ]
    assert both == [0, 10, 20]


def test_changes_of_a_topic_arrive_in_the_captured_order() -> None:
    script = Script()
    topic = {"name": "orders", "num_partitions": 4, "replication_factor": 1, "assignments": [], "configs": []}
    create = {"topics": [topic], "timeout_ms": 9, "validate_only": False}
    script.add(0, ApiKey.CREATE_TOPICS, 4, create, {"topics": []}, connection=SLOW)
    for number, connection in enumerate((2, SLOW, 2)):
        config = {"name": "retention.ms", "value": str(number)}
        resource = {"resource_type": 2, "resource_name": "orders", "configs": [config]}
        body = {"resources": [resource], "validate_only": False}
        at_ms = 5 + 5 * number
        script.add(at_ms, ApiKey.ALTER_CONFIGS, 1, body, {"responses": []}, connection=connection)
    allowed = frozenset({ApiKey.CREATE_TOPICS, ApiKey.ALTER_CONFIGS})
    done = far(script, Pace.ASAP, allowed_apis=allowed)
    asked = [(key, body) for _, key, _, body in done.target.asked if key in allowed]
    assert [key for key, _ in asked] == [ApiKey.CREATE_TOPICS, *3 * [ApiKey.ALTER_CONFIGS]]
    values = [body["resources"][0]["configs"][0]["value"] for _, body in asked[1:]]
    assert values == ["0", "1", "2"]


@pytest.mark.parametrize("numbered", [False, True])
def test_batches_of_a_producer_that_connected_again_arrive_in_the_captured_order(numbered: bool) -> None:
    script = Script()
    for number, connection in enumerate((SLOW, SLOW, 2, 2)):
        data = batch(number if numbered else -1, text=b"%d" % number)
        script.add(5 * number, PRODUCE, 9, produce(data), took(0), connection=connection)
    done = far(script, Pace.ASAP)
    bodies = [body["topic_data"][0]["partition_data"][0]["records"] for _, _, body in done.sent(PRODUCE)]
    assert [data[-2:-1] for data in bodies] == [b"0", b"1", b"2", b"3"]


def test_producers_of_one_name_that_write_in_turns_do_not_wait_for_each_other() -> None:
    script = Script()
    for number, connection in enumerate((SLOW, 2, SLOW, 2)):
        data = batch(text=b"%d" % number)
        script.add(5 * number, PRODUCE, 9, produce(data), took(0), connection=connection)
    done = far(script, Pace.ASAP)
    bodies = [body["topic_data"][0]["partition_data"][0]["records"] for _, _, body in done.sent(PRODUCE)]
    assert [data[-2:-1] for data in bodies] == [b"1", b"3", b"0", b"2"]


def test_what_removes_a_group_comes_after_all_of_its_commits_and_before_later_ones() -> None:
    names, writers = Names(settings(), {}), LastWriters()
    delete = {"groups_names": ["g"]}
    for index, body in enumerate((commit(1), commit(2, partition=1))):
        writers.take(index, COMMIT, 7, body, names)
    writers.take(2, ApiKey.DELETE_GROUPS, 1, delete, names)
    writers.take(3, COMMIT, 7, commit(4), names)
    assert writers.earlier(2, ApiKey.DELETE_GROUPS, 1, delete, names) == {0, 1}
    assert writers.earlier(3, COMMIT, 7, commit(4), names) == {0, 2}
    assert writers.earlier(1, COMMIT, 7, commit(2, partition=1), names) == set()


def test_what_is_about_a_topic_comes_after_its_last_change() -> None:
    names, writers = Names(settings(), {}), LastWriters()
    writers.take(0, ApiKey.DELETE_GROUPS, 1, {"groups_names": ["orders"]}, names)
    assert not writers.change_topics
    writers.take(3, ApiKey.CREATE_TOPICS, 4, {"topics": [{"name": "orders"}]}, names)
    writers.take(7, ApiKey.CREATE_PARTITIONS, 1, {"topics": [{"name": "orders"}]}, names)
    assert writers.change_topics
    assert [list(writers.change_of("orders", index)) for index in (3, 7, 8)] == [[], [3], [7]]
    assert list(writers.change_of("clicks", 8)) == []
