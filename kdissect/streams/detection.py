"""Which protocol a connection speaks: Kafka, Kafka 0.7, TLS or another, by its first bytes.

`recognise` asks `_detect` for a verdict, which is one of `Verdict` and changes neither protocol nor client,
and `_apply` acts on it. A verdict rests on one kind of evidence each: two records of TLS, a request of Kafka
0.7, the header of a first request, or a GSSAPI token. Where the first bytes tell nothing, the stream is
searched for a request. `recognise_lone` decides about a direction whose other one was not captured, and
`forget_what_cannot_be_kafka` gives up a connection in which no frame was found for long.
"""

from enum import IntEnum

from kdissect.jit.decorators import jit_inner
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.integers import int16_at, int32_at
from kdissect.streams.flow_state import KAFKA, KAFKA_0_7, OTHER, TLS, Bytes, State, other_direction
from kdissect.streams.framing import (
    HEADER_VIEW,
    LONE_REQUEST,
    MAX_FRAME,
    MAX_HELD,
    PLAIN_BODY,
    PLAIN_ID,
    SHORTEST_REQUEST,
    SHORTEST_SURE,
    UNSURE,
    YES,
    find_chain,
    find_request,
    header_evidence,
    search_anew,
)
from kdissect.streams.kafka07_framing import find_old_request
from kdissect.streams.reassembly import skip, view

# Without a single frame in so many bytes, a connection seen from its start is not Kafka; one seen from its
# middle may be inside one huge frame and gets longer.
NOT_KAFKA_AFTER = 1 << 20
NOT_KAFKA_AFTER_MIDSTREAM = 64 << 20
TLS_VIEW = 6  # bytes: the header of a record, and the first byte in it
RECORD_HEADER = 5  # bytes: type, version, length
LARGEST_RECORD = (1 << 14) + 2048  # bytes (RFC 5246, section 6.2.3); TLS 1.3 allows less
TOKEN_LIMIT = 1 << 20  # SASL tokens are small; a larger "token" is a lost place
GSSAPI_TAG = 0x60  # the first byte of a token (RFC 2743, section 3.1)


class Verdict(IntEnum):
    """What the first bytes of a direction say of its connection."""

    WAIT = 0  # more bytes must come
    SEARCH = 1  # they are no request; one may follow
    FOREIGN = 2  # the same of a connection whose first bytes were captured
    KAFKA = 3
    KAFKA_0_7 = 4
    RAW_SASL = 5  # Kafka 0.9, which began with GSSAPI tokens without any handshake before them
    TLS = 6


@jit_inner
def recognise(state: State, connection: int, direction: int) -> None:
    """Decide from the first bytes of a direction which protocol is spoken, and who is the client."""
    verdict = _detect(state, connection, direction)
    if verdict != Verdict.WAIT:
        _apply(state, connection, direction, verdict)


@jit_inner
def _detect(state: State, connection: int, direction: int) -> int:
    """Return the verdict on a direction that begins with bytes, not with a gap."""
    row = state.directions[direction]
    offset, length = view(state, direction, row.frame, TLS_VIEW)
    if length == 0:
        return Verdict.WAIT
    if is_tls_record(state.arena, offset, length):
        return Verdict.TLS if _is_second_record(state, direction, offset) else Verdict.WAIT
    client = state.connections[connection].client_side
    if client >= 0 and client != direction - 2 * connection:
        return Verdict.WAIT
    old = find_old_request(state, direction, state.max_versions)
    if old == UNSURE:
        return Verdict.WAIT
    if old == YES:
        return Verdict.KAFKA_0_7
    if row.from_start and row.frame == 0:
        return _detect_first_request(state, connection, direction)
    return Verdict.SEARCH


@jit_inner
def _is_second_record(state: State, direction: int, offset: int) -> bool:
    """Return whether the bytes behind the record of TLS at an offset are another one, or not there yet."""
    size = RECORD_HEADER + ((int(state.arena[offset + 3]) << 8) | int(state.arena[offset + 4]))
    offset, length = view(state, direction, state.directions[direction].frame + size, TLS_VIEW)
    return length < TLS_VIEW or is_tls_record(state.arena, offset, length)


