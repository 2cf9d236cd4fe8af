"""Nodes that are named in requests to controllers.

Brokers ask to end: with ZooKeeper by a request of its own, with KRaft in one of many heartbeats. Controllers
call others by their node id, in requests that they answer.
"""

from pathlib import Path
from typing import Any

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from tests.helpers.told_capture import Story
from tests.helpers.told_cluster import ask_controller, ask_for_vote, heartbeat
from tests.helpers.told_tables import told_table


def asked(story: Story, tmp_path: Path) -> list[dict[str, Any]]:
    """Return the rows that the messages of a story lead to."""
    return told_table(story, tmp_path, "shutdown_requests").to_pylist()


def called(story: Story, tmp_path: Path) -> list[dict[str, Any]]:
    """Return the rows that the messages of a story lead to."""
    return told_table(story, tmp_path, "addressed_voters").to_pylist()


@pytest.mark.parametrize("version", [0, 1, 2])
def test_only_heartbeats_that_ask_for_an_end_are_rows(version: int, tmp_path: Path) -> None:
    story = Story()
    line = story.connect(client_id="2")
    for at_ms, wants in ((10, False), (2_010, True), (2_060, True), (2_070, False)):
        heartbeat(line, at_ms, 2, wants, version)
    rows = asked(story, tmp_path)
    assert [(row["node_id"], row["ordinal"]) for row in rows] == [(2, 1), (2, 2)]
    assert rows[1]["time_ns"] - rows[0]["time_ns"] == pytest.approx(50_000_000, abs=1_000_000)


@pytest.mark.parametrize("version", [1, 3])
def test_a_controlled_shutdown_is_a_row(version: int, tmp_path: Path) -> None:
    story = Story()
    ask_controller(story.connect(client_id="anything"), 10, 3, version)
    assert [row["node_id"] for row in asked(story, tmp_path)] == [3]


@pytest.mark.parametrize("node_id", [-1, -(1 << 31)])
def test_a_node_that_cannot_be_is_no_row(node_id: int, tmp_path: Path) -> None:
    story = Story()
    heartbeat(story.connect(client_id="2"), 10, node_id, True)
    assert asked(story, tmp_path) == []


def test_a_heartbeat_that_ends_before_its_node_is_no_row(tmp_path: Path) -> None:
    """Those that end before the field with the wish say nothing of it either."""
    story = Story()
    line = story.connect(client_id="2")
    heartbeat(line, 10, 2, True)
    at = next(number for number, (*_, payload) in enumerate(line.sent) if payload)
    *about, payload = line.sent[at]
    short = 17  # behind the length: the header, and three bytes of the node
    line.sent[at] = (*about, short.to_bytes(4, "big") + payload[4 : 4 + short])
    line.call(20, 1, ApiKey.METADATA, 1, {"topics": []}, {"brokers": [], "topics": []})
    assert asked(story, tmp_path) == []


@pytest.mark.parametrize("version", [1, 2])
def test_a_request_for_a_vote_names_who_gets_it(version: int, tmp_path: Path) -> None:
    story = Story()
    for at_ms, voter in ((10, 5), (20, 6)):
        ask_for_vote(story.connect(client_id="raft-client-4"), at_ms, voter, version)
    rows = called(story, tmp_path)
    assert sorted(row["node_id"] for row in rows) == [5, 6]
    assert len({row["connection"] for row in rows}) == 2


def test_to_tell_who_leads_names_who_hears_it(tmp_path: Path) -> None:
    story = Story()
    part = {"partition_index": 0, "voter_directory_id": bytes(16), "leader_id": 4, "leader_epoch": 5}
    topics = [{"topic_name": "__cluster_metadata", "partitions": [part]}]
    body = {"cluster_id": "c", "voter_id": 5, "topics": topics, "leader_endpoints": []}
    story.connect(client_id="raft-client-4").call(
        10, 1, ApiKey.BEGIN_QUORUM_EPOCH, 1, body, {"error_code": 0, "topics": [], "node_endpoints": []}
    )
    assert [row["node_id"] for row in called(story, tmp_path)] == [5]


@pytest.mark.parametrize(
    ("voter", "version", "error"),
    [(-1, 1, 0), (-(1 << 31), 1, 0), (5, 0, 0), (5, 1, ErrorCode.INVALID_VOTER_KEY)],
    ids=["unknown", "not a node", "not in this version", "refused by another"],
)
def test_a_request_that_names_no_receiver_is_no_row(
    voter: int, version: int, error: int, tmp_path: Path
) -> None:
    story = Story()
    ask_for_vote(story.connect(client_id="raft-client-4"), 10, voter, version, error)
    assert called(story, tmp_path) == []


def test_a_request_without_an_answer_is_no_row(tmp_path: Path) -> None:
    story = Story()
    line = story.connect(client_id="raft-client-4")
    ask_for_vote(line, 10, 5)
    line.sent.pop()
    assert called(story, tmp_path) == []
