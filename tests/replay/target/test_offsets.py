"""`replay.target.offsets`, against a target on paper."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kdissect.replay.settings import Offsets
from kdissect.replay.target.offsets import Positions, Rule
from tests.helpers.rewriting_cases import WHERE


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
