"""Which protocol a connection speaks: Kafka, Kafka 0.7, TLS or another, by its first bytes.

`recognise` asks `_detect` for a verdict, which is one of `Verdict` and changes neither protocol nor client,
and `_apply` acts on it. A verdict rests on one kind of evidence each: two records of TLS, a request of Kafka
0.7, the header of a first request, or a GSSAPI token. If the first bytes decide nothing, the stream is
searched for a request. `recognise_lone` decides about a direction whose other one was not captured, and
`forget_what_cannot_be_kafka` gives up a connection in which no frame was found for long.
"""

from enum import IntEnum

from kdissect.jit.decorators import jit_inner, jit_thin
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.integers import int16_at, int32_at
from kdissect.streams.chunks import skip, view
from kdissect.streams.flow_state import (
    KAFKA,
    KAFKA_0_7,
    NOT_ENDING,
    OTHER,
    TLS,
    State,
    other_direction,
)
from kdissect.streams.frame_search import MAX_HELD, find_chain, find_request, search_anew
from kdissect.streams.framing import TOKEN_LIMIT
from kdissect.streams.kafka07_framing import find_old_request
from kdissect.streams.lone_chain import chain_needs, follow_chain
from kdissect.streams.request_header import (
    HEADER_VIEW,
    KEY_AT,
    LENGTH_BYTES,
    MAX_FRAME,
    NOTHING,
    PLAIN_BODY,
    PLAIN_ID,
    SHORTEST_REQUEST,
    SHORTEST_SURE,
    UNSURE,
    YES,
    header_evidence,
)
from kdissect.streams.request_search import LONE_REQUEST
from kdissect.streams.tls.record_layer import RECORD_VIEW, is_tls_record, record_bytes

# Without a single frame in so many bytes, a connection seen from its start is not Kafka; one seen from its
# middle, or whose start the capture lost, may be inside one huge frame and gets longer.
NOT_KAFKA_AFTER = 1 << 20
NOT_KAFKA_AFTER_MIDSTREAM = 64 << 20
GSSAPI_TAG = 0x60  # the first byte of a token (RFC 2743, section 3.1)


class Verdict(IntEnum):
    """Verdict of the first bytes of a direction on its connection."""

    WAIT = 0  # more bytes must come
    SEARCH = 1  # they are no request; one may follow
    FOREIGN = 2  # the same of a connection whose first bytes were captured
    KAFKA = 3
    KAFKA_0_7 = 4
    RAW_SASL = 5  # Kafka 0.9, which began with GSSAPI tokens without any handshake before them
    TLS = 6


@jit_thin
def recognise(state: State, connection: int, direction: int) -> None:
    """Decide from the first bytes of a direction which protocol is spoken, and who is the client."""
    verdict = _detect(state, connection, direction)
    if verdict != Verdict.WAIT:
        _apply(state, connection, direction, verdict)


@jit_inner
def _detect(state: State, connection: int, direction: int) -> int:
    """Return the verdict on a direction that begins with bytes, not with a gap."""
    row = state.directions[direction]
    offset, length = view(state, direction, row.frame, RECORD_VIEW)
    if length == 0:
        return Verdict.WAIT
    if is_tls_record(state.arena, offset, length):
        return Verdict.TLS if _is_second_record(state, direction, offset) else Verdict.WAIT
    client = state.connections[connection].client_side
    if client >= 0 and client != direction - 2 * connection:
        return Verdict.WAIT
    old = find_old_request(state, direction, state.max_versions)
    if old == UNSURE and state.connections[connection].ending == NOT_ENDING:
        return Verdict.WAIT
    if old == YES:
        return Verdict.KAFKA_0_7
    if row.from_start and row.frame == 0:
        return _detect_first_request(state, connection, direction)
    return Verdict.SEARCH


@jit_inner
def _is_second_record(state: State, direction: int, offset: int) -> bool:
    """Return whether the bytes behind the record of TLS at an offset are another one, or not there yet."""
    following = state.directions[direction].frame + record_bytes(state.arena, offset)
    offset, length = view(state, direction, following, RECORD_VIEW)
    return length < RECORD_VIEW or is_tls_record(state.arena, offset, length)


