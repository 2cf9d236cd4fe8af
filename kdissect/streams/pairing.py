"""Pairing: which response belongs to which request of one connection.

A broker answers the requests of a connection one after the other, in the order in which they came (protocol
guide, "Network"). So the requests that wait form a queue. A response belongs to the first one with its
correlation id, and those before that one will never be answered. The rule also holds for clients that use an
id again, or use one id always.

Three kinds of frames are exceptions:

- A Produce with acks=0 gets no response.
- Raw SASL tokens after SaslHandshake 0 have no Kafka header. They answer each other in order, but the last
  token of GSSAPI gets no answer.
- A response may be captured shortly before its request. It then waits for the request in `first_early`.

Kafka 0.7 has rules of its own: see `kafka07_pairing`.
"""

from kdissect.jit.decorators import jit_inline, jit_inner
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.integers import int16_at, int32_at
from kdissect.streams.flow_state import (
    ANSWERED,
    NO_RESPONSE_EXPECTED,
    SASL_TOKEN,
    ExchangeRow,
    FrameRow,
    State,
)
from kdissect.streams.request_header import (
    CORRELATION_AT,
    HEADER_VIEW,
    KEY_AT,
    LENGTH_BYTES,
    VERSION_AT,
    acks_at,
    produce_acks,
)
from kdissect.streams.unread_payload import look_at
from kdissect.streams.waiting_queue import (
    EARLY_NS,
    NOT_KNOWN,
    drop_first_waiting,
    finish_exchange,
    free_waiting,
    give_up_first_early,
    give_up_first_waiting,
    new_waiting,
    set_request,
    set_response,
    wait_for_request,
    wait_for_response,
)

KEY_IN_FRAME, VERSION_IN_FRAME = KEY_AT - LENGTH_BYTES, VERSION_AT - LENGTH_BYTES
CORRELATION_IN_FRAME = CORRELATION_AT - LENGTH_BYTES


@jit_inner
def on_request(state: State, connection: int, frame: FrameRow) -> None:
    """Pair one request; `frame` has its key, version and correlation id at least (8 bytes)."""
    row = state.connections[connection]
    node = new_waiting(state)
    request = state.waiting[node]
    count_request(state, connection, node, frame)
    request.api_version = int16_at(state.arena, frame.start + VERSION_IN_FRAME)
    request.correlation_id = int32_at(state.arena, frame.start + CORRELATION_IN_FRAME)
    produces = request.api_key == ApiKey.PRODUCE
    if produces and _acks(state, frame, request.api_version) == 0:
        finish_exchange(state, node, NO_RESPONSE_EXPECTED)
        free_waiting(state, node)
        return
    if request.api_key == ApiKey.SASL_HANDSHAKE and request.api_version == 0:
        row.raw_sasl = 1
    if row.first_early >= 0:
        early = _take_early(state, connection, request.correlation_id, frame.first_byte_ns)
        if early >= 0:
            response = state.waiting[early].response
            request.response = response
            response.stop = response.start  # its bytes are counted with the request from now on
            free_waiting(state, early)
            finish_exchange(state, node, ANSWERED)
            free_waiting(state, node)
            return
    wait_for_response(state, connection, node)


@jit_inline
def _acks(state: State, frame: FrameRow, version: int) -> int:
    """Return what `produce_acks` does, of a frame whose first bytes showed that it is one."""
    viewed = min(frame.stop, frame.start + HEADER_VIEW - LENGTH_BYTES)
    if acks_at(state.arena, frame.start, viewed, version) < 0:
        look_at(state, frame.start, frame.stop)
    return produce_acks(state.arena, frame.start, frame.stop, version)


@jit_inline
def count_request(state: State, connection: int, node: int, frame: FrameRow) -> None:
    """Fill a node with what all requests have, and count the request in its connection."""
    row = state.connections[connection]
    request = state.waiting[node]
    set_request(state, node, frame)
    request.connection = connection
    request.ordinal = row.next_ordinal
    request.api_key = int16_at(state.arena, frame.start + KEY_IN_FRAME)
    request.in_flight = row.waiting_count + 1
    row.next_ordinal += 1
    row.requests += 1


