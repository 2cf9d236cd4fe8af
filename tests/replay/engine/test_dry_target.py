"""`replay.engine.dry_target` answers every request that a replay sends, and a run into it answers all."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import decode_response, encode_request
from kdissect.protocol.schema.registry import APIS
from kdissect.replay.engine.dry_target import DryBroker, default_fields
from kdissect.replay.engine.run import Replay
from kdissect.replay.results.run_files import pair_lines
from kdissect.replay.settings import DRY_CLUSTER, DRY_TARGET, Groups, Pace, ReplaySettings
from tests.helpers.conversations import CAPTURES
from tests.helpers.paper_cluster import batch

Tree = dict[str, object]


def answered(broker: DryBroker, key: int, version: int, body: Tree) -> Tree:
    header = {"request_api_key": key, "request_api_version": version, "correlation_id": 5, "client_id": "me"}
    frame = encode_request(header, body)
    response = broker.answer(len(frame).to_bytes(4, "big") + frame)
    decoded = decode_response(bytes(4) + response, key, version, strict=True)
    assert decoded.fault is None
    assert decoded.body is not None
    return decoded.body


@pytest.mark.parametrize("key", sorted(APIS))
def test_every_request_gets_a_response_of_its_version(key: int) -> None:
    for version in APIS[key].live:
        body = answered(DryBroker(2), key, version, default_fields(APIS[key].request, version))
        assert not body.get("error_code")


def test_offsets_follow_each_other_and_sessions_last() -> None:
    broker = DryBroker(2)
    partition = {"index": 1, "records": batch(records=3)}
    topic = {"name": "orders", "partition_data": [partition]}
    produce: Tree = {"transactional_id": None, "acks": 1, "timeout_ms": 9, "topic_data": [topic]}
    offsets = [answered(broker, ApiKey.PRODUCE, 9, produce)["responses"] for _ in range(2)]
    found = [each[0]["partition_responses"][0]["base_offset"] for each in offsets]  # type: ignore[index]
    assert found == [0, 3]
    fetch = default_fields(APIS[ApiKey.FETCH].request, 12)
    session = answered(broker, ApiKey.FETCH, 12, fetch | {"session_epoch": 0})["session_id"]
    later = fetch | {"session_epoch": 7, "session_id": session}
    assert session
    assert answered(broker, ApiKey.FETCH, 12, later)["session_id"] == session
    assert answered(broker, ApiKey.FETCH, 12, fetch | {"session_epoch": -1})["session_id"] == 0


def dry(groups: Groups) -> ReplaySettings:
    return ReplaySettings(
        target=(DRY_TARGET,),
        known_target=DRY_CLUSTER,
        dry_partitions=1,
        pace=Pace.ASAP,
        groups=groups,
        processes=1,
    )


def test_a_capture_is_sent_whole() -> None:
    with closing(Replay(dry(Groups.SIMPLE), [str(CAPTURES / "rebalances.pcapng")])) as replay:
        replay.learn()
        replay.play()
        buckets = {str(result.bucket) for result in replay.passes[0].outcome.results}
        assert buckets == {"answered", "policy"}
        assert replay.cluster.topics


def test_members_are_assigned_what_the_capture_had() -> None:
    with closing(Replay(dry(Groups.FULL), [str(CAPTURES / "rebalances.pcapng")])) as replay:
        replay.learn()
        replay.play()
        pairs = [json.loads(line) for line in pair_lines(replay, replay.passes[0])]
    syncs = [pair for pair in pairs if pair["api"] == "SyncGroup" and pair["answers"]]
    assigned = [
        (captured["assigned"], pair["answers"][0]["digest"][0]["assigned"])
        for pair in syncs
        for captured in pair["captured"]["digest"]
        if not captured["error"]
    ]
    assert len(assigned) > 20
    assert all(replayed == captured for captured, replayed in assigned), assigned