@jit_inner
def _detect_first_request(state: State, connection: int, direction: int) -> int:
    """Return the verdict on the very first bytes of a stream."""
    row = state.directions[direction]
    # The search before has used the scratch that the header may lie in.
    offset, length = view(state, direction, row.frame, HEADER_VIEW)
    evidence = NOTHING
    if length >= SHORTEST_SURE:
        evidence = header_evidence(state.arena, offset, length, state.max_versions)
    produces = int16_at(state.arena, offset + KEY_AT) == ApiKey.PRODUCE
    if evidence != NOTHING and not (produces and evidence == PLAIN_BODY):
        short = row.frame + LENGTH_BYTES + int32_at(state.arena, offset) - row.next
        to_come = state.connections[connection].ending == NOT_ENDING
        if short > 0 and to_come and row.next - row.frame <= LONE_REQUEST:
            # The first request is small: it will soon be whole, what only looks like one hardly ever.
            return Verdict.WAIT
        if short > 0 and evidence < PLAIN_ID:
            evidence = NOTHING
    if evidence != NOTHING:
        return Verdict.KAFKA
    if _is_gssapi_token(state, offset, length):
        return Verdict.RAW_SASL
    if length >= SHORTEST_SURE:
        # A SYN-ACK alone would not tell where the data of its SYN began.
        return Verdict.FOREIGN if state.connections[connection].opened_by >= 0 else Verdict.SEARCH
    plausible = length < LENGTH_BYTES or SHORTEST_REQUEST <= int32_at(state.arena, offset) <= MAX_FRAME
    return Verdict.WAIT if row.next == row.frame + length and plausible else Verdict.SEARCH


@jit_inner
def _is_gssapi_token(state: State, offset: int, length: int) -> bool:
    """Return whether bytes begin with the length of a SASL token and the tag of GSSAPI."""
    if length <= LENGTH_BYTES or state.arena[offset + LENGTH_BYTES] != GSSAPI_TAG:
        return False
    return 0 < int32_at(state.arena, offset) < TOKEN_LIMIT


@jit_thin
def _apply(state: State, connection: int, direction: int, verdict: int) -> None:
    """Change the connection and its directions as a verdict says."""
    row = state.directions[direction]
    other_row = state.directions[other_direction(direction)]
    facts = state.connections[connection]
    if verdict == Verdict.TLS:
        facts.protocol = TLS
        row.scanned.position = row.frame  # of TLS: what has been looked at
        other_row.scanned.position = other_row.frame
        return
    if verdict == Verdict.KAFKA or verdict == Verdict.RAW_SASL:
        row.in_step = 1
    if verdict == Verdict.RAW_SASL:
        facts.raw_sasl = 1
    if verdict == Verdict.FOREIGN:
        row.foreign = 1
    if row.in_step == 0 and not find_request(state, connection, direction):
        return
    facts.protocol = KAFKA_0_7 if verdict == Verdict.KAFKA_0_7 else KAFKA
    facts.client_side = direction - 2 * connection
    search_anew(state, other_direction(direction))  # it was searched for requests so far
    if other_row.from_start and other_row.frame == 0:
        other_row.in_step = 1


@jit_inner
def recognise_lone(state: State, connection: int, direction: int) -> bool:
    """Return whether a direction holds responses, if the other one was not captured.

    Many captures have one route only.
    """
    connections = state.connections
    other = other_direction(direction)
    if (
        state.directions[other].highest != 0
        or connections[connection].client_side == direction - 2 * connection
    ):
        state.directions[direction].chain.frames = 0  # nothing follows it, so it shall keep no bytes
        return False
    if not find_chain(state, direction) and not follow_chain(state, direction):
        return False
    connections[connection].protocol = KAFKA
    connections[connection].client_side = other - 2 * connection
    return True


@jit_inner
def forget_what_cannot_be_kafka(state: State, connection: int, direction: int) -> None:
    """Bound what is kept of a connection in which no frame was found so far."""
    row = state.directions[direction]
    connections = state.connections
    if row.next - row.frame > MAX_HELD:
        if recognise_lone(state, connection, direction):
            return
        useless = max(row.scanned.position, row.next - LONE_REQUEST - HEADER_VIEW)
        skip(state, direction, min(useless, chain_needs(row)))
    limit = NOT_KAFKA_AFTER
    is_lone = state.directions[other_direction(direction)].highest == 0
    if connections[connection].handshake == 0 or is_lone or _lost_requests(state, connection, direction):
        limit = NOT_KAFKA_AFTER_MIDSTREAM
    if row.skipped_bytes - row.skipped_before > limit:
        connections[connection].protocol = OTHER


@jit_inner
def _lost_requests(state: State, connection: int, direction: int) -> bool:
    """Return whether the capture may lack the first requests of a connection whose handshake it has.

    Lost bytes of either direction hide a request or its response. A client that begins with foreign bytes
    does not send one.
    """
    row = state.directions[direction]
    client = direction
    if state.connections[connection].client_side == other_direction(direction) - 2 * connection:
        client = other_direction(direction)
    client_row = state.directions[client]
    return bool(client_row.foreign == 0 and (row.lost_bytes > 0 or client_row.lost_bytes > 0))
