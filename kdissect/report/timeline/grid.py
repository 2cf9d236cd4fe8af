"""Steps of time: the span of a capture divided into equal steps of a round length.

The span is known before anything is dissected, so every task counts on the same grid and counts add up. A
time outside (of a packet with a wrong clock) is counted in the first or the last step.
"""

from typing import NamedTuple

import numpy as np

from kdissect.array_types import Int64s

MAX_STEPS = 120
SIGNAL_STEPS = 1200
"""The most steps of the grid that signals are found on: finer than what a page shows."""

MS = 10**6
LENGTHS_NS = (
    *(length * 10**power * MS for power in range(3) for length in (1, 2, 5)),
    *(length * 1000 * MS for length in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800)),
    *(length * 3_600_000 * MS for length in (1, 2, 3, 6, 12, 24, 168)),
)
"""1 ms to a week."""


class Grid(NamedTuple):
    """The begin of the first step, the length of a step, and the number of steps."""

    start_ns: int
    step_ns: int
    steps: int

    def steps_of(self, times_ns: Int64s) -> Int64s:
        """Return the step of each time."""
        steps: Int64s = np.clip((times_ns - self.start_ns) // self.step_ns, 0, self.steps - 1)
        return steps


def grid_over(first_ns: int | None, last_ns: int | None, most: int = MAX_STEPS, shortest_ns: int = 0) -> Grid:
    """Return the finest grid of at most `most` steps whose first step begins at a round time.

    A step has a length of at least `shortest_ns`.
    """
    first, last = first_ns or 0, last_ns or 0
    for length in LENGTHS_NS:
        if length < shortest_ns:
            continue
        start = first // length * length
        steps = (last - start) // length + 1
        if steps <= most:
            return Grid(start, length, max(steps, 1))
    length = -(-(last - first) // most // LENGTHS_NS[-1]) * LENGTHS_NS[-1] + LENGTHS_NS[-1]
    return Grid(first // length * length, length, most)
