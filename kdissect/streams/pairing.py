"""Pairing: which response belongs to which request of one connection.

A broker answers the requests of a connection one after the other, in the order in which they came (protocol guide,
"Network"). So the waiting requests form a queue: a response belongs to the first one with its correlation id, and
those before it will never be answered. The same rule keeps clients right that use an id again, or use one id always.

Three kinds of frames leave the rule: a Produce with acks=0 gets no response; raw SASL tokens after SaslHandshake 0
have no Kafka header and answer each other in order, but the last one of GSSAPI gets no answer; a response may be
captured shortly before its request, and then waits for it in `FIRST_EARLY`.

Kafka 0.7 has no correlation ids: all are taken as 0, so that a response belongs to the first request that waits. There
a response never waits for its request (it would take the place of the next one's), and whoever loses the place in
either direction forgets which requests wait (`forget_order`). Its Produce and MultiProduce get no response at all.
"""

import numpy as np

from kdissect.jit.decorators import jit_inner
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.integers import int16_at, int32_at
from kdissect.streams.flow_state import (
    AHEAD,
    ANSWERED,
    API_KEY,
    API_VERSION,
    BEFORE_VERSIONS,
    BYTE_PACKET,
    CLIENT_WAY,
    CONNECTION,
    CORRELATION_ID,
    EARLY_COUNT,
    EXCHANGE_COUNT,
    EXCHANGE_FIELDS,
    FIRST_BYTE_NS,
    FIRST_EARLY,
    FIRST_WAITING,
    FREE_WAITING,
    FREE_WAITING_COUNT,
    HEAD,
    HELD,
    IN_FLIGHT,
    KAFKA_0_7,
    LAST_WAITING,
    NEXT_ORDINAL,
    NEXT_WAITING,
    NO_ANSWER,
    NO_RESPONSE_EXPECTED,
    ORDINAL,
    ORPHAN_RESPONSE,
    ORPHANS,
    PROTOCOL,
    RAW_SASL,
    REQUEST_SIDE,
    REQUESTS,
    RESPONSE_SIDE,
    RESPONSES,
    SASL_TOKEN,
    SIDE_FIELDS,
    START,
    STATUS,
    STEPPED_NS,
    STOP,
    TIME,
    UNANSWERED,
    WAITING_COUNT,
    WAITING_FIELDS,
    Int64s,
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
    node = state.counters[FREE_WAITING]
    state.counters[FREE_WAITING] = state.waiting[node, NEXT_WAITING]
    state.counters[FREE_WAITING_COUNT] -= 1
    state.counters[HELD] += WAITING_BYTES
    for column in range(WAITING_FIELDS):
        state.waiting[node, column] = 0
    state.waiting[node, NEXT_WAITING] = -1
    return node


@jit_inner
def _set_side(state: State, node: int, first: int, side: Int64s) -> None:
    for column in range(SIDE_FIELDS):
        state.waiting[node, first + column] = side[column]
    state.counters[HELD] += side[STOP] - side[START]


@jit_inner
def _free_waiting(state: State, node: int) -> int:
    following = state.waiting[node, NEXT_WAITING]
    for side in (REQUEST_SIDE, RESPONSE_SIDE):
        state.counters[HELD] -= state.waiting[node, side + STOP] - state.waiting[node, side + START]
    state.counters[HELD] -= WAITING_BYTES
    state.waiting[node, NEXT_WAITING] = state.counters[FREE_WAITING]
    state.counters[FREE_WAITING] = node
    state.counters[FREE_WAITING_COUNT] += 1
    return following


@jit_inner
def _finish(state: State, node: int, status: int) -> None:
    """Turn a waiting row into a finished exchange."""
    row = state.counters[EXCHANGE_COUNT]
    for column in range(EXCHANGE_FIELDS):
        state.exchanges[row, column] = state.waiting[node, column]
    state.exchanges[row, STATUS] = status
    state.counters[EXCHANGE_COUNT] += 1


@jit_inner
def _drop_first_waiting(state: State, connection: int) -> None:
    connections = state.connections
    connections[connection, FIRST_WAITING] = _free_waiting(state, connections[connection, FIRST_WAITING])
    connections[connection, WAITING_COUNT] -= 1
    if connections[connection, FIRST_WAITING] < 0:
        connections[connection, LAST_WAITING] = -1


@jit_inner
def _give_up_first_waiting(state: State, connection: int) -> None:
    node = state.connections[connection, FIRST_WAITING]
    if state.waiting[node, STATUS] == SASL_TOKEN:
        _finish(state, node, SASL_TOKEN)
    else:
        _finish(state, node, NO_ANSWER)
        state.connections[connection, UNANSWERED] += 1
    _drop_first_waiting(state, connection)


@jit_inner
def _give_up_first_early(state: State, connection: int) -> None:
    connections = state.connections
    _finish(state, connections[connection, FIRST_EARLY], ORPHAN_RESPONSE)
    connections[connection, FIRST_EARLY] = _free_waiting(state, connections[connection, FIRST_EARLY])
    connections[connection, EARLY_COUNT] -= 1
    connections[connection, ORPHANS] += 1


@jit_inner
def rows_needed(state: State, connection: int) -> int:
    """Give an upper bound of the finished exchanges that the next frame of this connection may bring."""
    connections = state.connections
    return connections[connection, WAITING_COUNT] + connections[connection, EARLY_COUNT] + 2


@jit_inner
def _is_too_early(state: State, connection: int, node: int, request_ns: int) -> bool:
    """Say whether an early response was captured too long before a request to be its answer."""
    age = request_ns - state.waiting[node, RESPONSE_SIDE + FIRST_BYTE_NS]
    return bool(age > EARLY_NS + state.connections[connection, STEPPED_NS])


@jit_inner
def _take_early(state: State, connection: int, correlation_id: int, request_ns: int) -> int:
    """Take the early response with this correlation id out of its list; give its node, -1 when there is none.

    Those that are too old for any request still to come are orphans. While more of the client's bytes are there, behind a
    packet that was captured late, requests among them may be older than this one.
    """
    connections = state.connections
    ways = state.ways
    client = 2 * connection + connections[connection, CLIENT_WAY]
    if ways[client, HEAD] < 0 and ways[client, AHEAD] < 0:
        while connections[connection, FIRST_EARLY] >= 0 and _is_too_early(
            state, connection, connections[connection, FIRST_EARLY], request_ns
        ):
            _give_up_first_early(state, connection)
    before = -1
    node = connections[connection, FIRST_EARLY]
    while node >= 0 and (
        state.waiting[node, CORRELATION_ID] != correlation_id
        or _is_too_early(state, connection, node, request_ns)
    ):
        before = node
        node = state.waiting[node, NEXT_WAITING]
    if node >= 0:
        following = state.waiting[node, NEXT_WAITING]
        if before < 0:
            connections[connection, FIRST_EARLY] = following
        else:
            state.waiting[before, NEXT_WAITING] = following
        connections[connection, EARLY_COUNT] -= 1
    return node


@jit_inner
def _gets_no_response(state: State, node: int) -> bool:
    key = state.waiting[node, API_KEY]
    version = state.waiting[node, API_VERSION]
    if version == BEFORE_VERSIONS:
        return bool(key == ApiKey.PRODUCE or key == MULTI_PRODUCE)
    start = state.waiting[node, REQUEST_SIDE + START]
    stop = state.waiting[node, REQUEST_SIDE + STOP]
    return bool(key == ApiKey.PRODUCE and produce_acks(state.arena, start, stop, version) == 0)


@jit_inner
def on_request(state: State, connection: int, side: Int64s) -> None:
    """Take in one request frame; `side` holds the SIDE columns of its bytes, at least 8 of them (2 in Kafka 0.7)."""
    connections = state.connections
    start = side[START]
    node = _new_waiting(state)
    waiting = state.waiting
    _set_side(state, node, REQUEST_SIDE, side)
    waiting[node, CONNECTION] = connection
    waiting[node, ORDINAL] = connections[connection, NEXT_ORDINAL]
    waiting[node, API_KEY] = int16_at(state.arena, start)
    if connections[connection, PROTOCOL] == KAFKA_0_7:
        waiting[node, API_VERSION] = BEFORE_VERSIONS
    else:
        waiting[node, API_VERSION] = int16_at(state.arena, start + 2)
        waiting[node, CORRELATION_ID] = int32_at(state.arena, start + 4)
    waiting[node, IN_FLIGHT] = connections[connection, WAITING_COUNT] + 1
    connections[connection, NEXT_ORDINAL] += 1
    connections[connection, REQUESTS] += 1
    if _gets_no_response(state, node):
        _finish(state, node, NO_RESPONSE_EXPECTED)
        _free_waiting(state, node)
        return
    if waiting[node, API_KEY] == ApiKey.SASL_HANDSHAKE and waiting[node, API_VERSION] == 0:
        connections[connection, RAW_SASL] = 1
    if connections[connection, FIRST_EARLY] >= 0:
        early = _take_early(state, connection, waiting[node, CORRELATION_ID], side[FIRST_BYTE_NS])
        if early >= 0:
            for column in range(RESPONSE_SIDE, RESPONSE_SIDE + SIDE_FIELDS):
                waiting[node, column] = waiting[early, column]
            waiting[early, RESPONSE_SIDE + STOP] = waiting[
                early, RESPONSE_SIDE + START
            ]  # they are the other's now
            _free_waiting(state, early)
            _finish(state, node, ANSWERED)
            _free_waiting(state, node)
            return
    _wait(state, connection, node)


@jit_inner
def _wait(state: State, connection: int, node: int) -> None:
    connections = state.connections
    if connections[connection, WAITING_COUNT] >= MAX_WAITING:
        _give_up_first_waiting(state, connection)
    if connections[connection, LAST_WAITING] < 0:
        connections[connection, FIRST_WAITING] = node
    else:
        state.waiting[connections[connection, LAST_WAITING], NEXT_WAITING] = node
    connections[connection, LAST_WAITING] = node
    connections[connection, WAITING_COUNT] += 1


@jit_inner
def on_token(state: State, connection: int, side: Int64s) -> None:
    """Take in a client's raw SASL token: its answer is the next frame of the other direction."""
    node = _new_waiting(state)
    waiting = state.waiting
    _set_side(state, node, REQUEST_SIDE, side)
    waiting[node, CONNECTION] = connection
    waiting[node, STATUS] = SASL_TOKEN
    waiting[node, ORDINAL] = -1
    waiting[node, API_KEY] = -1
    waiting[node, API_VERSION] = -1
    _wait(state, connection, node)


@jit_inner
def expects_token(state: State, connection: int) -> bool:
    """Say whether the next frame from the server answers a raw SASL token."""
    node = state.connections[connection, FIRST_WAITING]
    return node >= 0 and state.waiting[node, STATUS] == SASL_TOKEN


@jit_inner
def _answers_token(state: State, connection: int, side: Int64s) -> bool:
    """Say whether a frame answers a raw token: then no request behind that has the id with which the frame begins.

    The last token of GSSAPI gets no answer, unlike those of all other mechanisms: the client goes on by itself.
    """
    if not expects_token(state, connection):
        return False
    if side[STOP] - side[START] < 4:
        return True
    correlation_id = int32_at(state.arena, side[START])
    node = state.connections[connection, FIRST_WAITING]
    while node >= 0 and (
        state.waiting[node, STATUS] == SASL_TOKEN or state.waiting[node, CORRELATION_ID] != correlation_id
    ):
        node = state.waiting[node, NEXT_WAITING]
    return bool(node < 0)


@jit_inner
def on_response(state: State, connection: int, side: Int64s) -> None:
    """Take in one response frame; `side` holds the SIDE columns of its bytes, at least 4 of them (2 in Kafka 0.7)."""
    connections = state.connections
    if _answers_token(state, connection, side):
        node = connections[connection, FIRST_WAITING]
        _set_side(state, node, RESPONSE_SIDE, side)
        _finish(state, node, SASL_TOKEN)
        _drop_first_waiting(state, connection)
        return
    connections[connection, RESPONSES] += 1
    in_order = connections[connection, PROTOCOL] == KAFKA_0_7
    correlation_id = np.int64(0) if in_order else int32_at(state.arena, side[START])
    node = connections[connection, FIRST_WAITING]
    if in_order and node >= 0 and side[FIRST_BYTE_NS] < state.waiting[node, REQUEST_SIDE + FIRST_BYTE_NS]:
        node = np.int64(-1)
    latest = side[FIRST_BYTE_NS] + EARLY_NS + connections[connection, STEPPED_NS]
    while node >= 0 and (
        state.waiting[node, CORRELATION_ID] != correlation_id
        or state.waiting[node, STATUS] == SASL_TOKEN
        or (
            state.waiting[node, REQUEST_SIDE + FIRST_BYTE_NS] > latest
            and state.waiting[node, REQUEST_SIDE + BYTE_PACKET] > side[BYTE_PACKET]
        )
    ):
        node = state.waiting[node, NEXT_WAITING]
    if node >= 0:
        while connections[connection, FIRST_WAITING] != node:
            _give_up_first_waiting(state, connection)
        _set_side(state, node, RESPONSE_SIDE, side)
        _finish(state, node, ANSWERED)
        _drop_first_waiting(state, connection)
        return
    _keep_early(state, connection, correlation_id, side)
    if in_order:
        _give_up_first_early(state, connection)


@jit_inner
def forget_order(state: State, way: int) -> None:
    """Bytes of a direction were lost; where order alone pairs, requests sent before it goes on may have had their answer."""
    connection = way // 2
    if state.connections[connection, PROTOCOL] != KAFKA_0_7:
        return
    following = state.ways[way, HEAD]
    node = state.connections[connection, FIRST_WAITING]
    while node >= 0 and (
        following < 0 or state.waiting[node, REQUEST_SIDE + FIRST_BYTE_NS] <= state.chunks[following, TIME]
    ):
        _give_up_first_waiting(state, connection)
        node = state.connections[connection, FIRST_WAITING]


@jit_inner
def _keep_early(state: State, connection: int, correlation_id: int, side: Int64s) -> None:
    connections = state.connections
    if connections[connection, EARLY_COUNT] >= MAX_EARLY:
        _give_up_first_early(state, connection)
    node = _new_waiting(state)
    waiting = state.waiting
    _set_side(state, node, RESPONSE_SIDE, side)
    waiting[node, CONNECTION] = connection
    waiting[node, ORDINAL] = -1
    waiting[node, API_KEY] = -1
    waiting[node, API_VERSION] = BEFORE_VERSIONS if connections[connection, PROTOCOL] == KAFKA_0_7 else -1
    waiting[node, CORRELATION_ID] = correlation_id
    last = connections[connection, FIRST_EARLY]
    if last < 0:
        connections[connection, FIRST_EARLY] = node
    else:
        while state.waiting[last, NEXT_WAITING] >= 0:
            last = state.waiting[last, NEXT_WAITING]
        state.waiting[last, NEXT_WAITING] = node
    connections[connection, EARLY_COUNT] += 1


@jit_inner
def give_up_waiting(state: State, connection: int) -> None:
    """Nothing that waits gets an answer any more."""
    while state.connections[connection, FIRST_WAITING] >= 0:
        _give_up_first_waiting(state, connection)


@jit_inner
def shorten_waiting(state: State, connection: int, most: int) -> None:
    """Keep the first bytes of every request that waits."""
    node = state.connections[connection, FIRST_WAITING]
    while node >= 0:
        over = state.waiting[node, REQUEST_SIDE + STOP] - state.waiting[node, REQUEST_SIDE + START] - most
        if over > 0:
            state.waiting[node, REQUEST_SIDE + STOP] -= over
            state.counters[HELD] -= over
        node = state.waiting[node, NEXT_WAITING]


@jit_inner
def give_up_all(state: State, connection: int) -> None:
    """The connection is over: what still waits gets no answer, what came early has no request."""
    give_up_waiting(state, connection)
    while state.connections[connection, FIRST_EARLY] >= 0:
        _give_up_first_early(state, connection)
