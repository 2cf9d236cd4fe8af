"""Members that a group lost: since when, how often, and what nobody reads since."""

from pathlib import Path

import pytest

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


@pytest.mark.parametrize(("back_ms", "told"), [(0, 1), (12_000, 0)], ids=["stays away", "is back in time"])
def test_a_static_member_that_ends_is_lost_unless_it_is_back_in_time(
    back_ms: int, told: int, tmp_path: Path
) -> None:
    """It never leaves: its group waits for it, and goes on without it when its session is over."""
    story = Story()
    background(story)
    other = story.connect("10.1.0.3", client_id="other")
    join(other, 40, "other-1", 1, group_instance_id="pod-1")
    heartbeats(other, 500, 14_900, "other-1", 1)
    join(other, 15_000, "other-1", 2, group_instance_id="pod-1")
    gone = story.connect("10.1.0.2", client_id="gone")
    join(gone, 50, "gone-1", 1, group_instance_id="pod-0")
    heartbeats(gone, 500, 10_000, "gone-1", 1)
    gone.close(10_100)
    if back_ms:
        back = story.connect("10.1.0.2", client_id="gone", at_ms=back_ms)
        join(back, back_ms + 10, "gone-2", 1, group_instance_id="pod-0")
        heartbeats(back, back_ms + 500, 25_000, "gone-2", 1)
    assert len(lost(story, tmp_path)) == told


@pytest.mark.parametrize(
    ("api", "left"),
    [
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, "nobody read its partitions until then"),
        (ApiKey.SHARE_GROUP_HEARTBEAT, "the records that it had were locked until then"),
    ],
)
def test_others_of_a_share_group_read_what_a_lost_member_read(api: ApiKey, left: str, tmp_path: Path) -> None:
    story = Story()
    lines = {
        name: story.connect(f"10.1.0.{at}", client_id=name) for at, name in enumerate(("dead", "other"), 2)
    }
    for name, line in lines.items():
        for at_ms in range(100, 29_000, 1_000):
            epoch = 0 if at_ms == 100 else 1 if at_ms < 17_000 else 2
            request = {"group_id": "queue", "member_id": name, "member_epoch": epoch}
            known = {"member_id": name, "member_epoch": 2 if at_ms > 16_000 else 1}
            if name == "other" or at_ms < 10_000:
                line.call(at_ms, 1, api, 1, request, known)
    lines["dead"].close(10_000, by_client=True)
    (signal,) = lost(story, tmp_path)
    assert signal.sentence.endswith(f" later: {left}")
