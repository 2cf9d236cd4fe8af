"""How far back may something still begin that is not finished: the least time of what pass two holds.

Held are stream bytes that no frame has taken yet, requests that wait for their response, and responses that came before
their request. The first byte of whatever exchange they become is among them.
"""

import numpy as np

from kdissect.jit.decorators import jit
from kdissect.streams.flow_state import (
    AHEAD,
    FIRST_BYTE_NS,
    FIRST_EARLY,
    FIRST_WAITING,
    HEAD,
    NEXT_CHUNK,
    NEXT_WAITING,
    REQUEST_SIDE,
    RESPONSE_SIDE,
    TIME,
    State,
)

NEVER = (1 << 63) - 1


@jit
def earliest_unfinished(state: State, connections: int) -> int:
    """Give the earliest time of what the first `connections` connections hold; NEVER when they hold nothing."""
    earliest = np.int64(NEVER)
    for way in range(2 * connections):
        for column in (HEAD, AHEAD):
            node = state.ways[way, column]
            while node >= 0:
                time = state.chunks[node, TIME]
                if 0 <= time < earliest:
                    earliest = time
                node = state.chunks[node, NEXT_CHUNK]
    for connection in range(connections):
        node = state.connections[connection, FIRST_WAITING]
        while node >= 0:
            earliest = min(earliest, state.waiting[node, REQUEST_SIDE + FIRST_BYTE_NS])
            node = state.waiting[node, NEXT_WAITING]
        node = state.connections[connection, FIRST_EARLY]
        while node >= 0:
            earliest = min(earliest, state.waiting[node, RESPONSE_SIDE + FIRST_BYTE_NS])
            node = state.waiting[node, NEXT_WAITING]
    return earliest  # type: ignore[return-value]
