"""`replay.target.offsets`, against a target on paper: batches of two producers, markers, and last commits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kdissect.replay.settings import Offsets
from kdissect.replay.target.offsets import (
    MOST_BATCHES,
    BatchRanges,
    GroupCommits,
    Positions,
    Rule,
    WrittenBatches,
)
from tests.helpers.rewriting_cases import WHERE


def test_a_position_behind_a_marker_is_behind_it_on_the_target() -> None:
    batches = WrittenBatches()
    batches.add(1000, 10, 50)  # 1010 is a marker
    assert batches.place(1009, None) == 59
    assert batches.place(1010, 70) == 60  # in front of it
    assert batches.place(1011, 70) == 61
    assert batches.place(1011, 61) == 61
    assert batches.place(1011, 60) == 60  # it is not there yet
    assert batches.place(1011, None) == 60
    batches.add(1011, 5, 61)
    assert batches.place(1011, None) == 61
    assert batches.place(999, None) is None


def test_no_record_is_passed_over_if_batches_stand_in_another_order() -> None:
    batches = WrittenBatches()
    batches.add(0, 3, 5)
    batches.add(3, 5, 0)
    assert [batches.place(offset, None) for offset in range(9)] == list(range(9))
    assert batches.target.records_between(2, 8) == 6
    assert batches.target.records_between(8, 2) == 0


def test_the_oldest_batches_are_forgotten() -> None:
    ranges = BatchRanges()
    for number in range(2 * MOST_BATCHES + 1):
        ranges.add(2 * number, 1)
    assert len(ranges.begins) == MOST_BATCHES + 1
    assert ranges.before[0] == MOST_BATCHES


def test_positions_follow_what_was_written_here() -> None:
    positions = Positions(Offsets.AUTO, {})
    positions.add_written(WHERE, 1000, 10, 50)
    positions.add_written(WHERE, 1010, 5, 60)
    positions.add_written(WHERE, 1016, 4, 70)  # 1015 was a marker
    found = {
        captured: positions.translate(WHERE, captured)
        for captured in (1000, 1009, 1010, 1015, 1016, 1020, 1030)
    }
    assert {captured: place.offset for captured, place in found.items()} == {
        1000: 50,
        1009: 59,
        1010: 60,
        1015: 65,
        1016: 70,
        1020: 74,
        1030: 74,
    }
    assert {place.rule for place in found.values()} == {Rule.PRODUCED}


def test_positions_fall_back_rule_by_rule_and_say_which() -> None:
    positions = Positions(Offsets.AUTO, {})
    assert positions.translate(WHERE, 77) == (77, Rule.IDENTITY)
    positions = Positions(Offsets.AUTO, {WHERE: 70})
    positions.set_bounds(WHERE, 5, 100)
    assert positions.translate(WHERE, 77) == (12, Rule.ANCHORED)
    assert positions.translate(WHERE, 700) == (100, Rule.ANCHORED)
    positions.add_fetched("me", WHERE, 31)
    assert positions.translate(WHERE, 77, "me") == (31, Rule.FETCHED)
    assert positions.translate(WHERE, 77, "you") == (12, Rule.ANCHORED)
    assert positions.translate(WHERE, -1) == (-1, Rule.IDENTITY)
    assert positions.clamped == 1
    assert positions.used[WHERE] == {Rule.IDENTITY: 1, Rule.ANCHORED: 3, Rule.FETCHED: 1}
    assert Positions(Offsets.IDENTITY, {}).translate(WHERE, 9) == (9, Rule.IDENTITY)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=30), st.integers(0, 1000))
def test_every_offset_of_a_written_batch_is_found(sizes: list[int], start: int) -> None:
    positions, captured, target = Positions(Offsets.AUTO, {}), start, 7
    for size in sizes:
        positions.add_written(WHERE, captured, size, target)
        for step in range(size):
            assert positions.translate(WHERE, captured + step).offset == target + step
        captured, target = captured + size, target + size


def test_a_commit_that_falls_short_is_counted_in_records() -> None:
    positions, commits = Positions(Offsets.AUTO, {}), GroupCommits()
    positions.add_written(WHERE, 100, 10, 0)
    positions.add_written(WHERE, 111, 10, 11)  # 110 is a marker
    commits.note_captured(5, "audit", WHERE, 121)
    commits.note_captured(3, "audit", WHERE, 100)  # an earlier one
    commits.note_replayed(3, "audit", WHERE, 8)
    (row,) = commits.summary(positions)
    assert row == {
        "group": "audit",
        "partition": f"{WHERE[0]}-{WHERE[1]}",
        "captured": 121,
        "expected": 21,
        "replayed": 8,
        "short": 12,
    }
    commits.note_replayed(5, "audit", WHERE, 21)
    assert commits.summary(positions)[0]["short"] == 0


def test_a_topic_that_is_created_again_has_other_batches() -> None:
    positions, commits = Positions(Offsets.AUTO, {}), GroupCommits()
    positions.note_written(WHERE, 0, 10, 50)
    commits.note_captured(2, "audit", WHERE, 10)
    positions.note_written(WHERE, 0, 4, 7, incarnation=3)  # request 3 had deleted the topic
    positions.note_written(WHERE, 10, 10, 60)  # one of the first incarnation comes late
    assert positions.translate(WHERE, 3) == (10, Rule.PRODUCED)
    (row,) = commits.summary(positions)
    assert (row["expected"], row["short"]) == (None, 0)
