"""Change points of a series of values: least squares over segments, split again and again.

In come sums over equal steps of time (how many values, their sum, the sum of their squares), out go the steps
at which the mean changes. A series is split where two means explain most, if they explain enough: the
statistic is that of Bai and Perron's F test for one break, and the smallest segment is bounded, so a burst of
a few values is no level. The same sums lead to the same steps, whatever batches they came from.

One split hardly shows a level that comes back, so a segment without one may be split twice at once: where a
part of it differs most from the rest (circular binary segmentation, Olshen and others 2004).
"""

from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kdissect.array_types import Floats, Int64s

MIN_VALUES = 12
"""A segment has at least this many values."""

MIN_STATISTIC = 60.0
"""Variance that two means must explain, in units of the variance that is left.

Noise alone exceeds 9 in one series of twenty (Andrews 1993), but latencies come in bursts, and a capture has
many series.
"""

MAX_SEGMENTS = 8
MOST_STEPS = 300
"""All pairs of steps are tried where a level comes back."""


class Series(NamedTuple):
    """Sums of values by step: their number, their sum, and the sum of their squares."""

    values: Int64s
    total: Floats
    squares: Floats


class Segment(NamedTuple):
    """Steps `start` to `stop` - 1 of a series, with the number, mean and deviation of its values."""

    start: int
    stop: int
    values: int
    mean: float
    deviation: float


def find_segments(
    series: Series,
    min_values: int = MIN_VALUES,
    *,
    min_statistic: float = MIN_STATISTIC,
    comes_back: bool = False,
) -> list[Segment]:
    """Return the segments of a series whose levels differ, in order; one if there is no change.

    With `comes_back` a level that comes back is found, too, in a series of at most `MOST_STEPS` steps.
    """
    sums = _Sums(series)
    edges = [0, len(series.values)]
    if (
        comes_back
        and len(series.values) <= MOST_STEPS
        and sums.split(0, edges[1], min_values)[0] < min_statistic
    ):
        statistic, part = sums.part(min_values)
        if statistic >= min_statistic:
            edges = [0, *part, len(series.values)]
    split = cache(sums.split)  # a segment that is not split now is looked at again
    while len(edges) <= MAX_SEGMENTS:
        splits = [split(start, stop, min_values) for start, stop in pairwise(edges)]
        statistic, at = max(splits, default=(0.0, 0))
        if statistic < min_statistic:
            break
        edges = sorted([*edges, at])
    return [sums.segment(start, stop) for start, stop in pairwise(edges)]


class _Sums:
    """Running sums of a series, from which any segment is read at once."""

    def __init__(self, series: Series) -> None:
        self.count, self.total, self.squares = (np.concatenate([[0], np.cumsum(column)]) for column in series)

    def segment(self, start: int, stop: int) -> Segment:
        count = int(self.count[stop] - self.count[start])
        if not count:
            return Segment(start, stop, 0, 0.0, 0.0)
        mean = float(self.total[stop] - self.total[start]) / count
        spread = float(self.squares[stop] - self.squares[start]) / count - mean**2
        return Segment(start, stop, count, mean, max(spread, 0.0) ** 0.5)

    def split(self, start: int, stop: int, min_values: int) -> tuple[float, int]:
        """Return the best step to split a segment at, and what the two means explain; 0 for none."""
        at = np.arange(start + 1, stop)
        left, right = self.count[at] - self.count[start], self.count[stop] - self.count[at]
        at = at[(left >= min_values) & (right >= min_values)]
        if not len(at):
            return 0.0, 0
        left, right = self.count[at] - self.count[start], self.count[stop] - self.count[at]
        whole = self.segment(start, stop)
        means = (
            (self.total[at] - self.total[start]) / left,
            (self.total[stop] - self.total[at]) / right,
        )
        explained = left * right / (left + right) * (means[0] - means[1]) ** 2
        best = int(np.argmax(explained))
        return self._statistic(whole, float(explained[best])), int(at[best])

    def part(self, min_values: int) -> tuple[float, tuple[int, int]]:
        """Return the steps between which the values differ most from the others, and what that explains."""
        steps = len(self.count) - 1
        start, stop = np.triu_indices(steps + 1, 1)
        inside = self.count[stop] - self.count[start]
        outside = self.count[steps] - inside
        apart = (self.count[start] >= min_values) & (self.count[steps] - self.count[stop] >= min_values)
        fits = apart & (inside >= min_values)
        if not fits.any():
            return 0.0, (0, steps)
        start, stop, inside, outside = start[fits], stop[fits], inside[fits], outside[fits]
        total = self.total[stop] - self.total[start]
        means = total / inside, (self.total[steps] - total) / outside
        explained = inside * outside / (inside + outside) * (means[0] - means[1]) ** 2
        best = int(np.argmax(explained))
        return self._statistic(self.segment(0, steps), float(explained[best])), (
            int(start[best]),
            int(stop[best]),
        )

    @staticmethod
    def _statistic(whole: Segment, explained: float) -> float:
        remaining = max(whole.deviation**2 * whole.values - explained, 0.0)
        return explained / max(remaining / max(whole.values - 2, 1), 1e-3)
