"""How far back may something still begin that is not finished: the least time of what pass two holds.

Held are stream bytes that no frame has taken yet, requests that wait for their response, and responses that came before
their request. The first byte of whatever exchange they become is among them.
"""

from kdissect.jit.decorators import jit
from kdissect.streams.flow_state import State

NEVER = (1 << 63) - 1


@jit
def earliest_unfinished(state: State, connections: int) -> int:
    """Give the earliest time of what the first `connections` connections hold; NEVER when they hold nothing."""
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
