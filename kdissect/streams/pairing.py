"""Pairing: which response belongs to which request of one connection.

A broker answers the requests of a connection one after the other, in the order in which they came (protocol
guide, "Network"). So the waiting requests form a queue: a response belongs to the first one with its
correlation id, and those before it will never be answered. The same rule keeps clients right that use an id
again, or use one id always.

Three kinds of frames leave the rule: a Produce with acks=0 gets no response; raw SASL tokens after
SaslHandshake 0 have no Kafka header and answer each other in order, but the last one of GSSAPI gets no
answer; a response may be captured shortly before its request, and then waits for it in `FIRST_EARLY`.

Kafka 0.7 has no correlation ids: all are taken as 0, so that a response belongs to the first request that
waits. There a response never waits for its request (it would take the place of the next one's), and whoever
loses the place in either direction forgets which requests wait (`forget_order`). Its Produce and MultiProduce
get no response at all.
"""

from kdissect.jit.decorators import jit_inner
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.integers import int16_at, int32_at
from kdissect.streams.flow_state import (
    ANSWERED,
    BEFORE_VERSIONS,
    KAFKA_0_7,
    NO_ANSWER,
    NO_RESPONSE_EXPECTED,
    ORPHAN_RESPONSE,
    SASL_TOKEN,
    FrameRow,
    State,
)
from kdissect.streams.framing import EARLY_NS, produce_acks
from kdissect.streams.kafka07_framing import MULTI_PRODUCE

WAITING_BYTES = 256  # that one takes beside those of its messages
MAX_EARLY = 64
# Far beyond any client's pipelining; reached only where the responses are not in the capture.
MAX_WAITING = 4096


@jit_inner
def _new_waiting(state: State) -> int:
    node = state.counters.free_waiting
    state.counters.free_waiting = state.waiting[node].next
    state.counters.free_waiting_count -= 1
    state.counters.held += WAITING_BYTES
    state.waiting[node] = state.blank
    state.waiting[node].next = -1
    return node


@jit_inner
def _set_request(state: State, node: int, frame: FrameRow) -> None:
    state.waiting[node].request = frame
    state.counters.held += frame.stop - frame.start


@jit_inner
def _set_response(state: State, node: int, frame: FrameRow) -> None:
    state.waiting[node].response = frame
    state.counters.held += frame.stop - frame.start


@jit_inner
def _free_waiting(state: State, node: int) -> int:
    exchange = state.waiting[node]
    following = exchange.next
    state.counters.held -= exchange.request.stop - exchange.request.start
    state.counters.held -= exchange.response.stop - exchange.response.start
    state.counters.held -= WAITING_BYTES
    exchange.next = state.counters.free_waiting
    state.counters.free_waiting = node
    state.counters.free_waiting_count += 1
    return following


@jit_inner
def _finish(state: State, node: int, status: int) -> None:
    """Turn a waiting row into a finished exchange."""
    row = state.counters.exchange_count
    state.exchanges[row] = state.waiting[node]
    state.exchanges[row].status = status
    state.counters.exchange_count += 1


@jit_inner
def _drop_first_waiting(state: State, connection: int) -> None:
    connections = state.connections
    connections[connection].first_waiting = _free_waiting(state, connections[connection].first_waiting)
    connections[connection].waiting_count -= 1
    if connections[connection].first_waiting < 0:
        connections[connection].last_waiting = -1


@jit_inner
def _give_up_first_waiting(state: State, connection: int) -> None:
    node = state.connections[connection].first_waiting
    if state.waiting[node].status == SASL_TOKEN:
        _finish(state, node, SASL_TOKEN)
    else:
        _finish(state, node, NO_ANSWER)
        state.connections[connection].unanswered += 1
    _drop_first_waiting(state, connection)


@jit_inner
def _give_up_first_early(state: State, connection: int) -> None:
    connections = state.connections
    _finish(state, connections[connection].first_early, ORPHAN_RESPONSE)
    connections[connection].first_early = _free_waiting(state, connections[connection].first_early)
    connections[connection].early_count -= 1
    connections[connection].orphans += 1


@jit_inner
def rows_needed(state: State, connection: int) -> int:
    """Return an upper bound of the finished exchanges that the next frame of this connection may bring."""
    connections = state.connections
    return connections[connection].waiting_count + connections[connection].early_count + 2


