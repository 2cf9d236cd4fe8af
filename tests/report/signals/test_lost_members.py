"""Members that a group lost: since when, how often, and what nobody reads since."""

from pathlib import Path

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from kdissect.report.model.incidents import Signal
from tests.helpers.told_capture import Line, Story
from tests.helpers.told_groups import analyzed, background, fetch, heartbeat, heartbeats, join


def lost(story: Story, tmp_path: Path) -> list[Signal]:
    return [one for one in analyzed(story, tmp_path).signals if one.kind == "member_lost"]


def refused_commit(line: Line, at_ms: float) -> None:
    topics = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
    request = {
        "group_id": "readers",
        "generation_id_or_member_epoch": 1,
        "member_id": "m-1",
        "topics": topics,
    }
    found = [{"partition_index": 0, "error_code": ErrorCode.UNKNOWN_MEMBER_ID}]
    response = {"topics": [{"name": "orders", "partitions": found}]}
    line.call(at_ms, 1, ApiKey.OFFSET_COMMIT, 5, request, response)


def test_one_silence_counts_once_and_each_silence_counts(tmp_path: Path) -> None:
    story = Story()
    line = story.connect("10.1.0.2", client_id="frozen")
    for begin in (50, 15_000):
        join(line, begin, f"m-{begin}", 1)
        heartbeats(line, begin + 500, begin + 3_000, f"m-{begin}", 1)
        heartbeat(line, begin + 12_000, f"m-{begin}", 1, ErrorCode.UNKNOWN_MEMBER_ID)
        refused_commit(line, begin + 12_100)
    (signal,) = lost(story, tmp_path)
    assert signal.measures["count"] == 2
    assert "this happened 2 times" in signal.sentence
    assert 9_000_000_000 < signal.measures["silent_ns"] < 10_000_000_000


def test_a_refused_commit_shows_a_silence_too(tmp_path: Path) -> None:
    story = Story()
    line = story.connect("10.1.0.2", client_id="frozen")
    join(line, 50, "m-1", 1)
    heartbeats(line, 500, 4_000, "m-1", 1)
    refused_commit(line, 14_000)
    (signal,) = lost(story, tmp_path)
    assert signal.subject.name == "frozen at 10.1.0.2"
    assert "UNKNOWN_MEMBER_ID" in signal.sentence


def test_what_a_member_read_and_another_one_reads_on_is_no_loss(tmp_path: Path) -> None:
    story = Story()
    background(story)
    for number, (begin, end) in enumerate(((0, 12_000), (11_000, 29_000))):
        line = story.connect(f"10.1.0.{2 + number}", client_id=f"reader-{number}", at_ms=begin)
        reader = story.connect(f"10.1.0.{2 + number}", client_id=f"reader-{number}", at_ms=begin)
        join(line, begin + 10, f"r-{number}", 1 + number)
        heartbeats(line, begin + 500, end, f"r-{number}", 1 + number)
        for at_ms in range(begin + 300, end, 300):
            fetch(reader, at_ms, at_ms // 20, at_ms // 20 + 10)
        if not number:
            line.close(end)
            reader.close(end)
    assert lost(story, tmp_path) == []
