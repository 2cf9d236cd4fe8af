"""Steps of time: no more than the most, of a round length, from a round time."""

import numpy as np
import pytest

from kdissect.report.timeline.grid import (
    MAX_STEPS,
    grid_over,
)

S = 10**9


@pytest.mark.parametrize(
    ("first", "last", "step"),
    [
        (0, 10 * S, 100_000_000),
        (0, 59 * S, 500_000_000),
        (0, 3600 * S, 60 * S),
        (5 * S, 5 * S, 1_000_000),
        (0, 10**19, None),
    ],
)
def test_grid(first, last, step):
    grid = grid_over(first, last)
    assert step is None or grid.step_ns == step
    assert 1 <= grid.steps <= MAX_STEPS
    assert grid.start_ns <= first
    assert grid.start_ns % grid.step_ns == 0
    if last < 1 << 62:
        assert grid.steps_of(np.array([first, last])).max() == grid.steps - 1
        assert grid.start_ns + grid.steps * grid.step_ns > last
        assert grid.steps_of(np.array([first - 10**12, last + 10**12])).tolist() == [0, grid.steps - 1]