@jit_inner
def _is_too_early(state: State, connection: int, node: int, request_ns: int) -> bool:
    """Return whether an early response was captured too long before a request to be its answer."""
    age = request_ns - state.waiting[node].response.first_byte_ns
    return bool(age > EARLY_NS + state.connections[connection].clock_stepped_ns)


@jit_inner
def _take_early(state: State, connection: int, correlation_id: int, request_ns: int) -> int:
    """Remove the early response with this correlation id from its list; return its node, -1 without one.

    Those that are too old for any request still to come are orphans. While more of the client's bytes are
    there, behind a packet that was captured late, requests among them may be older than this one.
    """
    connections = state.connections
    directions = state.directions
    client = 2 * connection + connections[connection].client_side
    if directions[client].head < 0 and directions[client].ahead < 0:
        while connections[connection].first_early >= 0 and _is_too_early(
            state, connection, connections[connection].first_early, request_ns
        ):
            _give_up_first_early(state, connection)
    before = -1
    node = connections[connection].first_early
    while node >= 0 and (
        state.waiting[node].correlation_id != correlation_id
        or _is_too_early(state, connection, node, request_ns)
    ):
        before = node
        node = state.waiting[node].next
    if node >= 0:
        following = state.waiting[node].next
        if before < 0:
            connections[connection].first_early = following
        else:
            state.waiting[before].next = following
        connections[connection].early_count -= 1
    return node


@jit_inner
def _gets_no_response(state: State, node: int) -> bool:
    key = state.waiting[node].api_key
    version = state.waiting[node].api_version
    if version == BEFORE_VERSIONS:
        return bool(key == ApiKey.PRODUCE or key == MULTI_PRODUCE)
    start = state.waiting[node].request.start
    stop = state.waiting[node].request.stop
    return bool(key == ApiKey.PRODUCE and produce_acks(state.arena, start, stop, version) == 0)


@jit_inner
def on_request(state: State, connection: int, frame: FrameRow) -> None:
    """Process one request frame; `frame` has at least 8 of them (2 in Kafka 0.7)."""
    connections = state.connections
    start = frame.start
    node = _new_waiting(state)
    waiting = state.waiting
    _set_request(state, node, frame)
    waiting[node].connection = connection
    waiting[node].ordinal = connections[connection].next_ordinal
    waiting[node].api_key = int16_at(state.arena, start)
    if connections[connection].protocol == KAFKA_0_7:
        waiting[node].api_version = BEFORE_VERSIONS
    else:
        waiting[node].api_version = int16_at(state.arena, start + 2)
        waiting[node].correlation_id = int32_at(state.arena, start + 4)
    waiting[node].in_flight = connections[connection].waiting_count + 1
    connections[connection].next_ordinal += 1
    connections[connection].requests += 1
    if _gets_no_response(state, node):
        _finish(state, node, NO_RESPONSE_EXPECTED)
        _free_waiting(state, node)
        return
    if waiting[node].api_key == ApiKey.SASL_HANDSHAKE and waiting[node].api_version == 0:
        connections[connection].raw_sasl = 1
    if connections[connection].first_early >= 0:
        early = _take_early(state, connection, waiting[node].correlation_id, frame.first_byte_ns)
        if early >= 0:
            waiting[node].response = waiting[early].response
            waiting[early].response.stop = waiting[early].response.start  # they are the other's now
            _free_waiting(state, early)
            _finish(state, node, ANSWERED)
            _free_waiting(state, node)
            return
    _wait(state, connection, node)


@jit_inner
def _wait(state: State, connection: int, node: int) -> None:
    connections = state.connections
    if connections[connection].waiting_count >= MAX_WAITING:
        _give_up_first_waiting(state, connection)
    if connections[connection].last_waiting < 0:
        connections[connection].first_waiting = node
    else:
        state.waiting[connections[connection].last_waiting].next = node
    connections[connection].last_waiting = node
    connections[connection].waiting_count += 1


@jit_inner
def on_token(state: State, connection: int, frame: FrameRow) -> None:
    """Process a client's raw SASL token: its answer is the next frame of the other direction."""
    node = _new_waiting(state)
    waiting = state.waiting
    _set_request(state, node, frame)
    waiting[node].connection = connection
    waiting[node].status = SASL_TOKEN
    waiting[node].ordinal = -1
    waiting[node].api_key = -1
    waiting[node].api_version = -1
    _wait(state, connection, node)


