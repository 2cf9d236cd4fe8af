"""The queues of a connection: requests that wait for a response, and responses that wait for a request.

Both are linked nodes of one pool, `State.waiting`, in the order of their packets: from `first_waiting` to
`last_waiting`, and from `first_early` on. A node that leaves its queue becomes a finished exchange
(`finish_exchange`), whatever became of it. Which response belongs to which request is decided in `pairing`.

Every node counts in `StateCounters.held`: WAITING_BYTES, and the bytes of its messages.
"""

from kdissect.jit.decorators import jit_inline, jit_inner
from kdissect.streams.flow_state import (
    NO_ANSWER,
    ORPHAN_RESPONSE,
    SASL_TOKEN,
    FrameRow,
    State,
)

WAITING_BYTES = 256  # of a node, beside its bytes of the messages
MAX_EARLY = 64
# Far beyond any client's pipelining; reached only where the responses are not in the capture.
MAX_WAITING = 4096
# A response within a packet is looked for among so many. Looking through all at each byte took 8 s for a
# megabyte of bytes that were made for it.
NEAR_WAITING = 64
EARLY_NS = 50_000_000  # a response captured more than 50 ms before its request is not its response
NOT_KNOWN = -1  # ordinal, API key and version of what has no request


@jit_inner
def new_waiting(state: State) -> int:
    """Return a node that was taken from the pool; it holds zeros."""
    node = state.counters.free_waiting
    state.counters.free_waiting = state.waiting[node].next
    state.counters.free_waiting_count -= 1
    state.counters.held += WAITING_BYTES
    state.waiting[node] = state.blank
    state.waiting[node].next = -1
    return node


@jit_inline
def set_request(state: State, node: int, frame: FrameRow) -> None:
    """Put a request into a node."""
    state.waiting[node].request = frame
    state.counters.held += frame.stop - frame.start


@jit_inline
def set_response(state: State, node: int, frame: FrameRow) -> None:
    """Put a response into a node."""
    state.waiting[node].response = frame
    state.counters.held += frame.stop - frame.start


@jit_inner
def free_waiting(state: State, node: int) -> int:
    """Put a node back into the pool and return the one that followed it."""
    exchange = state.waiting[node]
    following = exchange.next
    state.counters.held -= exchange.request.stop - exchange.request.start
    state.counters.held -= exchange.response.stop - exchange.response.start
    state.counters.held -= WAITING_BYTES
    exchange.next = state.counters.free_waiting
    state.counters.free_waiting = node
    state.counters.free_waiting_count += 1
    return following


@jit_inline
def finish_exchange(state: State, node: int, status: int) -> None:
    """Copy a node to the finished exchanges, with its status."""
    row = state.counters.exchange_count
    state.exchanges[row] = state.waiting[node]
    state.exchanges[row].status = status
    state.counters.exchange_count += 1


@jit_inline
def wait_for_response(state: State, connection: int, node: int) -> None:
    """Put a request at the end of its queue. If that is full, the oldest one gets no response any more."""
    connections = state.connections
    if connections[connection].waiting_count >= MAX_WAITING:
        give_up_first_waiting(state, connection)
    if connections[connection].last_waiting < 0:
        connections[connection].first_waiting = node
    else:
        state.waiting[connections[connection].last_waiting].next = node
    connections[connection].last_waiting = node
    connections[connection].waiting_count += 1


@jit_inner
def wait_for_request(
    state: State, connection: int, correlation_id: int, version: int, frame: FrameRow
) -> None:
    """Put a response at the end of its queue. If that is full, the oldest one has no request any more."""
    connections = state.connections
    if connections[connection].early_count >= MAX_EARLY:
        give_up_first_early(state, connection)
    node = new_waiting(state)
    waiting = state.waiting
    set_response(state, node, frame)
    waiting[node].connection = connection
    waiting[node].ordinal = NOT_KNOWN
    waiting[node].api_key = NOT_KNOWN
    waiting[node].api_version = version
    waiting[node].correlation_id = correlation_id
    last = connections[connection].first_early
    if last < 0:
        connections[connection].first_early = node
    else:
        while state.waiting[last].next >= 0:
            last = state.waiting[last].next
        state.waiting[last].next = node
    connections[connection].early_count += 1


@jit_inner
def drop_first_waiting(state: State, connection: int) -> None:
    """Remove the oldest request that waits."""
    connections = state.connections
    connections[connection].first_waiting = free_waiting(state, connections[connection].first_waiting)
    connections[connection].waiting_count -= 1
    if connections[connection].first_waiting < 0:
        connections[connection].last_waiting = -1


@jit_inner
def give_up_first_waiting(state: State, connection: int) -> None:
    """Finish the oldest request that waits without a response."""
    node = state.connections[connection].first_waiting
    if state.waiting[node].status == SASL_TOKEN:
        finish_exchange(state, node, SASL_TOKEN)
    else:
        finish_exchange(state, node, NO_ANSWER)
        state.connections[connection].unanswered += 1
    drop_first_waiting(state, connection)


@jit_inner
def give_up_first_early(state: State, connection: int) -> None:
    """Finish the oldest early response without a request."""
    connections = state.connections
    finish_exchange(state, connections[connection].first_early, ORPHAN_RESPONSE)
    connections[connection].first_early = free_waiting(state, connections[connection].first_early)
    connections[connection].early_count -= 1
    connections[connection].orphans += 1


@jit_inner
def waiting_request(state: State, connection: int, correlation_id: int, most: int) -> int:
    """Return the node of the request that waits for a response with this id, -1 if none does.

    Only the first `most` are looked through.
    """
    node = state.connections[connection].first_waiting
    for _ in range(most):
        if node < 0 or state.waiting[node].correlation_id == correlation_id:
            return node
        node = state.waiting[node].next
    return -1


@jit_inline
def rows_needed(state: State, connection: int) -> int:
    """Return an upper bound of the finished exchanges that the next frame of this connection may bring."""
    connections = state.connections
    return connections[connection].waiting_count + connections[connection].early_count + 2


@jit_inner
def give_up_all(state: State, connection: int) -> None:
    """Finish all that waits: the connection is over."""
    while state.connections[connection].first_waiting >= 0:
        give_up_first_waiting(state, connection)
    while state.connections[connection].first_early >= 0:
        give_up_first_early(state, connection)
