"""When each captured request is due: an absolute time for each, never a sum of waits, so that nothing drifts.

- `schedule`: a request is due at start + (captured time - start of the capture) / speed.
- `think`: so long after the answer that its client had seen last as in the capture, divided by the speed;
  before any answer as in `schedule`.
- `asap`: at once.

A ramp lets the speed grow from nothing to its full value over its time, and costs half of that. Captured
times are sorted by the caller; those before the start of the capture count as its start.
"""

import dataclasses
import math
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kdissect.array_types import Int64s
from kdissect.replay.load.replay_items import ReplayItem, column_blocks
from kdissect.replay.settings import Pace


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


class DueTimes:
    """How long after the start each request that is sent is due, by its captured time."""

    def __init__(self, schedule: Schedule, items: Sequence[ReplayItem], max_gap_ns: int | None) -> None:
        """Pauses between `items` are at most `max_gap_ns` long; None: as long as they are."""
        self._schedule = dataclasses.replace(schedule, start_ns=0)
        self._begin_ns, self._speed, self._ramp_ns = (
            schedule.captured_start_ns,
            schedule.speed,
            schedule.ramp_ns,
        )
        self._at_once = schedule.pace is Pace.ASAP
        self._behind_ns, self._removed_ns = array("q"), array("q")  # times behind shortened gaps, in order
        if max_gap_ns is None or schedule.pace is Pace.ASAP:
            return
        gaps = LongGaps(max_gap_ns)
        for first_ns, sent in column_blocks(items, "first_ns", "sent"):
            times_ns, removed_ns = first_ns[sent], gaps.removed_ns
            removed = times_ns - gaps.without(times_ns)
            changes = np.flatnonzero(np.diff(removed, prepend=removed_ns))
            self._behind_ns.frombytes(times_ns[changes].tobytes())
            self._removed_ns.frombytes(removed[changes].tobytes())

    def of(self, captured_ns: int) -> int:
        """Return when a request of this captured time is due: as `column`, in a tenth of the time for one."""
        if self._at_once:
            return 0
        if self._behind_ns:
            place = bisect_right(self._behind_ns, captured_ns)
            captured_ns -= self._removed_ns[place - 1] if place else 0
        if captured_ns <= self._begin_ns:
            return 0
        elapsed = (captured_ns - self._begin_ns) / self._speed
        if self._ramp_ns:
            growing = elapsed < self._ramp_ns / 2
            elapsed = math.sqrt(2 * elapsed * self._ramp_ns) if growing else elapsed + self._ramp_ns / 2
        return round(elapsed)

    def column(self, captured_ns: Int64s) -> Int64s:
        """Return when requests of these captured times are due."""
        if self._behind_ns:
            place = np.searchsorted(np.frombuffer(self._behind_ns, np.int64), captured_ns, "right")
            captured_ns = captured_ns - np.array([0, *self._removed_ns], np.int64)[place]
        return self._schedule.dues_ns(captured_ns)


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
