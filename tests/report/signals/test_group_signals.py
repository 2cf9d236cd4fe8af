"""Events of groups as signals: what was counted, and who was touched."""

from pathlib import Path

from tests.helpers.told_capture import Story
from tests.helpers.told_groups import analyzed, heartbeats, join, leave


def test_restarts_count_generations_and_touch_all_members(tmp_path: Path) -> None:
    story = Story()
    other = story.connect("10.1.0.3", client_id="other")
    join(other, 10, "other-1", 1)
    for number in range(3):
        join(other, 1_050 + 2_000 * number, "other-1", number + 2)
        line = story.connect("10.1.0.2", client_id="loop", at_ms=1_000 + 2_000 * number)
        join(line, 1_020 + 2_000 * number, f"loop-{number}", number + 2)
        line.close(2_000 + 2_000 * number)
    (signal,) = (one for one in analyzed(story, tmp_path).signals if one.kind == "member_restarts")
    assert (signal.measures["count"], signal.measures["generations"]) == (3, 4)
    assert signal.clients == ("loop at 10.1.0.2", "other at 10.1.0.3")
    assert signal.groups == ("readers",)
    place = signal.evidence[0].place
    assert place is not None
    assert place.response_time_ns is not None
    assert place.request_time_ns is not None
    assert place.response_time_ns > place.request_time_ns


def test_the_interval_that_was_exceeded_is_named(tmp_path: Path) -> None:
    story = Story()
    line = story.connect("10.1.0.2", client_id="slow")
    join(line, 10, "slow-1", 1)
    heartbeats(line, 100, 7_000, "slow-1", 1)
    leave(line, 7_000, "slow-1")
    join(line, 9_000, "slow-2", 2)
    (signal,) = (one for one in analyzed(story, tmp_path).signals if one.kind == "poll_exceeded")
    assert signal.measures["limit_ms"] == 6_000
    assert signal.measures["absent_ns"] == 2_000_000_000
    assert "max.poll.interval.ms (6.00s)" in signal.sentence
