"""`replay.target.written_batches`, by batches of two producers and markers of transactions."""

from __future__ import annotations

from kdissect.replay.target.written_batches import MOST_BATCHES, BatchRanges, WrittenBatches


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
