"""Errors as signals: those that no rule names, with pauses between them, or each for another topic."""

from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from tests.helpers.told_capture import Story, batch
from tests.helpers.told_groups import analyzed, background, produce

UNNAMED = 87  # INVALID_RECORD: no rule is about it


def repeated(story: Story, tmp_path: Path) -> list[str]:
    return [one.sentence for one in analyzed(story, tmp_path).signals if one.kind == "errors_repeated"]


@pytest.mark.parametrize(("apart_ms", "is_told"), [(12_000, True), (400, True), (10, False)])
def test_an_error_that_no_rule_names_is_told_with_the_pauses_of_clients(
    apart_ms: int, is_told: bool, tmp_path: Path
) -> None:
    story = Story()
    background(story)
    line = story.connect("10.1.0.2", client_id="odd")
    for number in range(3 if apart_ms != 400 else 4):
        produce(line, 1_000 + apart_ms * number, error=UNNAMED)
    found = repeated(story, tmp_path)
    assert len(found) == is_told
    assert all("Produce for topic orders was refused with INVALID_RECORD" in one for one in found)


@pytest.mark.parametrize(("topics", "apart_ms", "is_told"), [(8, 500, True), (8, 5, False), (4, 500, False)])
def test_an_error_of_a_client_for_many_topics_once_each_is_told(
    topics: int, apart_ms: int, is_told: bool, tmp_path: Path
) -> None:
    story = Story()
    background(story)
    line = story.connect("10.1.0.2", client_id="odd")
    for number in range(topics):
        produce(line, 1_000 + apart_ms * number, error=UNNAMED, topic=f"topic-{number}")
    found = repeated(story, tmp_path)
    assert [f"INVALID_RECORD {topics} times, from odd at 10.1.0.2" in one for one in found] == [
        True
    ] * is_told


def fetches(story: Story, host: str, client_id: str, times_ms: list[int]) -> None:
    line = story.connect(host, client_id=client_id)
    asked = {"topic": "orders", "partitions": [{"partition": 0, "fetch_offset": 7}]}
    refused = {"partition_index": 0, "error_code": ErrorCode.FENCED_LEADER_EPOCH, "high_watermark": -1}
    response = {"responses": [{"topic": "orders", "partitions": [refused | {"records": b""}]}]}
    for at_ms in times_ms:
        request = {"max_wait_ms": 500, "min_bytes": 1, "topics": [asked]}
        line.call(at_ms, 1, ApiKey.FETCH, 7, request, response)


def test_two_moves_of_a_partition_are_no_trouble_that_lasts(tmp_path: Path) -> None:
    """Each is learnt by three fetchers once; 6.5 s lie between them."""
    story = Story()
    background(story)
    for number in range(3):
        fetches(story, f"10.1.0.{2 + number}", f"reader-{number}", [10_000, 16_500])
    assert repeated(story, tmp_path) == []


def test_replica_fetchers_are_no_clients(tmp_path: Path) -> None:
    story = Story()
    background(story)
    times = list(range(10_000, 18_000, 500))
    fetches(story, "10.1.0.2", "reader", times)
    fetches(story, "10.0.0.2", "broker-2-fetcher-0", times)
    (sentence,) = repeated(story, tmp_path)
    assert ", from 1 client and 1 replica fetcher, " in sentence


def test_a_request_that_fails_for_several_partitions_is_one(tmp_path: Path) -> None:
    """Four requests of three partitions each are no retry storm of twelve."""
    story = Story()
    background(story)
    line = story.connect("10.1.0.2", client_id="odd")
    partitions = range(3)
    for number in range(4):
        written = [{"index": one, "records": batch(0)} for one in partitions]
        request = {
            "acks": -1,
            "timeout_ms": 1000,
            "topic_data": [{"name": "orders", "partition_data": written}],
        }
        refused = [{"index": one, "error_code": UNNAMED, "base_offset": -1} for one in partitions]
        response = {"responses": [{"name": "orders", "partition_responses": refused}]}
        line.call(1_000 + 500 * number, 2, ApiKey.PRODUCE, 7, request, response)
    (sentence,) = repeated(story, tmp_path)
    assert "was refused with INVALID_RECORD 4 times" in sentence


@pytest.mark.parametrize(
    ("error", "left"), [(ErrorCode.NOT_LEADER_OR_FOLLOWER, 1), (ErrorCode.UNKNOWN_LEADER_EPOCH, 0)]
)
def test_a_broker_that_has_not_learnt_yet_that_it_leads_left_nothing(
    error: ErrorCode, left: int, tmp_path: Path
) -> None:
    story = Story()
    line = story.connect("10.1.0.2", client_id="writer")
    for number in range(3):
        produce(line, 1_000 + 100 * number, error=error)
    kinds = [one.kind for one in analyzed(story, tmp_path).signals]
    assert kinds.count("leadership_left") == left