@jit_inner
def _detect_first_request(state: State, connection: int, direction: int) -> int:
    """Return the verdict on the very first bytes of a stream."""
    row = state.directions[direction]
    # The search before has used the scratch that the header may lie in.
    offset, length = view(state, direction, row.frame, HEADER_VIEW)
    evidence = 0
    if length >= SHORTEST_SURE:
        evidence = header_evidence(state.arena, offset, length, state.max_versions)
    produces = int16_at(state.arena, offset + 4) == ApiKey.PRODUCE
    if evidence > 0 and not (produces and evidence == PLAIN_BODY):
        short = row.frame + 4 + int32_at(state.arena, offset) - row.next
        to_come = state.connections[connection].ending == 0
        if short > 0 and to_come and row.next - row.frame <= LONE_REQUEST:
            # The first request is small: it will soon be whole, what only looks like one hardly ever.
            return Verdict.WAIT
        if short > 0 and evidence < PLAIN_ID:
            evidence = 0
    if evidence > 0:
        return Verdict.KAFKA
    if _is_gssapi_token(state, offset, length):
        return Verdict.RAW_SASL
    if length >= SHORTEST_SURE:
        # A SYN-ACK alone would not tell where the data of its SYN began.
        return Verdict.FOREIGN if state.connections[connection].opened_by >= 0 else Verdict.SEARCH
    plausible = length < 4 or SHORTEST_REQUEST <= int32_at(state.arena, offset) <= MAX_FRAME
    return Verdict.WAIT if row.next == row.frame + length and plausible else Verdict.SEARCH


@jit_inner
def _is_gssapi_token(state: State, offset: int, length: int) -> bool:
    """Return whether bytes begin with the length of a SASL token and the tag of GSSAPI."""
    if length < 5 or state.arena[offset + 4] != GSSAPI_TAG:
        return False
    return 0 < int32_at(state.arena, offset) < TOKEN_LIMIT


@jit_inner
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
    """Decide whether a direction without the other one holds responses.

    Of many captures only one route is seen.
    """
    connections = state.connections
    other = other_direction(direction)
    if (
        state.directions[other].highest != 0
        or connections[connection].client_side == direction - 2 * connection
    ):
        return False
    if not find_chain(state, direction):
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
        skip(
            state,
            direction,
            max(
                row.scanned.position,
                row.next - LONE_REQUEST - HEADER_VIEW,
            ),
        )
    limit = NOT_KAFKA_AFTER if connections[connection].handshake else NOT_KAFKA_AFTER_MIDSTREAM
    if row.skipped_bytes - row.skipped_before > limit:
        connections[connection].protocol = OTHER


@jit_inner
def is_tls_record(data: Bytes, offset: int, length: int) -> bool:
    """Return whether bytes look like a TLS record header (RFC 8446, section 5.1).

    Type, version 3.x, length up to 2^14 + 2048.
    """
    if length < TLS_VIEW:
        return False
    if data[offset] < 20 or data[offset] > 23 or data[offset + 1] != 3 or data[offset + 2] > 4:
        return False
    size = (int(data[offset + 3]) << 8) | int(data[offset + 4])
    if size == 0 or size > LARGEST_RECORD:
        return False
    return bool(data[offset] != 22 or data[offset + 5] <= 24)


@jit_inner
def tls_is_ready(state: State, direction: int) -> bool:
    """Return whether a direction under TLS has got a whole record, a gap, or bytes that are no record."""
    row = state.directions[direction]
    node = row.head
    if node < 0 or row.next <= row.scanned.position:
        return False
    offset, length = view(state, direction, row.frame, RECORD_HEADER)
    if length < RECORD_HEADER:
        return bool(state.chunks[node].offset < 0 or row.next - row.frame >= RECORD_HEADER)
    arena = state.arena
    size = (int(arena[offset + 3]) << 8) | int(arena[offset + 4])
    if arena[offset] < 20 or arena[offset] > 23 or arena[offset + 1] != 3 or size > LARGEST_RECORD:
        return True
    return bool(row.next - row.frame >= RECORD_HEADER + size)
