"""Pairing in Kafka 0.7, which has no correlation ids: only the order of frames pairs them.

A response belongs to the first request that waits. Produce and MultiProduce get no response at all. A
response never waits for its request, because it would take the place of the next one's. A direction that
loses its place has lost an unknown number of frames, so `forget_order` gives up the requests that wait.
"""

from kdissect.jit.decorators import jit_inner
from kdissect.protocol.api_keys import ApiKey
from kdissect.streams.flow_state import (
    BEFORE_VERSIONS,
    NO_RESPONSE_EXPECTED,
    FrameRow,
    State,
)
from kdissect.streams.kafka07_framing import MULTI_PRODUCE
from kdissect.streams.pairing import answer_first_waiting, count_request
from kdissect.streams.waiting_queue import (
    finish_exchange,
    free_waiting,
    give_up_first_early,
    give_up_first_waiting,
    new_waiting,
    wait_for_request,
    wait_for_response,
)

NO_CORRELATION_ID = 0  # stands for the ids that this version does not have


@jit_inner
def on_kafka07_request(state: State, connection: int, frame: FrameRow) -> None:
    """Pair one request of Kafka 0.7; `frame` has its type at least (2 bytes)."""
    node = new_waiting(state)
    request = state.waiting[node]
    count_request(state, connection, node, frame)
    request.api_version = BEFORE_VERSIONS
    if request.api_key == ApiKey.PRODUCE or request.api_key == MULTI_PRODUCE:
        finish_exchange(state, node, NO_RESPONSE_EXPECTED)
        free_waiting(state, node)
        return
    wait_for_response(state, connection, node)


@jit_inner
def on_kafka07_response(state: State, connection: int, frame: FrameRow) -> None:
    """Pair one response of Kafka 0.7; `frame` has its error code at least (2 bytes)."""
    row = state.connections[connection]
    row.responses += 1
    node = row.first_waiting
    if node >= 0 and frame.first_byte_ns >= state.waiting[node].request.first_byte_ns:
        answer_first_waiting(state, connection, frame)
        return
    wait_for_request(state, connection, NO_CORRELATION_ID, BEFORE_VERSIONS, frame)
    give_up_first_early(state, connection)


@jit_inner
def forget_order(state: State, connection: int, direction: int) -> None:
    """Finish, without a response, the requests that were sent before a direction goes on behind lost bytes.

    Their responses may be among these.
    """
    following = state.directions[direction].head
    node = state.connections[connection].first_waiting
    while node >= 0 and (
        following < 0 or state.waiting[node].request.first_byte_ns <= state.chunks[following].time_ns
    ):
        give_up_first_waiting(state, connection)
        node = state.connections[connection].first_waiting


@jit_inner
def shorten_waiting(state: State, connection: int, most: int) -> None:
    """Keep the first `most` bytes of every request that waits, because their order is all that pairs."""
    node = state.connections[connection].first_waiting
    while node >= 0:
        over = state.waiting[node].request.stop - state.waiting[node].request.start - most
        if over > 0:
            state.waiting[node].request.stop -= over
            state.counters.held -= over
        node = state.waiting[node].next
