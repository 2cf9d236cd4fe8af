"""The captured connections of a pass, each with its requests in their order, and when to look at which.

A `ConnectionQueue` keeps the order of its connection. The next request may begin when the one before it has
put its own frames on the wire (`unsent` is over), and as long as no more requests are in flight than the
captured connection had.

A `TimerQueue` is the planned order, walked along once, and beside it a heap of alarms. Planned times are
those of the captured requests, by the million and mostly in order, so they are sorted once and not kept in
a heap. Alarms are for whatever comes up while a pass runs. All times are ns on the clock of the run.
Planned ones count from its start.
"""

import heapq
from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kdissect.replay.load.replay_items import ReplayItem, request_column, sent_mask
from kdissect.replay.load.request_table import numbered
from kdissect.streams.flow_state import Int64s

NONE = -1  # no request


class WaitingItems:
    """Requests of one connection that have not begun, by their places in a sequence."""

    __slots__ = ("_head", "_items", "_next", "_places")

    def __init__(self, items: Sequence[ReplayItem] = (), places: Sequence[int] = ()) -> None:
        self._items, self._places, self._next = items, array("i", places), 0
        self._head: ReplayItem | None = None

    def __len__(self) -> int:
        return len(self._places) - self._next

    @property
    def places(self) -> Int64s:
        """The places of these requests."""
        return np.array(self._places[self._next :], np.int64)

    @property
    def head(self) -> ReplayItem:
        """The next request; there must be one."""
        if self._head is None:
            self._head = self._items[self._places[self._next]]
        return self._head

    def popleft(self) -> ReplayItem:
        """Remove the next request, and return it."""
        head = self.head
        self._head = None
        self._next += 1
        return head

    def drop_all(self) -> Int64s:
        """Remove all requests, and return their places."""
        places = self.places
        self._next, self._head = len(self._places), None
        return places


@dataclass(slots=True, eq=False)
class ConnectionQueue:
    """One captured connection. Times are ns on the clock of the run."""

    connection: int  # its number in the capture
    most_in_flight: int  # what the captured connection had
    waiting: WaitingItems = field(default_factory=WaitingItems)
    in_flight: int = 0
    unsent: int = NONE  # the request whose handler has not put its frames on the wire yet
    open: bool = False  # something was sent, and something is to come
    advancing: bool = False  # the player is beginning requests of it
    blocked: bool = False  # its head is due and waits for an event that will have the queue looked at again
    alarm_ns: int = -1  # when it is looked at beside what is planned; -1: never
    cause: str = ""  # why its head is late
    late_until_ns: int = 0  # requests that were due before are late for the cause beside
    late_cause: str = ""

    def block(self, cause: str) -> None:
        """Have the head wait for an event."""
        self.blocked, self.cause = True, cause

    def begin_head(self, due_ns: int, now_ns: int) -> None:
        """Note that the head begins.

        Its delay is also that of the requests behind it that were due by now.
        """
        if self.cause:
            self.late_until_ns, self.late_cause = now_ns, self.cause
        elif due_ns < self.late_until_ns:
            self.cause = self.late_cause


def connection_queues(
    items: Sequence[ReplayItem], most_in_flight: Mapping[int, int]
) -> dict[int, ConnectionQueue]:
    """Return the queue of each captured connection, with its requests that may be sent, in order.

    The limits are by connection.
    """
    places = np.flatnonzero(sent_mask(items))
    connections = request_column(items, "connection")[places]
    connections, numbers = numbered(connections)
    order = np.argsort(numbers, kind="stable").astype(np.int32)
    parts = np.split(places[order], np.cumsum(np.bincount(numbers))[:-1])
    queues = {}
    firsts = [int(part[0]) for part in parts if len(part)]
    for each in np.argsort(firsts).tolist():  # in the order of their first requests
        connection, waiting = int(connections[each]), array("i", parts[each].astype(np.int32).tobytes())
        queues[connection] = ConnectionQueue(
            connection, most_in_flight[connection], WaitingItems(items, waiting)
        )
    return queues


class TimerQueue:
    """The timers of a pass."""

    def __init__(self, times_ns: Int64s, numbers: Int64s, queues: Sequence[ConnectionQueue]) -> None:
        """Plan looks at queues, of which each is in `queues` by its number."""
        order = np.argsort(times_ns, kind="stable")
        self._times = array("q", times_ns[order].tobytes())
        self._numbers = array("i", numbers[order].astype(np.int32).tobytes())
        self._queues = queues
        self._position = 0  # the first timer that is not over
        self._alarms: list[tuple[int, int, ConnectionQueue]] = []
        self.start_ns = 0

    @property
    def next_ns(self) -> int | None:
        """Return the time of the next look at a queue, which may be over; None: never."""
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
        due = [self._queues[number] for number in self._numbers[begin : self._position]]
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
