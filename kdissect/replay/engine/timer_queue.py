"""When to look at which connection queue.

The planned order, walked along once, and beside it a heap of alarms.

Planned times are those of the captured requests, by the million and mostly in order, so they are sorted once
and not kept in a heap. Alarms are for whatever comes up while a pass runs. All times are ns on the clock of
the run; planned ones count from its start.
"""

import heapq
from array import array
from bisect import bisect_right
from collections.abc import Iterable

from kdissect.replay.engine.connection_queue import ConnectionQueue


class TimerQueue:
    """The timers of a pass."""

    def __init__(self, planned: Iterable[tuple[int, ConnectionQueue]]) -> None:
        times = array("q")
        queues: list[ConnectionQueue] = []
        for time_ns, queue in planned:
            times.append(time_ns)
            queues.append(queue)
        order = sorted(range(len(queues)), key=times.__getitem__)
        self._times = array("q", [times[number] for number in order])
        self._queues = [queues[number] for number in order]
        self._position = 0  # the first timer that is not over
        self._alarms: list[tuple[int, int, ConnectionQueue]] = []
        self.start_ns = 0

    @property
    def next_ns(self) -> int | None:
        """When the next queue is to be looked at, which may be over; None: never."""
        planned = None
        if self._position < len(self._times):
            planned = self.start_ns + self._times[self._position]
        if not self._alarms:
            return planned
        alarm = self._alarms[0][0]
        return alarm if planned is None or alarm < planned else planned

    def add_alarm(self, queue: ConnectionQueue, time_ns: int) -> None:
        """Have a queue looked at, beside what is planned."""
        if queue.alarm_ns != time_ns:
            queue.alarm_ns = time_ns
            heapq.heappush(self._alarms, (time_ns, queue.connection, queue))

    def take(self, now_ns: int, most: int) -> list[ConnectionQueue]:
        """Return the queues whose time has come, in the order of their times, at most so many."""
        begin = self._position
        limit = min(begin + most, len(self._times))
        self._position = bisect_right(self._times, now_ns - self.start_ns, begin, limit)
        due = self._queues[begin : self._position]
        alarms = self._alarms
        while alarms and alarms[0][0] <= now_ns and len(due) < most:
            queue = heapq.heappop(alarms)[2]
            queue.alarm_ns = -1
            due.append(queue)
        return due

    def clear(self) -> None:
        """Forget all timers."""
        self._position = len(self._times)
        self._alarms.clear()
