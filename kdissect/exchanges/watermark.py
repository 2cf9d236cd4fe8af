"""The watermark: no exchange that is still to come began before this time.

In comes the state of pass two, out goes the earliest time of what it holds: stream bytes that are not yet
part of a frame, requests that wait for their response, and responses that came before their request. The
first byte of every exchange that is still to come is among them, or in packets that are still to be read.
"""

from kdissect.jit.decorators import jit
from kdissect.streams.flow_state import State

NEVER = (1 << 63) - 1


@jit
def earliest_unfinished(state: State, connections: int) -> int:
    """Return the earliest time (ns) that the first `connections` connections hold.

    NEVER if they are empty.
    """
    earliest = NEVER
    for number in range(2 * connections):
        direction = state.directions[number]
        for first in (direction.head, direction.ahead):
            node = first
            while node >= 0:
                time = state.chunks[node].time_ns
                if 0 <= time < earliest:
                    earliest = time
                node = state.chunks[node].next
    for connection in range(connections):
        node = state.connections[connection].first_waiting
        while node >= 0:
            earliest = min(earliest, state.waiting[node].request.first_byte_ns)
            node = state.waiting[node].next
        node = state.connections[connection].first_early
        while node >= 0:
            earliest = min(earliest, state.waiting[node].response.first_byte_ns)
            node = state.waiting[node].next
    return earliest
