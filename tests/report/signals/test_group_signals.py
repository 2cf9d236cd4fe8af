"""Events of groups as signals: what was counted, and who was touched."""

from pathlib import Path
from random import Random

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from kdissect.report.signals.group_events import Row
from kdissect.report.signals.group_signals import leaves_and_joins
from tests.helpers.told_capture import Story
from tests.helpers.told_groups import analyzed, heartbeat, heartbeats, join, leave


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


def test_each_leave_knows_the_joins_behind_it() -> None:
    """One pass from the end finds what a look at all events behind each leave finds."""
    draw = Random(7)
    for length in (0, 1, 40):
        events: list[Row] = [
            {
                "number": number,
                "event": draw.choice(("join", "leave", "heartbeat")),
                "connection": draw.randrange(4),
                "api_key": ApiKey.LEAVE_GROUP,
                "error_code": draw.choice((0, 0, ErrorCode.UNKNOWN_MEMBER_ID)),
            }
            for number in range(length)
        ]
        plain = []
        for at, row in enumerate(events):
            if row["event"] == "leave" and not row["error_code"]:
                joins = [one for one in events[at + 1 :] if one["event"] == "join"]
                same = [one for one in joins if one["connection"] == row["connection"]]
                plain.append((row, joins[0] if joins else None, same[0] if same else None))
        assert leaves_and_joins(events) == plain


def kinds(story: Story, tmp_path: Path) -> list[str]:
    return [one.kind for one in analyzed(story, tmp_path).signals if one.kind.startswith("member_")]


def lost(story: Story, *, has_left: bool = False, goes_on: bool = False) -> None:
    """A member whose join was not captured ends at 10 s, and the other one rebalances."""
    other = story.connect("10.1.0.3", client_id="other")
    heartbeats(other, 100, 15_000, "other-1", 1)
    heartbeat(other, 15_100, "other-1", 1, ErrorCode.REBALANCE_IN_PROGRESS)
    join(other, 15_200, "other-1", 2)
    heartbeats(other, 16_000, 29_000, "other-1", 2)
    gone = story.connect("10.1.0.2", client_id="gone")
    heartbeats(gone, 500, 10_000, "gone-1", 1)
    if has_left:
        leave(gone, 10_000, "gone-1")
    gone.close(10_100)
    if goes_on:
        heartbeats(story.connect("10.1.0.2", client_id="gone", at_ms=10_200), 10_300, 29_000, "gone-1", 1)


def test_a_member_is_lost_though_only_its_heartbeats_were_captured(tmp_path: Path) -> None:
    story = Story()
    lost(story)
    assert kinds(story, tmp_path) == ["member_lost"]


@pytest.mark.parametrize("how", ["has_left", "goes_on"])
def test_a_member_that_left_or_goes_on_elsewhere_is_not_lost(how: str, tmp_path: Path) -> None:
    story = Story()
    lost(story, **{how: True})
    assert kinds(story, tmp_path) == []


@pytest.mark.parametrize("lived_ms", [20_000, 1_500])
def test_members_that_share_a_name_side_by_side_do_not_restart(lived_ms: int, tmp_path: Path) -> None:
    story = Story()
    for number in range(4):
        at_ms = 1_000 + 2_000 * number
        line = story.connect("10.1.0.2", client_id="replica", at_ms=at_ms)
        join(line, at_ms + 20, f"replica-{number}", number + 1)
        heartbeats(line, at_ms + 500, at_ms + lived_ms, f"replica-{number}", number + 1)
        line.close(at_ms + lived_ms)
    assert kinds(story, tmp_path) == (["member_restarts"] if lived_ms < 2_000 else [])
