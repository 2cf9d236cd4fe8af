"""When each captured request is due: an absolute time for each, never a sum of waits, so that nothing drifts.

- `schedule`: a request is due at start + (captured time - start of the capture) / speed.
- `think`: so long after the answer that its client had seen last as in the capture, divided by the speed;
  before any answer as in `schedule`.
- `asap`: at once.

A ramp lets the speed grow from nothing to its full value over its time, and costs half of that. Captured
times are sorted by the caller; those before the start of the capture count as its start.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kdissect.replay.load.replay_items import ReplayItem, column_blocks
from kdissect.replay.settings import Pace
from kdissect.streams.flow_state import Int64s


@dataclass(frozen=True, slots=True)
class Schedule:
    """The pace of one pass.

    Times are ns: captured ones since the epoch, those of the run on a clock of its own.
    """

    pace: Pace
    speed: float
    captured_start_ns: int
    start_ns: int
    ramp_ns: int = 0

    def due_ns(self, captured_ns: int) -> int:
        """Return when a request of this captured time is due."""
        return int(self.dues_ns(np.array([captured_ns]))[0])

    def dues_ns(self, captured_ns: Int64s) -> Int64s:
        """Return when requests of these captured times are due."""
        return self.start_ns + self._elapsed_ns(captured_ns)

    def think_ns(self, gap_ns: int) -> int:
        """Return how long a client thinks that thought for `gap_ns` in the capture."""
        return 0 if self.pace is Pace.ASAP else round(max(gap_ns, 0) / self.speed)

    def offsets_ns(self, items: Sequence[ReplayItem], max_gap_ns: int | None) -> "array[int]":
        """Return how long after the start each item is due, by its place.

        Pauses are at most `max_gap_ns` long.

        Items that are never sent have 0.
        """
        offsets, gaps = array("q"), LongGaps(max_gap_ns)
        for first_ns, sent in column_blocks(items, "first_ns", "sent"):
            some = np.zeros(len(first_ns), np.int64)
            some[sent] = self._elapsed_ns(gaps.without(first_ns[sent]))
            offsets.frombytes(some.tobytes())
        return offsets

    def _elapsed_ns(self, captured_ns: Int64s) -> Int64s:
        """Return how long after the start requests of these captured times are due."""
        if self.pace is Pace.ASAP:
            return np.zeros(len(captured_ns), np.int64)
        elapsed = np.maximum(captured_ns - self.captured_start_ns, 0) / self.speed
        if self.ramp_ns:
            # While the speed grows, captured time passes as t * t / (2 * ramp): half of the ramp is lost in
            # all.
            growing = elapsed < self.ramp_ns / 2
            elapsed = np.where(growing, np.sqrt(2 * elapsed * self.ramp_ns), elapsed + self.ramp_ns / 2)
        return np.rint(elapsed).astype(np.int64)


class LongGaps:
    """Gaps between requests that are shortened: how much time they take from those behind them."""

    def __init__(self, most_ns: int | None) -> None:
        """`most_ns` is how long a gap may be; None: as long as it is."""
        self.removed_ns = 0  # in all
        self._most_ns = most_ns
        self._last_ns: int | None = None  # the last time that was looked at

    def without(self, times_ns: Int64s) -> Int64s:
        """Return times with shortened gaps between them; they follow those that were given before."""
        if self._most_ns is None or not len(times_ns):
            return times_ns
        before_ns = times_ns[:1] if self._last_ns is None else self._last_ns
        gaps_ns = np.maximum(np.diff(times_ns, prepend=before_ns) - self._most_ns, 0)
        removed_ns = self.removed_ns + gaps_ns.cumsum()
        self._last_ns, self.removed_ns = int(times_ns[-1]), int(removed_ns[-1])
        shortened: Int64s = times_ns - removed_ns
        return shortened
