"""`replay.load.group_order`: two members, of whom one joins while the other is in."""

from __future__ import annotations

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.load.group_order import GroupOrder
from kdissect.replay.load.request_table import Request
from kdissect.replay.load.spool import SpoolSlot

JOIN, SYNC, HEARTBEAT = ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT
LEAVE, COMMIT = ApiKey.LEAVE_GROUP, ApiKey.OFFSET_COMMIT


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
        slot = SpoolSlot(0, 0)
        request = Request(
            index,
            connection,
            index,
            "a:1",
            key,
            5,
            "answered",
            sent,
            sent,
            answered,
            1,
            True,
            slot,
            slot,
            True,
        )
        order.take(request, {"group_id": "g"}, {})
    assert order.ended == {
        3: (2,),  # a join comes after all that the other member did
        6: (3,),
        7: (5,),  # a sync after the other join, but not after the other sync
        8: (6,),
        9: (8,),
        10: (9,),
    }
    assert order.sent == {5: (3,)}
