"""When each captured request is due: an absolute time for each, never a sum of waits, so that nothing drifts.

`schedule`: start + (captured time - capture's start) / speed. `think`: as long after the answer that the client had seen last as in
the capture, divided by the speed; before any answer as in `schedule`. `asap`: at once. A ramp lets the speed grow from nothing to
its full value over its time, and costs half of that. Capture times are sorted by whoever calls; those that step back are clamped.
"""

from dataclasses import dataclass

from kdissect.replay.settings import Pace


@dataclass(frozen=True, slots=True)
class Schedule:
    """The pace of one pass. Times are ns: captured ones since the epoch, the run's on a clock of its own."""

    pace: Pace
    speed: float
    captured_start_ns: int
    start_ns: int
    ramp_ns: int = 0

    def due_ns(self, captured_ns: int) -> int:
        """Say when a request is due by the schedule."""
        if self.pace is Pace.ASAP:
            return self.start_ns
        captured = max(captured_ns - self.captured_start_ns, 0)
        elapsed = captured / self.speed
        if self.ramp_ns:
            # While the speed grows, captured time passes as t * t / (2 * ramp): half of the ramp is lost in all.
            if elapsed < self.ramp_ns / 2:
                elapsed = (2 * elapsed * self.ramp_ns) ** 0.5
            else:
                elapsed += self.ramp_ns / 2
        return self.start_ns + round(elapsed)

    def think_ns(self, gap_ns: int) -> int:
        """Say how long a client thinks."""
        return 0 if self.pace is Pace.ASAP else round(max(gap_ns, 0) / self.speed)


def without_long_gaps(times_ns: list[int], most_ns: int | None) -> tuple[list[int], int]:
    """Move sorted times together where nothing happens for longer than `most_ns`; give also how much was removed."""
    if most_ns is None:
        return times_ns, 0
    removed, moved, previous = 0, [], None
    for time_ns in times_ns:
        if previous is not None and time_ns - previous > most_ns:
            removed += time_ns - previous - most_ns
        moved.append(time_ns - removed)
        previous = time_ns
    return moved, removed
