"""The captured connections of a pass, each with its requests in their order, and when to look at which.

A `ConnectionQueue` keeps the order of its connection. The next request may begin when the one before it has
put its own frames on the wire (`unsent` is over), and as long as no more requests are in flight than the
captured connection had.

A `TimerQueue` is the planned order, walked along once, and beside it a heap of alarms. Planned times are
those of the captured requests, by the million and in order, so they are read some thousand at a time and not
kept in a heap. Alarms are for whatever comes up while a pass runs. All times are ns on the clock of the run.
Planned ones count from its start.
"""

import heapq
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kdissect.array_types import Int32s, Int64s
from kdissect.replay.engine.schedule import DueTimes
from kdissect.replay.load.replay_items import ReplayItem, column_blocks, index_reader
from kdissect.replay.load.request_table import ROWS_AT_ONCE

NONE = -1  # no request
NO_PLACES = np.zeros(0, np.int32)
LOOKS_AT_ONCE = 1 << 12  # planned looks that are read at a time: less than 1 ms


class WaitingItems:
    """Requests of one connection that have not begun, by their places in a sequence."""

    __slots__ = ("_head", "_index_of", "_items", "_next", "_places", "left")

    def __init__(self, items: Sequence[ReplayItem] = (), places: Sequence[int] = ()) -> None:
        self._items, self._places, self._next = items, array("i", places), 0
        self._index_of = index_reader(items)
        self._head: ReplayItem | None = None
        self.left = len(self._places)  # how many there are, sooner than `len` tells

    def __len__(self) -> int:
        return self.left

    @property
    def places(self) -> Int32s:
        """The places of these requests."""
        return np.frombuffer(self._places, np.int32)[self._next :]

    @property
    def index(self) -> int:
        """The index of the next request; there must be one."""
        return self._index_of(self._places[self._next])

    @property
    def head(self) -> ReplayItem:
        """The next request; there must be one."""
        if self._head is None:
            self._head = self._items[self._places[self._next]]
        return self._head

    def offer(self, head: ReplayItem | None) -> None:
        """Have an item of the next request that was made before, if there is one."""
        if self._head is None:
            self._head = head

    def popleft(self) -> ReplayItem:
        """Remove the next request, and return it."""
        head = self.head
        self.skip()
        return head

    def skip(self) -> None:
        """Remove the next request."""
        self._head = None
        self._next += 1
        self.left -= 1

    def drop_all(self) -> Int32s:
        """Remove all requests, and return their places."""
        places = self.places
        self._next, self._head, self.left = len(self._places), None, 0
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
    places_of: dict[int, array[int]] = {}  # in the order of first requests
    begin = 0
    for connections, sent in column_blocks(items, "connection", "sent"):
        places = begin + np.flatnonzero(sent)
        numbers, firsts, inverse = np.unique(connections[sent], return_index=True, return_inverse=True)
        parts = np.split(places[np.argsort(inverse, kind="stable")], np.cumsum(np.bincount(inverse))[:-1])
        for each in np.argsort(firsts).tolist():
            own = places_of.setdefault(int(numbers[each]), array("i"))
            own.frombytes(parts[each].astype(np.int32).tobytes())
        begin += len(connections)
    return {
        connection: ConnectionQueue(connection, most_in_flight[connection], WaitingItems(items, places))
        for connection, places in places_of.items()
    }


def drop_waiting(queues: Iterable[ConnectionQueue]) -> Iterator[Int32s]:
    """Remove all requests from queues, and yield their places, many at a time."""
    dropped, count = [NO_PLACES], 0
    for queue in queues:
        left = queue.waiting.drop_all()
        for begin in range(0, len(left), ROWS_AT_ONCE):
            dropped.append(left[begin : begin + ROWS_AT_ONCE])
            count += len(dropped[-1])
            if count >= ROWS_AT_ONCE:
                yield np.concatenate(dropped)
                dropped, count = [NO_PLACES], 0
    yield np.concatenate(dropped)


PlannedLooks = tuple[Int64s, Int64s]
"""When to look at queues, counted from the start, and the numbers of these queues."""


def planned_looks(
    items: Sequence[ReplayItem], queues: Sequence[ConnectionQueue], due_times: DueTimes
) -> Iterator[PlannedLooks]:
    """Yield when requests are due, of some at a time, and the numbers of their queues in `queues`."""
    connections = np.array([queue.connection for queue in queues], np.int64)
    order = np.argsort(connections)
    connections = connections[order]
    for connection, first_ns, sent in column_blocks(
        items, "connection", "first_ns", "sent", rows=LOOKS_AT_ONCE
    ):
        numbers = order[np.searchsorted(connections, connection[sent])]
        yield due_times.column(first_ns[sent]), numbers


class TimerQueue:
    """The timers of a pass. Planned ones are read when those before them are over."""

    def __init__(self, planned: Iterable[PlannedLooks], queues: Sequence[ConnectionQueue]) -> None:
        """Plan looks at `queues`, which are numbered by their places. Later parts have later times."""
        self._planned = iter(planned)
        self._times, self._numbers = array("q"), array("i")
        self._queues = queues
        self._position = 0  # the first timer that is not over
        self._alarms: list[tuple[int, int, ConnectionQueue]] = []
        self.start_ns = 0
        self._read_on()

    def _read_on(self) -> None:
        """Read the next planned timers when all that were read are over."""
        while self._position >= len(self._times):
            part = next(self._planned, None)
            if part is None:
                return
            times_ns, numbers = part
            order = np.argsort(times_ns, kind="stable")
            self._times = array("q", times_ns[order].tobytes())
            self._numbers = array("i", numbers[order].astype(np.int32).tobytes())
            self._position = 0

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
        self._read_on()
        alarms = self._alarms
        while alarms and alarms[0][0] <= now_ns and len(due) < most:
            queue = heapq.heappop(alarms)[2]
            queue.alarm_ns = -1
            due.append(queue)
        return due

    def clear(self) -> None:
        """Forget all timers."""
        self._planned = iter(())
        self._position = len(self._times)
        self._alarms.clear()
