"""How far a worker's clock is from the driver's, measured over the channel as NTP does (RFC 5905, section 8).

In: when a question left the worker (t1), reached the driver (t2), left the driver (t3) and came back (t4).
The offset is the mean of the two ways, and wrong by half of the round trip at most. The measurement with
the shortest round trip counts, since a longer one has waited somewhere.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

ROUNDS = 20  # measurements before a pass


class ClockSample(NamedTuple):
    """One measurement. Times are ns: t1 and t4 on the worker's clock, t2 and t3 on the driver's."""

    t1: int
    t2: int
    t3: int
    t4: int

    @property
    def round_trip_ns(self) -> int:
        """Return how long the message was on its way, both ways."""
        return (self.t4 - self.t1) - (self.t3 - self.t2)

    @property
    def offset_ns(self) -> int:
        """Return the difference added to the driver's time for the worker's."""
        return ((self.t1 - self.t2) + (self.t4 - self.t3)) // 2


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """Difference added to the driver's time for the worker's, and its largest error."""

    offset_ns: int
    error_ns: int

    def on_worker(self, driver_ns: int) -> int:
        """Return a time of the driver on the clock of the worker."""
        return driver_ns + self.offset_ns

    def on_driver(self, worker_ns: int) -> int:
        """Return a time of the worker on the clock of the driver."""
        return worker_ns - self.offset_ns


def best_offset(samples: Iterable[ClockSample]) -> ClockOffset:
    """Return the offset by the measurement with the shortest round trip."""
    best = min(samples, key=lambda sample: sample.round_trip_ns)
    return ClockOffset(best.offset_ns, max(best.round_trip_ns, 0) // 2)