@jit_inner
def expects_token(state: State, connection: int) -> bool:
    """Return whether the next frame from the server answers a raw SASL token."""
    node = state.connections[connection].first_waiting
    return node >= 0 and state.waiting[node].status == SASL_TOKEN


@jit_inner
def _answers_token(state: State, connection: int, frame: FrameRow) -> bool:
    """Return whether a frame answers a raw token.

    Then no request behind that has the id with which the frame begins.

    The last token of GSSAPI gets no answer, unlike those of all other mechanisms: the client goes on by
    itself.
    """
    if not expects_token(state, connection):
        return False
    if frame.stop - frame.start < 4:
        return True
    correlation_id = int32_at(state.arena, frame.start)
    node = state.connections[connection].first_waiting
    while node >= 0 and (
        state.waiting[node].status == SASL_TOKEN or state.waiting[node].correlation_id != correlation_id
    ):
        node = state.waiting[node].next
    return bool(node < 0)


@jit_inner
def on_response(state: State, connection: int, frame: FrameRow) -> None:
    """Process one response frame; `frame` has at least 4 of them (2 in Kafka 0.7)."""
    connections = state.connections
    if _answers_token(state, connection, frame):
        node = connections[connection].first_waiting
        _set_response(state, node, frame)
        _finish(state, node, SASL_TOKEN)
        _drop_first_waiting(state, connection)
        return
    connections[connection].responses += 1
    in_order = connections[connection].protocol == KAFKA_0_7
    correlation_id = 0 if in_order else int32_at(state.arena, frame.start)
    node = connections[connection].first_waiting
    if in_order and node >= 0 and frame.first_byte_ns < state.waiting[node].request.first_byte_ns:
        node = -1
    latest = frame.first_byte_ns + EARLY_NS + connections[connection].clock_stepped_ns
    while node >= 0 and (
        state.waiting[node].correlation_id != correlation_id
        or state.waiting[node].status == SASL_TOKEN
        or (
            state.waiting[node].request.first_byte_ns > latest
            and state.waiting[node].request.packet > frame.packet
        )
    ):
        node = state.waiting[node].next
    if node >= 0:
        while connections[connection].first_waiting != node:
            _give_up_first_waiting(state, connection)
        _set_response(state, node, frame)
        _finish(state, node, ANSWERED)
        _drop_first_waiting(state, connection)
        return
    _keep_early(state, connection, correlation_id, frame)
    if in_order:
        _give_up_first_early(state, connection)


@jit_inner
def forget_order(state: State, direction: int) -> None:
    """Bytes of a direction were lost.

    Where order alone pairs, requests sent before it goes on may have had their answer.
    """
    connection = direction // 2
    if state.connections[connection].protocol != KAFKA_0_7:
        return
    following = state.directions[direction].head
    node = state.connections[connection].first_waiting
    while node >= 0 and (
        following < 0 or state.waiting[node].request.first_byte_ns <= state.chunks[following].time_ns
    ):
        _give_up_first_waiting(state, connection)
        node = state.connections[connection].first_waiting


@jit_inner
def _keep_early(state: State, connection: int, correlation_id: int, frame: FrameRow) -> None:
    connections = state.connections
    if connections[connection].early_count >= MAX_EARLY:
        _give_up_first_early(state, connection)
    node = _new_waiting(state)
    waiting = state.waiting
    _set_response(state, node, frame)
    waiting[node].connection = connection
    waiting[node].ordinal = -1
    waiting[node].api_key = -1
    waiting[node].api_version = BEFORE_VERSIONS if connections[connection].protocol == KAFKA_0_7 else -1
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
def give_up_waiting(state: State, connection: int) -> None:
    """Nothing that waits gets an answer any more."""
    while state.connections[connection].first_waiting >= 0:
        _give_up_first_waiting(state, connection)


@jit_inner
def shorten_waiting(state: State, connection: int, most: int) -> None:
    """Keep the first bytes of every request that waits."""
    node = state.connections[connection].first_waiting
    while node >= 0:
        over = state.waiting[node].request.stop - state.waiting[node].request.start - most
        if over > 0:
            state.waiting[node].request.stop -= over
            state.counters.held -= over
        node = state.waiting[node].next


@jit_inner
def give_up_all(state: State, connection: int) -> None:
    """The connection is over: what still waits gets no answer, what came early has no request."""
    give_up_waiting(state, connection)
    while state.connections[connection].first_early >= 0:
        _give_up_first_early(state, connection)
