"""When each captured request is due: an absolute time for each, never a sum of waits, so that nothing drifts.

- `schedule`: a request is due at start + (captured time - start of the capture) / speed.
- `think`: so long after the answer that its client had seen last as in the capture, divided by the speed;
  before any answer as in `schedule`.
- `asap`: at once.

A ramp lets the speed grow from nothing to its full value over its time, and costs half of that. Captured
times are sorted by the caller; those before the start of the capture count as its start.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from kdissect.replay.load.replay_items import ReplayItem, request_column, sent_mask
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
        if self.pace is Pace.ASAP:
            return self.start_ns
        captured = max(captured_ns - self.captured_start_ns, 0)
        elapsed = captured / self.speed
        if self.ramp_ns:
            # While the speed grows, captured time passes as t * t / (2 * ramp): half of the ramp is lost in
            # all.
            if elapsed < self.ramp_ns / 2:
                elapsed = (2 * elapsed * self.ramp_ns) ** 0.5
            else:
                elapsed += self.ramp_ns / 2
        return self.start_ns + round(elapsed)

    def think_ns(self, gap_ns: int) -> int:
        """Return how long a client thinks that thought for `gap_ns` in the capture."""
        return 0 if self.pace is Pace.ASAP else round(max(gap_ns, 0) / self.speed)

    def offsets_ns(self, items: Sequence[ReplayItem], max_gap_ns: int | None) -> "array[int]":
        """Return how long after the start each item is due, by its place.

        Pauses are at most `max_gap_ns` long.

        Items that are never sent have 0.
        """
        offsets = array("q", bytes(8 * len(items)))
        playable, captured = array("q"), array("q")
        places = np.flatnonzero(sent_mask(items))
        playable.extend(places.tolist())
        captured.extend(request_column(items, "first_ns")[places].tolist())
        times, _ = without_long_gaps(captured, max_gap_ns)
        for number, time_ns in zip(playable, times, strict=True):
            offsets[number] = self.due_ns(time_ns) - self.start_ns
        return offsets


def without_long_gaps(times_ns: Iterable[int], most_ns: int | None) -> tuple["array[int]", int]:
    """Return sorted times with gaps of at most `most_ns` between them, and how much time was removed."""
    times = array("q", times_ns)
    if most_ns is None:
        return times, 0
    removed, moved, previous = 0, array("q"), None
    for time_ns in times:
        if previous is not None and time_ns - previous > most_ns:
            removed += time_ns - previous - most_ns
        moved.append(time_ns - removed)
        previous = time_ns
    return moved, removed
