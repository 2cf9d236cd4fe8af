"""Values by role, other versions, positions, sessions: each rule on its own."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.protocol.codec.messages import (
    decode,
    decode_embedded,
    encode,
    encode_embedded,
    encode_response,
)
from kdissect.protocol.schema.definition import every_field
from kdissect.protocol.schema.registry import APIS
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.engine.pass_worker import OLD_MESSAGE
from kdissect.replay.handlers.fetch_scan import scan_fetch_response
from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.load.captured_fetch_sessions import CapturedFetchSessions, FetchScope
from kdissect.replay.rewrite.batch_rewrite import modern
from kdissect.replay.rewrite.names import Names
from kdissect.replay.rewrite.roles import rewriter
from kdissect.replay.rewrite.versions import (
    chosen_version,
    convert,
    true_ranges,
)
from kdissect.replay.settings import Offsets
from kdissect.replay.target.fetch_sessions import FetchChanges, FetchedPartition, FetchState, OwnFetchSession
from kdissect.replay.target.offsets import Positions, Rule
from tests.helpers.paper_target import settings
from tests.helpers.random_messages import random_message

OLD, NEW = b"o" * 16, b"n" * 16


def names(**more: Any) -> Names:
    known = Names(settings(**more), {OLD: "orders"})
    known.learn("t-orders", NEW)
    return known


def rewritten(key: int, version: int, body: dict[str, Any], known: Names | None = None) -> dict[str, Any]:
    rewriter(APIS[key].request, version)(body, known or names())
    return body


def test_one_rule_for_topics_wherever_they_stand() -> None:
    assert rewritten(3, 4, {"topics": [{"name": "orders"}]})["topics"] == [{"name": "t-orders"}]
    assert rewritten(1, 13, {"topics": [{"topic_id": OLD, "partitions": []}]})["topics"][0]["topic_id"] == NEW
    assert rewritten(68, 1, {"subscribed_topic_names": ["orders", "x"]})["subscribed_topic_names"] == [
        "t-orders",
        "t-x",
    ]
    described = rewritten(
        32, 1, {"resources": [{"resource_type": kind, "resource_name": "orders"} for kind in (2, 3, 4)]}
    )
    assert [each["resource_name"] for each in described["resources"]] == ["t-orders", "t-orders", "orders"]


def test_maps_come_before_the_prefix() -> None:
    known = names(topic_map={"orders": "o2"}, group_map={"g": "g2"}, transactional_map={"x": "x2"})
    assert rewritten(3, 4, {"topics": [{"name": "orders"}, {"name": "b"}]}, known)["topics"] == [
        {"name": "o2"},
        {"name": "t-b"},
    ]
    assert rewritten(10, 4, {"key_type": 0, "coordinator_keys": ["g", "h"]}, known)["coordinator_keys"] == [
        "g2",
        "t-h",
    ]
    assert rewritten(10, 4, {"key_type": 1, "coordinator_keys": ["x", "g"]}, known)["coordinator_keys"] == [
        "x2",
        "t-g",
    ]


def test_what_belongs_to_the_captured_cluster_is_neutral() -> None:
    partition = {"partition": 0, "current_leader_epoch": 9, "fetch_offset": 5, "last_fetched_epoch": 8}
    body = {"cluster_id": "src", "rack_id": "a", "topics": [{"topic_id": OLD, "partitions": [partition]}]}
    out = rewritten(1, 17, body)
    assert out["cluster_id"] is None
    assert out["rack_id"] == ""
    assert out["topics"][0]["partitions"][0] == partition | {
        "current_leader_epoch": -1,
        "last_fetched_epoch": -1,
    }


def test_ids_without_names_patterns_and_share_keys_are_refused() -> None:
    for key, version, body, bucket in (
        (1, 13, {"topics": [{"topic_id": b"?" * 16, "partitions": []}]}, Disposition.HEADLESS),
        (68, 1, {"subscribed_topic_regex": "or.*"}, Disposition.POLICY),
        (10, 6, {"key_type": 2, "coordinator_keys": ["g:t:0"]}, Disposition.POLICY),
    ):
        with pytest.raises(SkipRequest) as refused:
            rewritten(key, version, body)
        assert refused.value.bucket is bucket


def test_members_do_not_say_what_they_owned() -> None:
    said = {"topics": ["orders"], "user_data": b"u", "owned_partitions": [{"topic": "orders", "partitions": [1]}], "generation_id": 4, "rack_id": "a"}  # fmt: skip
    metadata = encode_embedded("ConsumerProtocolSubscription", 3, said)
    body = {
        "group_id": "g",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": metadata}],
    }
    out = rewritten(11, 5, body)["protocols"][0]["metadata"]
    assert decode_embedded("ConsumerProtocolSubscription", out).value == {
        "topics": ["t-orders"], "user_data": b"u", "owned_partitions": [], "generation_id": -1, "rack_id": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("key", "role"), [(key, "group") for key in APIS] + [(key, "transactional_id") for key in APIS]
)
def test_no_group_or_transactional_id_is_forgotten(key: int, role: str) -> None:
    """Walk every request in its newest version: each text of the role has the prefix after the rewriting."""
    api = APIS[key]
    version = api.versions[-1]
    paths = [
        path for path, field in every_field(api.request) if field.role == role and version in field.versions
    ]
    if not paths:
        return
    body = random_message(Random(3), api.request, version)
    before = encode(api.request, version, body)
    tree = decode(api.request, version, before).value
    try:
        rewriter(api.request, version)(tree, Names(settings(topic_map={}), _Anything()))  # type: ignore[arg-type]
    except SkipRequest:
        return  # a pattern or an id without a name is in it: it would not be sent
    for path in paths:
        for value in _values(tree, path.split(".")):
            assert value in (None, "") or value.startswith("t-"), path


class _Anything(dict[bytes, str]):
    def get(self, _key: bytes, _default: str | None = None) -> str:  # type: ignore[override]
        return "some"


def _values(tree: Any, path: list[str]) -> list[Any]:
    if isinstance(tree, list):
        return [value for each in tree for value in _values(each, path)]
    if not path or tree is None:
        return [tree]
    return _values(tree.get(path[0]), path[1:])


def test_the_captured_version_is_kept_where_the_target_speaks_it() -> None:
    assert chosen_version(1, 11, (4, 18)) == 11
    assert chosen_version(1, 2, (4, 18)) == 4
    assert chosen_version(0, 13, (3, 9)) == 9
    assert chosen_version(24, 3, (0, 5)) == 3
    assert chosen_version(24, 5, (4, 5)) is None
    assert chosen_version(1, 11, None) is None


def test_a_listed_produce_0_is_not_spoken() -> None:
    assert true_ranges({0: (0, 13), 1: (4, 18)})[0] == (3, 13)
    assert true_ranges({0: (0, 3), 1: (0, 5)})[0] == (0, 3)


@pytest.mark.parametrize(
    ("key", "captured", "sent", "body", "expected"),
    [
        (9, 7, 8, {"group_id": "g", "topics": None, "require_stable": True}, {"require_stable": True, "groups": [{"group_id": "g", "topics": None}]}),
        (9, 8, 7, {"groups": [{"group_id": "g", "topics": None}], "require_stable": True}, {"group_id": "g", "topics": None, "require_stable": True}),
        (10, 3, 4, {"key": "g", "key_type": 0}, {"key_type": 0, "coordinator_keys": ["g"]}),
        (10, 4, 2, {"key_type": 1, "coordinator_keys": ["x"]}, {"key": "x", "key_type": 1}),
        (13, 2, 3, {"group_id": "g", "member_id": "m"}, {"group_id": "g", "members": [{"member_id": "m"}]}),
        (13, 5, 2, {"group_id": "g", "members": [{"member_id": "m", "reason": "bye"}]}, {"group_id": "g", "member_id": "m"}),
        (20, 3, 6, {"topic_names": ["t-orders"], "timeout_ms": 9}, {"topics": [{"name": "t-orders"}], "timeout_ms": 9}),
        (8, 9, 10, {"group_id": "g", "topics": [{"name": "t-orders", "partitions": []}]}, {"group_id": "g", "topics": [{"topic_id": NEW, "partitions": []}]}),
        (8, 10, 9, {"group_id": "g", "topics": [{"topic_id": NEW, "partitions": []}]}, {"group_id": "g", "topics": [{"name": "t-orders", "partitions": []}]}),
    ],
)  # fmt: skip
def test_requests_take_another_shape(
    key: int, captured: int, sent: int, body: dict[str, Any], expected: dict[str, Any]
) -> None:
    done = convert(key, body, captured, sent, names())
    assert done.losses == ()
    assert done.tree == expected
    encode(APIS[key].request, sent, done.tree)


def test_what_gets_lost_has_a_name() -> None:
    static = {"group_id": "g", "group_instance_id": "i", "member_id": "m", "generation_id": 1}
    assert convert(12, static, 4, 2, names()).losses == ("group_instance_id",)
    assert convert(12, static | {"group_instance_id": None}, 4, 2, names()).losses == ()
    stable = {"group_id": "g", "topics": [], "require_stable": True}
    assert convert(9, stable, 7, 5, names()).losses == ("require_stable",)


def test_an_id_that_the_target_does_not_have_is_never_zero() -> None:
    with pytest.raises(SkipRequest, match="not on the target"):
        convert(8, {"group_id": "g", "topics": [{"name": "gone", "partitions": []}]}, 9, 10, names())


WHERE = ("orders", 0)


def test_positions_follow_what_was_written_here() -> None:
    positions = Positions(Offsets.AUTO, {})
    positions.add_written(WHERE, 1000, 10, 50)
    positions.add_written(WHERE, 1010, 5, 60)
    positions.add_written(WHERE, 1016, 4, 70)  # 1015 was a marker
    found = {
        captured: positions.translate(WHERE, captured)
        for captured in (1000, 1009, 1010, 1015, 1016, 1020, 1030)
    }
    assert {captured: place.offset for captured, place in found.items()} == {
        1000: 50, 1009: 59, 1010: 60, 1015: 65, 1016: 70, 1020: 74, 1030: 74,
    }  # fmt: skip
    assert {place.rule for place in found.values()} == {Rule.PRODUCED}


def test_positions_fall_back_rule_by_rule_and_say_which() -> None:
    positions = Positions(Offsets.AUTO, {})
    assert positions.translate(WHERE, 77) == (77, Rule.IDENTITY)
    positions = Positions(Offsets.AUTO, {WHERE: 70})
    positions.set_bounds(WHERE, 5, 100)
    assert positions.translate(WHERE, 77) == (12, Rule.ANCHORED)
    assert positions.translate(WHERE, 700) == (100, Rule.ANCHORED)
    positions.add_fetched("me", WHERE, 31)
    assert positions.translate(WHERE, 77, "me") == (31, Rule.FETCHED)
    assert positions.translate(WHERE, 77, "you") == (12, Rule.ANCHORED)
    assert positions.translate(WHERE, -1) == (-1, Rule.IDENTITY)
    assert positions.clamped == 1
    assert positions.used[WHERE] == {Rule.IDENTITY: 1, Rule.ANCHORED: 3, Rule.FETCHED: 1}
    assert Positions(Offsets.IDENTITY, {}).translate(WHERE, 9) == (9, Rule.IDENTITY)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=30), st.integers(0, 1000))
def test_every_offset_of_a_written_batch_is_found(sizes: list[int], start: int) -> None:
    positions, captured, target = Positions(Offsets.AUTO, {}), start, 7
    for size in sizes:
        positions.add_written(WHERE, captured, size, target)
        for step in range(size):
            assert positions.translate(WHERE, captured + step).offset == target + step
        captured, target = captured + size, target + size


def fetch(session: int, epoch: int, said: dict[int, int], forgotten: tuple[int, ...] = ()) -> dict[str, Any]:
    partitions = [{"partition": number, "fetch_offset": offset} for number, offset in said.items()]
    return {
        "session_id": session,
        "session_epoch": epoch,
        "topics": [{"topic": "orders", "partitions": partitions}],
        "forgotten_topics_data": [{"topic": "orders", "partitions": list(forgotten)}],
    }


def test_captured_sessions_are_known_in_full() -> None:
    sessions = CapturedFetchSessions(names())
    full, said, _ = sessions.follow(sessions.read("a:1", fetch(0, 0, {0: 1, 1: 2}), issued=9)) or ({}, {}, [])
    assert set(full) == set(said) == {("orders", 0), ("orders", 1)}
    full, _, gone = sessions.follow(sessions.read("a:1", fetch(9, 1, {1: 5, 2: 0}, (0,)), issued=9)) or (
        {},
        {},
        [],
    )
    assert gone == [("orders", 0)]
    assert set(full) == {("orders", 1), ("orders", 2)}
    assert full["orders", 1]["fetch_offset"] == 5
    # Another broker's, or older than the capture.
    assert sessions.follow(sessions.read("b:1", fetch(9, 1, {}), issued=9)) is None


def test_own_sessions_say_only_what_changed() -> None:
    session = OwnFetchSession()
    everything = {("orders", 0): {"o": 1}, ("orders", 1): {"o": 1}}
    assert session.next_turn(everything, {}, []) == (0, 0, everything, ())
    session.take_response((0, 0), 33, 0)
    moved = {("orders", 0): {"o": 2}}
    assert session.next_turn(moved, moved, [("orders", 1)]) == (33, 1, moved, [("orders", 1)])
    session.take_response((33, 1), 33, 0)
    assert session.next_turn(moved, {}, []) == (33, 2, {}, [])
    session.take_response((33, 2), 0, 70)
    assert session.next_turn(moved, {}, []) == (0, 0, moved, ())


def read_partition(
    positions: Positions, partition: TopicPartition, offset: int, node: int = 1
) -> FetchedPartition:
    known, position = positions.partition(partition), positions.client("me", partition)
    fields = {"partition": partition[1], "fetch_offset": offset, "partition_max_bytes": 9}
    return FetchedPartition(partition, node, partition, offset, fields, position, known, known.turn)


def test_a_fetch_names_only_what_moved() -> None:
    positions, scope, other = Positions(Offsets.AUTO, {}), FetchScope({}, {}, ()), ("orders", 1)
    state = FetchState()
    changes = state.replace(
        scope, 1, [read_partition(positions, WHERE, 5), read_partition(positions, other, 7)]
    )
    assert state.nodes == {1: changes.named[1]}
    assert set(changes.named[1]) == {WHERE, other}
    assert state.update({}, (), positions) == FetchChanges()
    positions.add_fetched("me", WHERE, 6)  # its answer brought something
    changes = state.update({}, (), positions)
    assert {where: each["fetch_offset"] for where, each in changes.named[1].items()} == {WHERE: 6}
    positions.add_written(other, 7, 1, 1007)  # what it waits for was written by this run
    changes = state.update({}, [WHERE], positions)
    assert {where: each["fetch_offset"] for where, each in changes.named[1].items()} == {other: 1007}
    assert changes.gone == {1: [WHERE]}
    assert set(state.nodes[1]) == {other}
    changes = state.replace(scope, 2, [read_partition(positions, other, 1007, node=2)])  # its leader moved
    assert (changes.gone[1], set(changes.named[2])) == ([other], {other})
    assert set(state.nodes) == {2}


@pytest.mark.parametrize("version", range(4, 19))
def test_a_glance_at_a_fetch_tells_what_the_codec_tells(version: int) -> None:
    records = modern(OLD_MESSAGE).data
    names = (
        [{"topic": "orders"}, {"topic": "sales"}]
        if version < 13
        else [{"topic_id": b"o" * 16}, {"topic_id": b"s" * 16}]
    )
    aborted = [{"producer_id": 1, "first_offset": 2}] * 3
    told = [
        {
            "partition_index": 3,
            "error_code": 0,
            "high_watermark": 40,
            "aborted_transactions": aborted,
            "records": records * 2,
        },
        {
            "partition_index": 4,
            "error_code": 0,
            "high_watermark": 50,
            "aborted_transactions": None,
            "records": records[:-1],
        },
        {
            "partition_index": 5,
            "error_code": 0,
            "high_watermark": 60,
            "aborted_transactions": [],
            "records": None,
        },
    ]
    responses = [topic | {"partitions": told} for topic in names]
    body: dict[str, Any] = {"responses": responses}
    if version >= 7:
        body |= {"error_code": 0, "session_id": 77}
    if version >= 5:
        for each in told:
            each["log_start_offset"] = 11
    frame = encode_response(1, version, {"correlation_id": 9}, body)
    found = scan_fetch_response(frame, version)
    if version < 7:
        assert found is None
        return
    assert found is not None
    assert found.session == 77
    partitions = [(3, 40, 11, 1), (4, 50, 11, None), (5, 60, 11, None)]
    assert [tuple(each[1:]) for each in found.partitions] == partitions * 2
    assert [each.topic for each in found.partitions] == [
        next(iter(topic.values())) for topic in names for _ in told
    ]
    told[1]["error_code"] = 1
    assert scan_fetch_response(encode_response(1, version, {"correlation_id": 9}, body), version) is None
    assert [scan_fetch_response(frame[:cut], version) for cut in range(len(frame))] == [None] * len(frame)
    assert scan_fetch_response(frame + b"\0", version) is None
