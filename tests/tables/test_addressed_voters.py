"""Controllers that others call by their node id, in requests that they answer."""

from pathlib import Path
from typing import Any

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from tests.helpers.told_capture import Story
from tests.helpers.told_cluster import ask_for_vote
from tests.helpers.told_tables import told_table


def called(story: Story, tmp_path: Path) -> list[dict[str, Any]]:
    """Return the rows that the messages of a story lead to."""
    return told_table(story, tmp_path, "addressed_voters").to_pylist()


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
