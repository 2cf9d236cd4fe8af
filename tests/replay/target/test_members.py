"""`replay.target.members`: who stands for a captured member."""

from __future__ import annotations

from kdissect.replay.target.members import JOINING, LiveMember, Members, own_member_id

UNKNOWN_MEMBER_ID = 25


def test_a_member_goes_by_all_its_captured_ids() -> None:
    members, live = Members(), LiveMember("group", "target-1")
    members.learn(live, "", None, "captured-1", "captured-2")
    assert members.live("group", "captured-1") is live
    assert members.live("other", "captured-1") is None
    assert (members.of_group("group"), members.all()) == ({"captured-1": live, "captured-2": live}, [live])
    members.forget("group", "captured-1")
    assert members.live("group", "captured-1") is None


def test_a_join_tells_generation_leader_and_members() -> None:
    live = LiveMember("group", "")
    assert not live.is_in
    response = {
        "member_id": "m",
        "generation_id": 3,
        "leader": "m",
        "members": [{"member_id": "m"}, {"member_id": "n"}],
    }
    live.take_join_response({"group_id": "t-group", "member_id": ""}, 9, response)
    assert (live.is_in, live.leads, live.others, live.generation) == (True, True, ["m", "n"], 3)
    assert (live.join, live.join_version) == ({"group_id": "t-group", "member_id": "m"}, 9)


def test_a_member_that_is_put_out_joins_again() -> None:
    live = LiveMember("group", "m")
    owned = [{"topic_id": b"1" * 16, "partitions": [0]}]
    live.take_heartbeat_response(
        {"error_code": 0, "member_id": "m", "member_epoch": 5, "assignment": {"topic_partitions": owned}}
    )
    live.take_heartbeat_response({})  # no response tells nothing
    assert (live.generation, live.owned) == (5, owned)
    live.take_heartbeat_response({"error_code": UNKNOWN_MEMBER_ID})
    assert (live.generation, live.owned) == (JOINING, [])


def test_an_own_id_is_the_same_for_the_same_member() -> None:
    assert own_member_id("run", "g", "m") == own_member_id("run", "g", "m") != own_member_id("run", "g", "n")
    assert len(own_member_id("run", "g", "m")) == 22
