"""`kdissect who`: writers and readers of a topic, and topics that are not there."""

import json
from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from tests.helpers.command import assert_one_sentence, kdissect
from tests.helpers.command_here import kdissect_here
from tests.helpers.told_capture import Line, Story
from tests.helpers.told_groups import TOPIC

CAPTURE = Path(__file__).parents[2] / "captures" / "steady.pcapng"


@pytest.mark.spark
def test_writers_and_readers_agree_in_text_and_json() -> None:
    done = kdissect_here("who", "*", CAPTURE, "--quiet", "--format", "json")
    topics = json.loads(done.stdout)
    assert topics
    text = kdissect("who", topics[0]["topic"], CAPTURE, "--quiet").stdout
    for client in [*topics[0]["writers"], *topics[0]["readers"]]:
        assert client["client"]["client_id"] in text


def test_a_topic_that_is_not_there_is_one_sentence_with_those_that_are() -> None:
    done = kdissect_here("who", "no-such-topic", CAPTURE, "--quiet")
    assert (done.returncode, done.stdout) == (2, "")
    assert_one_sentence(done.stderr)
    assert "it has " in done.stderr


def read_by_id(line: Line, at_ms: float, topic_id: bytes, offset: int) -> None:
    """Fetch from a partition of a topic that only its id names."""
    asked = {"topic_id": topic_id, "partitions": [{"partition": 0, "fetch_offset": offset}]}
    found = {"partition_index": 0, "error_code": 0, "high_watermark": offset + 1, "records": b""}
    request = {"max_wait_ms": 500, "min_bytes": 1, "topics": [asked]}
    response = {"responses": [{"topic_id": topic_id, "partitions": [found]}]}
    line.call(at_ms, 2, ApiKey.FETCH, 13, request, response)


def commit_by_name(line: Line, at_ms: float, offset: int) -> None:
    """Commit an offset of that partition."""
    topic = {"name": TOPIC, "partitions": [{"partition_index": 0, "committed_offset": offset}]}
    done = {"topics": [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]}
    request = {"group_id": "readers", "generation_id_or_member_epoch": 1, "member_id": "m", "topics": [topic]}
    line.call(at_ms, 1, ApiKey.OFFSET_COMMIT, 2, request, done)


def test_a_topic_id_without_metadata_is_named_as_in_the_report(tmp_path: Path) -> None:
    story, topic_id = Story(), bytes([7]) * 16
    reader = story.connect("10.1.0.2", client_id="reader")
    for number in range(20):
        read_by_id(reader, 100 + 500 * number, topic_id, 10 * number)
        commit_by_name(reader, 300 + 500 * number, 10 * number)
    capture = story.write(tmp_path / "story.pcap")
    options = ("--quiet", "--format", "json")
    report = json.loads(kdissect_here("analyze", capture, *options).stdout)
    (topic,) = json.loads(kdissect_here("who", "*", capture, *options).stdout)
    assert [topic["topic"]] == [row["topic"] for row in report["topics"]] == [TOPIC]
    assert [reader["client"]["client_id"] for reader in topic["readers"]] == ["reader"]
