"""`replay.refused_sessions`: one sentence for each bound that session timeouts do not keep."""

from __future__ import annotations

from kdissect.replay.refused_sessions import refused_sessions

BOUNDS = {"group.min.session.timeout.ms": 6000, "group.max.session.timeout.ms": 1_800_000}


def test_sessions_within_the_bounds_are_not_named() -> None:
    assert refused_sessions([6000, 1_800_000, 45_000], BOUNDS) == []
    assert refused_sessions([1], {}) == []


def test_each_bound_is_named_with_the_sessions_that_it_refuses() -> None:
    assert refused_sessions([3000, 45_000, 3000], BOUNDS) == [
        "the target refuses sessions of 3,000 ms (its group.min.session.timeout.ms is 6,000)"
    ]
    assert refused_sessions([3000, 1500, 2_000_000], BOUNDS) == [
        "the target refuses sessions of 1,500 to 3,000 ms (its group.min.session.timeout.ms is 6,000)",
        "the target refuses sessions of 2,000,000 ms (its group.max.session.timeout.ms is 1,800,000)",
    ]
