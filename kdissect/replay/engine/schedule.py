"""When each captured request is due: an absolute time for each, never a sum of waits, so that nothing drifts.

- `schedule`: a request is due at start + (captured time - start of the capture) / speed.
- `think`: so long after the answer that its client had seen last as in the capture, divided by the speed;
  before any answer as in `schedule`.
- `asap`: at once.

A ramp lets the speed grow from nothing to its full value over its time, and costs half of that. Captured
times are sorted by the caller; those before the start of the capture count as its start. Nothing is due later
than `LONGEST_NS` after the start, since times may be far apart and a speed low.
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

LONGEST_NS = 1 << 62  # 146 years: a time of day beyond it fits into 64 bits


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

    def after_ns(self, answered_ns: int, gap_ns: int) -> int:
        """Return when a client sends that thought for `gap_ns` in the capture, after this answer."""
        if self.pace is Pace.ASAP:
            return answered_ns
        thought = max(gap_ns, 0) / self.speed
        if not self.ramp_ns:
            return answered_ns + min(round(thought), LONGEST_NS)
        passed = self._passed(max(answered_ns - self.start_ns, 0))
        return self.start_ns + self.elapsed_ns(passed + thought)

    def elapsed_ns(self, passed: float) -> int:
        """Return how long after the start so much time has passed that counts at full speed."""
        if self.ramp_ns:
            growing = passed < self.ramp_ns / 2
            passed = math.sqrt(2 * passed * self.ramp_ns) if growing else passed + self.ramp_ns / 2
        return min(round(passed), LONGEST_NS)

    def _passed(self, elapsed_ns: int) -> float:
        """Return how much time that counts at full speed has passed so long after the start."""
        # While the speed grows, it is t * t / (2 * ramp): half of the ramp is lost in all.
        growing = elapsed_ns < self.ramp_ns
        return elapsed_ns**2 / (2 * self.ramp_ns) if growing else elapsed_ns - self.ramp_ns / 2

    def _elapsed_ns(self, captured_ns: Int64s) -> Int64s:
        """Return how long after the start requests of these captured times are due."""
        if self.pace is Pace.ASAP:
            return np.zeros(len(captured_ns), np.int64)
        elapsed = np.maximum(captured_ns - self.captured_start_ns, 0) / self.speed
        if self.ramp_ns:  # as `_passed`, the other way round
            growing = elapsed < self.ramp_ns / 2
            elapsed = np.where(growing, np.sqrt(2 * elapsed * self.ramp_ns), elapsed + self.ramp_ns / 2)
        return np.minimum(np.rint(elapsed), LONGEST_NS).astype(np.int64)


class DueTimes:
    """How long after the start each request that is sent is due, by its captured time."""

    def __init__(self, schedule: Schedule, items: Sequence[ReplayItem], max_gap_ns: int | None) -> None:
        """Pauses between `items` are at most `max_gap_ns` long; None: as long as they are."""
        self._schedule = dataclasses.replace(schedule, start_ns=0)
        self._begin_ns, self._speed = schedule.captured_start_ns, schedule.speed
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
            captured_ns = self._shortened(captured_ns)
        if captured_ns <= self._begin_ns:
            return 0
        return self._schedule.elapsed_ns((captured_ns - self._begin_ns) / self._speed)

    def gap_ns(self, item: ReplayItem) -> int:
        """Return for how long the client of a request thought, of what is left of the gaps."""
        if not self._behind_ns:
            return item.gap_ns
        first_ns = item.request.first_ns
        return self._shortened(first_ns) - self._shortened(first_ns - item.gap_ns)

    def column(self, captured_ns: Int64s) -> Int64s:
        """Return when requests of these captured times are due."""
        if self._behind_ns:
            place = np.searchsorted(np.frombuffer(self._behind_ns, np.int64), captured_ns, "right")
            captured_ns = captured_ns - np.array([0, *self._removed_ns], np.int64)[place]
        return self._schedule.dues_ns(captured_ns)

    def _shortened(self, captured_ns: int) -> int:
        """Return a captured time, earlier by what was taken from the gaps before it."""
        place = bisect_right(self._behind_ns, captured_ns)
        return captured_ns - (self._removed_ns[place - 1] if place else 0)


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