@jit_inner
def _take_early(state: State, connection: int, correlation_id: int, request_ns: int) -> int:
    """Remove the early response with this correlation id from its list; return its node, -1 without one.

    Responses that are too old for any request still to come are orphans. Nothing is too old while more bytes
    of the client are there, behind a packet that was captured late: older requests may be among them.
    """
    connections = state.connections
    directions = state.directions
    client = 2 * connection + connections[connection].client_side
    if directions[client].head < 0 and directions[client].ahead < 0:
        while connections[connection].first_early >= 0 and _is_too_early(
            state, connection, connections[connection].first_early, request_ns
        ):
            give_up_first_early(state, connection)
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
def _is_too_early(state: State, connection: int, node: int, request_ns: int) -> bool:
    """Return whether an early response was captured too long before a request to be its answer."""
    age = request_ns - state.waiting[node].response.first_byte_ns
    return bool(age > EARLY_NS + state.connections[connection].clock_stepped_ns)


@jit_inner
def on_token(state: State, connection: int, frame: FrameRow) -> None:
    """Have a client's raw SASL token wait; its answer is the next frame of the other direction."""
    look_at(state, frame.start, frame.stop)
    node = new_waiting(state)
    token = state.waiting[node]
    set_request(state, node, frame)
    token.connection = connection
    token.status = SASL_TOKEN
    token.ordinal = NOT_KNOWN
    token.api_key = NOT_KNOWN
    token.api_version = NOT_KNOWN
    wait_for_response(state, connection, node)


@jit_inner
def expects_token(state: State, connection: int) -> bool:
    """Return whether the next frame from the server answers a raw SASL token."""
    node = state.connections[connection].first_waiting
    return node >= 0 and state.waiting[node].status == SASL_TOKEN


@jit_inner
def _answers_token(state: State, connection: int, frame: FrameRow) -> bool:
    """Return whether a frame answers a raw token.

    It does if a token is the first to wait and no request behind it has the id with which the frame begins.
    The second condition is for GSSAPI: its last token gets no answer, unlike those of all other mechanisms.
    """
    if not expects_token(state, connection):
        return False
    if frame.stop - frame.start < LENGTH_BYTES:
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
    """Pair one response; `frame` has its correlation id at least (4 bytes), unless it answers a token."""
    row = state.connections[connection]
    if _answers_token(state, connection, frame):
        look_at(state, frame.start, frame.stop)
        node = row.first_waiting
        set_response(state, node, frame)
        finish_exchange(state, node, SASL_TOKEN)
        drop_first_waiting(state, connection)
        return
    row.responses += 1
    correlation_id = int32_at(state.arena, frame.start)
    latest = frame.first_byte_ns + EARLY_NS + row.clock_stepped_ns
    node = row.first_waiting
    while node >= 0 and not _belongs_to(state.waiting[node], correlation_id, latest, frame):
        node = state.waiting[node].next
    if node < 0:
        wait_for_request(state, connection, correlation_id, NOT_KNOWN, frame)
        return
    while row.first_waiting != node:
        give_up_first_waiting(state, connection)
    answer_first_waiting(state, connection, frame)


@jit_inline
def _belongs_to(request: ExchangeRow, correlation_id: int, latest: int, frame: FrameRow) -> bool:
    """Return whether a response with this id belongs to a request, which began by the time `latest`."""
    if request.correlation_id != correlation_id or request.status == SASL_TOKEN:
        return False
    return request.request.first_byte_ns <= latest or request.request.packet <= frame.packet


@jit_inline
def answer_first_waiting(state: State, connection: int, frame: FrameRow) -> None:
    """Finish the oldest request that waits with its response."""
    node = state.connections[connection].first_waiting
    set_response(state, node, frame)
    finish_exchange(state, node, ANSWERED)
    drop_first_waiting(state, connection)
