"""Who must give direction when all connections of a task hold too much together.

What one connection may hold is bounded by its own limits; a hundred thousand that hold as much are not. So
all that waits counts: bytes behind holes, frames that are not whole, streams of which it is not known yet
what they are, requests without answer. When it is more than limits.HELD_BYTES allows, those that hold most
give up what they wait for, until half of that is free: first their holes, which often brings frames that are
whole, then the rest. Of a frame its beginning stays, so it is paired all the same. Requests count as
unanswered; those of Kafka 0.7, which only their order pairs, lose their ends instead.

Who that is depends on the segments so far and on nothing else, and whoever holds as much as another one fares
alike. So it is all the same where a capture was split; but not, which connections a task was given. Half is a
great deal: to look at all connections is rare then.
"""

import numpy as np

from kdissect.jit.decorators import jit_flat
from kdissect.streams.flow_state import Int64s, State
from kdissect.streams.pairing import WAITING_BYTES
from kdissect.streams.reassembly import CHUNK_BYTES


def held_by_each(state: State, count: int) -> Int64s:
    """Return what each of the first `count` connections holds, in bytes."""
    held = np.zeros(count, np.int64)
    _add_up(state, held)
    return held


@jit_flat
def _add_up(state: State, held: Int64s) -> None:
    chunks, waiting = state.chunks, state.waiting
    for connection in range(len(held)):
        for direction in range(2 * connection, 2 * connection + 2):
            row = state.directions[direction]
            for first in (row.head, row.ahead):
                node = first
                while node >= 0:
                    held[connection] += CHUNK_BYTES + (chunks[node].length if chunks[node].offset >= 0 else 0)
                    node = chunks[node].next
        node = state.connections[connection].first_waiting
        while node >= 0:
            held[connection] += WAITING_BYTES + waiting[node].request.stop - waiting[node].request.start
            node = waiting[node].next
        node = state.connections[connection].first_early
        while node >= 0:
            held[connection] += WAITING_BYTES + waiting[node].response.stop - waiting[node].response.start
            node = waiting[node].next


def heaviest(held: Int64s, least: int) -> Int64s:
    """Return the fewest rows that hold `least` together, and all that hold as much as the last of them.

    >>> heaviest(np.array([1, 5, 0, 9, 5]), 10).tolist()
    [1, 3, 4]
    """
    if least <= 0:
        return np.zeros(0, np.int64)
    sizes = np.sort(held)[::-1]
    last = min(int(np.searchsorted(np.cumsum(sizes), least)), len(sizes) - 1)
    return np.flatnonzero((held >= sizes[last]) & (held > 0))
