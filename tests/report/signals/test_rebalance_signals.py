"""Rebalances that wait for a member: it has heartbeats that tell of one, and does not join again."""

from pathlib import Path

import pytest

from kdissect.protocol.error_codes import ErrorCode
from kdissect.report.model.incidents import Signal
from tests.helpers.told_capture import Story
from tests.helpers.told_groups import analyzed, heartbeat, heartbeats, join, leave


def held_up(story: Story, tmp_path: Path) -> list[Signal]:
    return [one for one in analyzed(story, tmp_path).signals if one.kind == "rebalance_held_up"]


def busy_member(story: Story, told: int, others: bool = True) -> None:
    """A member that gets heartbeats with REBALANCE_IN_PROGRESS each 3 s, and then joins again."""
    busy = story.connect("10.1.0.2", client_id="busy")
    join(busy, 50, "busy-1", 1)
    heartbeats(busy, 500, 9_000, "busy-1", 1)
    for number in range(told):
        heartbeat(busy, 9_500 + 3_000 * number, "busy-1", 1, error=ErrorCode.REBALANCE_IN_PROGRESS)
    again = 9_600 + 3_000 * told
    join(busy, again, "busy-1", 2)
    heartbeats(busy, again + 400, 29_000, "busy-1", 2)
    if others:
        other = story.connect("10.1.0.3", client_id="other")
        join(other, 60, "other-1", 1)
        heartbeats(other, 500, 9_000, "other-1", 1)
        heartbeats(other, again + 400, 29_000, "other-1", 2)


def test_a_member_that_does_not_join_again_is_named_with_its_group(tmp_path: Path) -> None:
    story = Story()
    busy_member(story, 4)
    (signal,) = held_up(story, tmp_path)
    assert (signal.subject.name, signal.groups) == ("busy at 10.1.0.2", ("readers",))
    assert (signal.measures["count"], signal.measures["waiting"]) == (4, 1)
    assert signal.measures["held_up_ns"] == 9 * 10**9
    assert "4 heartbeats told it to join again" in signal.sentence


@pytest.mark.parametrize(("told", "others"), [(1, True), (2, True), (4, False)])
def test_a_member_that_joins_at_its_next_poll_or_is_alone_holds_nobody_up(
    told: int, others: bool, tmp_path: Path
) -> None:
    story = Story()
    busy_member(story, told, others)
    assert held_up(story, tmp_path) == []


def test_rebalances_in_a_row_that_a_member_joins_each_time_hold_nobody_up(tmp_path: Path) -> None:
    story = Story()
    other = story.connect("10.1.0.3", client_id="other")
    join(other, 60, "other-1", 1)
    quick, beats = (story.connect("10.1.0.2", client_id="quick") for _ in range(2))
    join(quick, 50, "quick-1", 1)
    for number in range(4):
        at_ms = 3_000 + 3_000 * number
        heartbeat(beats, at_ms, "quick-1", number + 1, error=ErrorCode.REBALANCE_IN_PROGRESS)
        join(quick, at_ms + 10, "quick-1", number + 2)
        join(other, at_ms + 12, "other-1", number + 2)
    assert held_up(story, tmp_path) == []


def test_a_member_that_leaves_then_did_not_poll_in_time(tmp_path: Path) -> None:
    story = Story()
    other = story.connect("10.1.0.3", client_id="other")
    join(other, 60, "other-1", 1)
    heartbeats(other, 500, 29_000, "other-1", 1)
    busy = story.connect("10.1.0.2", client_id="busy")
    join(busy, 50, "busy-1", 1)
    for number in range(4):
        heartbeat(busy, 3_000 + 3_000 * number, "busy-1", 1, error=ErrorCode.REBALANCE_IN_PROGRESS)
    leave(busy, 14_000, "busy-1")
    join(busy, 20_000, "busy-2", 3)
    heartbeats(busy, 20_500, 24_000, "busy-2", 3)
    leave(busy, 26_000, "busy-2")
    causes = [incident.cause for incident in analyzed(story, tmp_path).incidents]
    assert "rebalance_held_up" not in causes
