"""Which connections must give up what they wait for when all of a task together hold too much.

Each connection has limits of its own, but a hundred thousand connections at their limits are too much. So all
that waits counts: bytes behind holes, unfinished frames, streams whose protocol is not known yet, requests
without a response. When this is more than limits.HELD_BYTES, the connections that hold most give up what they
wait for, until half of the limit is free. They give up holes first, which often completes frames, then the
rest. The beginning of a frame stays, so it is paired all the same. Requests count as unanswered; those of
Kafka 0.7, which only their order pairs, lose their ends instead.

The choice depends on the segments so far and on nothing else, and connections that hold the same fare alike.
So it does not matter where a capture was split. It does matter which connections a task was given. Half of
the limit is a large step on purpose: looking at all connections must be rare.
"""

import numpy as np

from kdissect.array_types import Int64s
from kdissect.jit.decorators import jit_flat
from kdissect.streams.chunks import CHUNK_BYTES
from kdissect.streams.flow_state import State
from kdissect.streams.waiting_queue import WAITING_BYTES


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
