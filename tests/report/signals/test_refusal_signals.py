"""Refusals as signals: one for each client, kind and spell, with what was refused."""

from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from tests.helpers.told_capture import Story
from tests.helpers.told_groups import analyzed, background, produce


def test_one_signal_has_all_topics_of_a_spell_and_two_spells_are_two_signals(tmp_path: Path) -> None:
    story = Story()
    line = story.connect("10.1.0.2", client_id="bad")
    for number, at_ms in enumerate((1_000, 2_000, 3_000, 60_000, 61_000)):
        produce(line, at_ms, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic=f"private-{number % 2}")
    found = [signal for signal in analyzed(story, tmp_path).signals if signal.kind == "right_missing"]
    assert [(signal.measures["count"], signal.topics) for signal in found] == [
        (3, ("private-0", "private-1")),
        (2, ("private-0", "private-1")),
    ]
    assert {signal.subject.name for signal in found} == {"bad at 10.1.0.2"}
    assert found[0].end_ns is not None
    assert found[1].end_ns is None


def test_a_tool_is_told_with_the_api_and_the_bound(tmp_path: Path) -> None:
    story = Story()
    line = story.connect("10.1.0.2", client_id="tool")
    refused = {"name": "wide", "error_code": ErrorCode.INVALID_REPLICATION_FACTOR}
    request = {"topics": [{"name": "wide", "num_partitions": 1, "replication_factor": 5}], "timeout_ms": 1}
    for number in range(4):
        line.call(1_000 + 1_000 * number, 1, ApiKey.CREATE_TOPICS, 2, request, {"topics": [refused]})
    (signal,) = (one for one in analyzed(story, tmp_path).signals if one.kind == "settings_refused")
    assert "4 requests refused with INVALID_REPLICATION_FACTOR" in signal.sentence
    assert signal.sentence.endswith("; a topic may have as many replicas as brokers are alive")


@pytest.mark.parametrize("times", [2, 3])
def test_one_slip_of_an_operator_is_no_signal(times: int, tmp_path: Path) -> None:
    story = Story()
    line = story.connect("10.1.0.2", client_id="tool")
    refused = {"name": "wide", "error_code": ErrorCode.INVALID_PARTITIONS}
    request = {"topics": [{"name": "wide", "num_partitions": 0, "replication_factor": 1}], "timeout_ms": 1}
    for number in range(times):
        line.call(1_000 + 1_000 * number, 1, ApiKey.CREATE_TOPICS, 2, request, {"topics": [refused]})
    found = [one for one in analyzed(story, tmp_path).signals if one.kind == "settings_refused"]
    assert len(found) == (times == 3)


@pytest.mark.parametrize(("hosts", "subject"), [((2, 2), "10.1.0.2"), ((2, 3), "first at 10.1.0.2")])
def test_records_of_one_host_that_arrive_damaged_are_one_incident(
    hosts: tuple[int, int], subject: str, tmp_path: Path
) -> None:
    story = Story()
    background(story)
    for name, host in zip(("first", "second"), hosts, strict=True):
        line = story.connect(f"10.1.0.{host}", client_id=name)
        for number in range(5 if name == "first" else 4):
            produce(line, 10_000 + 1_000 * number, error=ErrorCode.CORRUPT_MESSAGE)
    first, *others = analyzed(story, tmp_path).incidents
    assert (first.cause, first.subject.name) == ("records_damaged", subject)
    assert len(others) == len(set(hosts)) - 1


@pytest.mark.parametrize(
    ("topic", "advice"), [("__consumer_offsets", "only brokers"), ("orders", "names of")]
)
def test_a_topic_of_the_brokers_has_no_wrong_name(topic: str, advice: str, tmp_path: Path) -> None:
    story = Story()
    line = story.connect("10.1.0.2", client_id="writer")
    for number in range(3):
        produce(line, 1_000 + 500 * number, error=ErrorCode.INVALID_TOPIC_EXCEPTION, topic=topic)
    (signal,) = (one for one in analyzed(story, tmp_path).signals if one.kind == "settings_refused")
    assert signal.sentence.rpartition("; ")[2].startswith(advice)


@pytest.mark.parametrize(("throttle_ms", "told"), [(3_000, 1), (1_000, 0)])
def test_two_long_waits_for_a_quota_count(throttle_ms: int, told: int, tmp_path: Path) -> None:
    story = Story()
    line = story.connect("10.1.0.2", client_id="tool")
    for number in range(2):
        produce(line, 1_000 + 5_000 * number, throttle_ms=throttle_ms)
    found = [one for one in analyzed(story, tmp_path).signals if one.kind == "quota_applied"]
    assert len(found) == told


def test_a_quota_counts_what_clients_were_asked_to_wait(tmp_path: Path) -> None:
    story = Story()
    line = story.connect("10.1.0.2", client_id="greedy")
    for number in range(4):
        produce(line, 1_000 + 500 * number, throttle_ms=250)
    (signal,) = (one for one in analyzed(story, tmp_path).signals if one.kind == "quota_applied")
    assert (signal.measures["count"], signal.measures["waited_ms"], signal.wait_ns) == (4, 1000, 10**9)
