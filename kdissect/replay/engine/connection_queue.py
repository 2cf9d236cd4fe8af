"""Lines: the captured connections of a pass, each with its requests in their order."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kdissect.replay.load.replay_input import ReplayItem


@dataclass(slots=True, eq=False)
class ConnectionQueue:
    """One captured connection."""

    connection: int
    cap: int
    waiting: deque[ReplayItem] = field(default_factory=deque)
    in_flight: int = 0
    held_by: int = -1  # the request that has not put its frames on the wire yet
    cause: str = ""  # why the head is late
    pushing: bool = False
    begun: bool = False
    stuck: bool = False  # the head is due and waits for something that will have the line looked at again
    alarm_ns: int = -1  # when it is looked at beside what is planned
    held_until_ns: int = 0  # when something last let go of the line,
    held_cause: str = ""  # and what that was

    def let_go(self, due_ns: int, now_ns: int) -> None:
        """The head begins: what held it up is also why those behind it are late that were due by now."""
        if self.cause:
            self.held_until_ns, self.held_cause = now_ns, self.cause
        elif due_ns < self.held_until_ns:
            self.cause = self.held_cause


def connection_queues(items: Iterable[ReplayItem], caps: Mapping[int, int]) -> dict[int, ConnectionQueue]:
    """Put every request on its line."""
    lines: dict[int, ConnectionQueue] = {}
    for item in items:
        connection = item.request.connection
        line = lines.get(connection)
        if line is None:
            line = lines[connection] = ConnectionQueue(connection, caps[connection])
        line.waiting.append(item)
    return lines
