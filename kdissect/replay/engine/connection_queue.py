"""The captured connections of a pass, each with its requests in their order.

A queue keeps the order of its connection. The next request may begin when the one before it has put its own
frames on the wire (`unsent` is over), and as long as no more requests are in flight than the captured
connection had.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kdissect.replay.load.replay_input import ReplayItem

NONE = -1  # no request


@dataclass(slots=True, eq=False)
class ConnectionQueue:
    """One captured connection. Times are ns on the clock of the run."""

    connection: int  # its number in the capture
    most_in_flight: int  # what the captured connection had
    waiting: deque[ReplayItem] = field(default_factory=deque)
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

        What delayed it has also delayed those behind it that were due by now.
        """
        if self.cause:
            self.late_until_ns, self.late_cause = now_ns, self.cause
        elif due_ns < self.late_until_ns:
            self.cause = self.late_cause


def connection_queues(
    items: Iterable[ReplayItem], most_in_flight: Mapping[int, int]
) -> dict[int, ConnectionQueue]:
    """Return the queue of each captured connection, with its requests in order.

    The limits are by connection.
    """
    queues: dict[int, ConnectionQueue] = {}
    for item in items:
        connection = item.request.connection
        queue = queues.get(connection)
        if queue is None:
            queue = queues[connection] = ConnectionQueue(connection, most_in_flight[connection])
        queue.waiting.append(item)
    return queues
