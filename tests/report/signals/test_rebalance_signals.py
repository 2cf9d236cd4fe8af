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
    assert signal.clients == ("busy at 10.1.0.2", "other at 10.1.0.3")
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


def joins_anew(story: Story, tmp_path: Path) -> list[Signal]:
    return [one for one in analyzed(story, tmp_path).signals if one.kind == "rebalances_by_topics"]


def rounds(story: Story, count: int, told: bool = False, leaving: bool = False) -> None:
    """Two members of which one joins anew each 4 s: by itself, told to, or since the other one left."""
    one, other = (
        story.connect(f"10.1.0.{2 + at}", client_id=name) for at, name in enumerate(("one", "other"))
    )
    join(one, 50, "one-1", 1)
    join(other, 52, "other-1", 1)
    for number in range(count):
        at_ms = 4_000 * (number + 1)
        if leaving:
            leave(other, at_ms - 20, "other-1")
        if told:
            heartbeat(one, at_ms - 20, "one-1", number + 1, error=ErrorCode.REBALANCE_IN_PROGRESS)
        join(one, at_ms, "one-1", number + 2)
        join(other, at_ms + 5, "other-1", number + 2)


def test_a_member_that_joins_anew_by_itself_again_and_again_is_named(tmp_path: Path) -> None:
    story = Story()
    rounds(story, 6)
    (signal,) = joins_anew(story, tmp_path)
    assert (signal.subject.name, signal.measures["count"]) == ("readers", 6)
    assert "6 times in 20.0s a member joined anew by itself (one at 10.1.0.2)" in signal.sentence


def test_processes_that_share_a_name_are_no_member_that_joins_anew(tmp_path: Path) -> None:
    story = Story()
    for number in range(6):
        line = story.connect("10.1.0.2", client_id="one")
        join(line, 50 + 4_000 * number, f"one-{number}", number + 1)
    assert joins_anew(story, tmp_path) == []


@pytest.mark.parametrize(
    ("count", "told", "leaving"), [(3, False, False), (6, True, False), (6, False, True)]
)
def test_rebalances_with_another_reason_are_not_of_topics(
    count: int, told: bool, leaving: bool, tmp_path: Path
) -> None:
    story = Story()
    rounds(story, count, told, leaving)
    assert joins_anew(story, tmp_path) == []


def test_second_step_of_a_cooperative_group_that_grows_is_not_of_topics(tmp_path: Path) -> None:
    """Each member that comes makes two generations: the others first give up what it then gets."""
    story = Story()
    lines = {f"{name}-1": story.connect(f"10.1.0.{at}", client_id=name) for at, name in enumerate("abcdef")}
    members: list[str] = []
    for at_s, name in enumerate(lines):
        for step, first in enumerate((name, "a-1")):
            joining = sorted({*members, name}, key=lambda member: member != first)
            for number, member in enumerate(joining):
                join(lines[member], 4_000 * at_s + 900 * step + 50 + number, member, 2 * at_s + step + 1)
        members.append(name)
    assert joins_anew(story, tmp_path) == []


def test_workers_of_connect_join_anew_for_their_connectors(tmp_path: Path) -> None:
    story = Story()
    line = story.connect("10.1.0.2", client_id="worker")
    for number in range(6):
        join(line, 50 + 4_000 * number, "worker-1", number + 1, protocol="sessioned")
    assert joins_anew(story, tmp_path) == []


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
