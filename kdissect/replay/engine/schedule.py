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

from kdissect.replay.load.replay_items import ReplayItem, request_column, sent_mask
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
        offsets = np.zeros(len(items), np.int64)
        places = np.flatnonzero(sent_mask(items))
        times, _ = without_long_gaps(request_column(items, "first_ns")[places], max_gap_ns)
        offsets[places] = self._elapsed_ns(times)
        return array("q", offsets.tobytes())

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


def without_long_gaps(times_ns: Int64s, most_ns: int | None) -> tuple[Int64s, int]:
    """Return sorted times with gaps of at most `most_ns` between them, and how much time was removed."""
    if most_ns is None or not len(times_ns):
        return times_ns, 0
    removed = np.maximum(np.diff(times_ns, prepend=times_ns[:1]) - most_ns, 0).cumsum()
    return times_ns - removed, int(removed[-1])
