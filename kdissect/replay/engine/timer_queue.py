"""When lines are to be looked at: the captured order, walked along once, and beside it a heap for whatever comes up."""

import heapq
from array import array
from bisect import bisect_right
from collections.abc import Iterable

from kdissect.replay.engine.connection_queue import ConnectionQueue


class TimerQueue:
    """Of one pass. All times are ns on the run's clock, those that are planned counted from its start."""

    def __init__(self, planned: Iterable[tuple[int, ConnectionQueue]]) -> None:
        self._times = array("q")
        self._lines: list[ConnectionQueue] = []
        for time_ns, line in planned:  # by the million, and mostly in order
            self._times.append(time_ns)
            self._lines.append(line)
        order = sorted(range(len(self._lines)), key=self._times.__getitem__)
        self._times = array("q", [self._times[each] for each in order])
        self._lines = [self._lines[each] for each in order]
        self._at = 0  # the first one that has not been looked at
        self._alarms: list[tuple[int, int, ConnectionQueue]] = []
        self.start_ns = 0

    @property
    def next_ns(self) -> int | None:
        """When the next line is to be looked at, which may be over."""
        planned = self.start_ns + self._times[self._at] if self._at < len(self._times) else None
        if not self._alarms:
            return planned
        alarm = self._alarms[0][0]
        return alarm if planned is None or alarm < planned else planned

    def alarm(self, line: ConnectionQueue, time_ns: int) -> None:
        """Have a line looked at, beside what is planned."""
        if line.alarm_ns != time_ns:
            line.alarm_ns = time_ns
            heapq.heappush(self._alarms, (time_ns, line.connection, line))

    def take(self, now_ns: int, most: int) -> list[ConnectionQueue]:
        """Give the lines whose time has come, in its order, but not more than so many."""
        begin = self._at
        limit = min(begin + most, len(self._times))
        self._at = bisect_right(self._times, now_ns - self.start_ns, begin, limit)
        found = self._lines[begin : self._at]
        alarms = self._alarms
        while alarms and alarms[0][0] <= now_ns and len(found) < most:
            line = heapq.heappop(alarms)[2]
            line.alarm_ns = -1
            found.append(line)
        return found

    def clear(self) -> None:
        """Look at nothing any more."""
        self._at = len(self._times)
        self._alarms.clear()
