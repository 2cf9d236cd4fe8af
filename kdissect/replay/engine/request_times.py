"""When the requests of one process are due, and when those have ended that others of them wait for.

In: the schedule of the pass, the captured requests, and the moment at which each one ended. Out: the due time
of a request. At pace `think` it counts from the end of the request whose answer the client had seen last
(`ReplayItem.anchor`), so it is not known before. Times are ns on the clock of the run.
"""

import dataclasses
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from kdissect.array_types import Int64s
from kdissect.replay.engine.connection_queue import NONE, ConnectionQueue, PlannedLooks, planned_looks
from kdissect.replay.engine.schedule import DueTimes, Schedule
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.settings import Pace

EARLY_NS = 250_000_000  # a connection is opened so long before its first request is due
LEAD_NS = 100_000_000  # time to open connections before the first request,
LEAD_PER_CONNECTION_NS, LONGEST_LEAD_NS = 1_000_000, 5_000_000_000  # and for each of them, at most


class RequestTimes:
    """Due times of requests, on a schedule whose start may be set later."""

    def __init__(self, schedule: Schedule, captured: Sequence[ReplayItem], max_gap_ns: int | None) -> None:
        """`captured` are all requests of the capture, whichever process sends them."""
        self.schedule = schedule
        self.thinks = schedule.pace is Pace.THINK
        self._due_times = DueTimes(schedule, captured, max_gap_ns)
        self._ended_ns = array("q", [NONE]) * (len(captured) if self.thinks else 0)

    def begin(self, start_ns: int) -> None:
        """Have the pass start at this time."""
        self.schedule = dataclasses.replace(self.schedule, start_ns=start_ns)

    def due_ns(self, item: ReplayItem) -> int | None:
        """Return when a request is due; None as long as the answer that its client waited for is missing."""
        if not self.thinks or item.anchor < 0:
            return self.planned_ns(item.request.first_ns)
        ended_ns = self._ended_ns[item.anchor]
        return None if ended_ns == NONE else self.schedule.after_ns(ended_ns, self._due_times.gap_ns(item))

    def planned_ns(self, first_ns: int) -> int:
        """Return when a request of this captured time is due that waits for no answer."""
        return self.schedule.start_ns + self._due_times.of(first_ns)

    def note_end(self, index: int, now_ns: int) -> None:
        """Note that a request has ended."""
        if self.thinks:
            self._ended_ns[index] = now_ns

    def note_ends(self, indices: Int64s, now_ns: int) -> None:
        """Note that many requests have ended."""
        if self.thinks:
            np.frombuffer(self._ended_ns, np.int64)[indices] = now_ns

    def planned(
        self, items: Sequence[ReplayItem], queues: Sequence[ConnectionQueue]
    ) -> Iterator[PlannedLooks]:
        """Yield when to look at which queue: when a request of it is due.

        Only the first requests of queues are planned where others have no due times.
        """
        if self.schedule.pace is Pace.SCHEDULE:
            yield from planned_looks(items, queues, self._due_times)
        else:
            firsts = [self._first_offset_ns(queue) for queue in queues]
            yield np.array(firsts, np.int64), np.arange(len(queues))

    def lead_ns(self, queues: Iterable[ConnectionQueue]) -> int:
        """Return how long before the first request the connections wanted at once should be opened."""
        if self.schedule.pace is Pace.ASAP:
            return 0
        firsts = sorted(map(self._first_offset_ns, queues))
        wanted = bisect_left(firsts, min(firsts, default=0) + EARLY_NS)
        return min(LEAD_NS + wanted * LEAD_PER_CONNECTION_NS, LONGEST_LEAD_NS)

    def _first_offset_ns(self, queue: ConnectionQueue) -> int:
        return self._due_times.of(queue.waiting.head.request.first_ns)
