"""The loop of pass two: one segment after another through reassembly, framing and pairing.

`advance` is the only place that knows the order of things: a segment is received, holes are settled, then every complete
frame that has become available is taken off the stream and paired. It stops when a pool is full and says which; the
caller makes room and calls again with the number of the next segment. `finish` ends connections, or has them give up
what they wait for. `carry_over` moves what is not consumed to the front of a new arena, so that the bytes of a slab can be let go.
"""

import numpy as np

from kdissect.capture.segment_index import (
    ACK,
    CAPTURED,
    FLAG_ACK,
    FLAG_B_TO_A,
    FLAG_BARE_ACK,
    FLAG_FIN,
    FLAG_RST,
    FLAG_SYN,
    FLAGS,
    MISSING,
    SEQ,
)
from kdissect.capture.segment_index import PACKET as SEGMENT_PACKET
from kdissect.capture.segment_index import TIME as SEGMENT_TIME
from kdissect.jit.decorators import (
    copy_bytes,
    jit_flat,
    jit_inner,
    prefetch,
)
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.integers import int16_at, int32_at
from kdissect.streams.flow_state import (
    ACK_NS,
    ACKED,
    AHEAD,
    ASSEMBLY,
    AT,
    BYTE_PACKET,
    CLIENT_WAY,
    CLOCK_NS,
    CONSUME,
    CONSUME_OTHER,
    DONE,
    ENDED,
    ENDING,
    EXCHANGE_COUNT,
    FIN_SEEN,
    FIRST_AGREED,
    FIRST_BYTE_NS,
    FIRST_EARLY,
    FIRST_SENT,
    FIRST_WAITING,
    FOREIGN,
    FRAME,
    FRAME_STOP,
    FREE_CHUNK_COUNT,
    FREE_WAITING_COUNT,
    FULL_ARENA,
    FULL_CHUNKS,
    FULL_EXCHANGES,
    FULL_WAITING,
    HANDSHAKE,
    HEAD,
    HELD,
    HIGH,
    KAFKA,
    KAFKA_0_7,
    LAST_BYTE_NS,
    LENGTH,
    MOST_HELD,
    NEXT,
    NEXT_CHUNK,
    NEXT_WAITING,
    OPEN,
    OPENED_BY,
    OTHER,
    OVERSIZED,
    PACKET,
    PORTS_REUSED,
    POSITION,
    PROTOCOL,
    RAW_SASL,
    RECOGNISED,
    REQUEST_SIDE,
    RESPONSE_SIDE,
    RST_SEEN,
    SCANNED,
    SCRATCH,
    SERVER_PORT_WAY,
    SKIPPED,
    SKIPPED_BEFORE,
    START,
    STEP,
    STOP,
    SYN_ACK_NS,
    SYN_NS,
    SYNCED,
    TAKE_IN,
    TIME,
    TLS,
    TLS_READY,
    TOO_MUCH_HELD,
    UNDECIDED,
    WHOLE,
    Bytes,
    Int64s,
    State,
)
from kdissect.streams.framing import (
    HEADER_VIEW,
    LONE_REQUEST,
    MAX_FRAME,
    MAX_HELD,
    PLAIN_BODY,
    PLAIN_ID,
    SHORTEST_REQUEST,
    SHORTEST_RESPONSE,
    UNSURE,
    YES,
    can_be_request,
    find_chain,
    find_request,
    find_response,
    header_evidence,
    is_tls_record,
    search_anew,
    tls_is_ready,
    waiting_request,
)
from kdissect.streams.kafka07_framing import (
    RESPONSE_VIEW,
    SHORTEST_OLD_REQUEST,
    SHORTEST_OLD_RESPONSE,
    can_be_old_request,
    find_old_request,
    find_old_response,
)
from kdissect.streams.pairing import (
    expects_token,
    forget_order,
    give_up_all,
    on_request,
    on_response,
    on_token,
    rows_needed,
    shorten_waiting,
)
from kdissect.streams.reassembly import (
    ACK_GRACE_NS,
    acknowledge,
    begin_at,
    chunks_needed,
    discard,
    give_up_hole,
    is_elsewhere,
    leave_gap,
    receive,
    set_clock_back,
    settle,
    skip,
    view,
)

# Without a single frame in so many bytes, a connection seen from its start is not Kafka; one seen from its middle may be
# inside one huge frame and gets longer.
NOT_KAFKA_AFTER = 1 << 20
NOT_KAFKA_AFTER_MIDSTREAM = 64 << 20
CLOCK_STEP_NS = ACK_GRACE_NS  # a direction that goes back in time by more was not captured out of order
TURNS = 6  # of both ends at the end: what is certain first, then what is likely, then the rest
FETCHED_AHEAD = 8  # segments: their bytes are on the way while those before are worked on
THE_END, HOLES, ALL_THAT_WAITS = range(3)  # what `finish` is to do
BEGINNING = 1 << 10  # bytes of a frame that are kept when the rest is let go: more than any header
TLS_VIEW = 6  # the header of a record, and the first byte in it
TOKEN_LIMIT = 1 << 20  # SASL tokens are small; a larger "token" is a lost place


@jit_inner
def _in_one_place(state: State, node: int, begin: int, end: int) -> tuple[int, int]:
    """Give up to which position, at most `end`, the stream lies in the arena without a break from `begin` in `node` on.

    And the time of the packet with the byte before that position.
    """
    at = state.chunks[node, AT] + begin - state.chunks[node, POSITION]
    position = begin
    time = np.int64(-1)
    while node >= 0 and position < end:
        chunks = state.chunks
        if (
            chunks[node, AT] < 0
            or chunks[node, AT] + position - chunks[node, POSITION] != at + position - begin
        ):
            break
        time = chunks[node, TIME]
        position = min(end, chunks[node, POSITION] + chunks[node, LENGTH])
        node = chunks[node, NEXT_CHUNK]
    return position, time  # type: ignore[return-value]


@jit_inner
def _take_frame(state: State, way: int, size: int, side: Int64s) -> bool:
    """Take the frame at FRAME, with a body of `size` bytes, off the stream; False when the arena has no room for it.

    Fills `side` (SIDE columns). A frame that lies in one place of the arena stays there, another is assembled; after a
    gap the rest of a frame is of no use, so STOP is where the first gap begins.
    """
    ways = state.ways
    arena = state.arena
    begin = ways[way, FRAME]
    end = min(begin + 4 + size, ways[way, NEXT])
    node = ways[way, HEAD]
    side[FIRST_BYTE_NS] = state.chunks[node, TIME]
    side[BYTE_PACKET] = state.chunks[node, PACKET]
    reaches, last_ns = _in_one_place(state, node, begin, end)
    if reaches == begin + 4 + size:
        side[START] = state.chunks[node, AT] + begin - state.chunks[node, POSITION] + 4
        side[STOP] = side[START] + size
        side[LAST_BYTE_NS] = last_ns
    else:
        at = state.counters[ASSEMBLY]
        if at + end - begin + SCRATCH > len(arena):
            return False
        contiguous = True
        last_ns = np.int64(-1)
        position = begin
        filled = at
        while node >= 0 and position < end:
            chunks = state.chunks
            inside = position - chunks[node, POSITION]
            take = min(end - position, chunks[node, LENGTH] - inside)
            contiguous = contiguous and chunks[node, AT] >= 0
            if contiguous:
                source = chunks[node, AT] + inside
                copy_bytes(arena, source, arena, filled, take)
                filled += take
            last_ns = chunks[node, TIME]
            position += take
            node = chunks[node, NEXT_CHUNK]
        side[START] = at + 4
        side[STOP] = max(filled, at + 4)
        side[LAST_BYTE_NS] = last_ns if end == begin + 4 + size else -1
        state.counters[ASSEMBLY] = filled
    side[FRAME_STOP] = side[START] + size
    discard(state, way, end)
    return True


@jit_inner
def _lose_place(state: State, way: int, bytes_on: int) -> None:
    """The stream is out of step: search for the next frame `bytes_on` bytes further on."""
    ways = state.ways
    ways[way, SYNCED] = 0
    forget_order(state, way)
    skip(state, way, min(ways[way, FRAME] + bytes_on, ways[way, NEXT]))


@jit_inner
def _drop_leading_gaps(state: State, way: int) -> None:
    """Leave gaps behind where a frame should begin."""
    ways = state.ways
    in_step = ways[way, SYNCED]
    while ways[way, HEAD] >= 0 and state.chunks[ways[way, HEAD], AT] < 0:
        ways[way, SYNCED] = 0
        gap = ways[way, HEAD]
        discard(state, way, state.chunks[gap, POSITION] + state.chunks[gap, LENGTH])
    if in_step and ways[way, SYNCED] == 0:
        forget_order(state, way)


@jit_inner
def _recognise(state: State, connection: int, way: int) -> None:
    """Decide from the first bytes of a direction whether this connection speaks Kafka, and who is the client."""
    connections = state.connections
    ways = state.ways
    _drop_leading_gaps(state, way)
    offset, length = view(state, way, ways[way, FRAME], TLS_VIEW)
    if length == 0:
        return
    if is_tls_record(state.arena, offset, length):
        record = 5 + ((np.int64(state.arena[offset + 3]) << 8) | np.int64(state.arena[offset + 4]))
        behind, more = view(state, way, ways[way, FRAME] + record, TLS_VIEW)
        if more < TLS_VIEW or is_tls_record(state.arena, behind, more):
            connections[connection, PROTOCOL] = TLS
            for side in range(2 * connection, 2 * connection + 2):
                ways[side, SCANNED] = ways[side, FRAME]  # of TLS: what has been looked at
            return
    client = connections[connection, CLIENT_WAY]
    if client >= 0 and client != way - 2 * connection:
        return
    protocol = KAFKA
    old = find_old_request(state, way, state.max_versions)
    if old == UNSURE:
        return
    if old == YES:
        protocol = KAFKA_0_7
    elif ways[way, WHOLE] and ways[way, FRAME] == 0:
        # The search before has used the scratch that the header may lie in.
        offset, length = view(state, way, ways[way, FRAME], HEADER_VIEW)
        evidence = header_evidence(state.arena, offset, length, state.max_versions) if length >= 14 else 0
        produces = int16_at(state.arena, offset + 4) == ApiKey.PRODUCE
        if evidence > 0 and not (produces and evidence == PLAIN_BODY):
            short = ways[way, FRAME] + 4 + int32_at(state.arena, offset) - ways[way, NEXT]
            to_come = connections[connection, ENDING] == 0
            if short > 0 and to_come and ways[way, NEXT] - ways[way, FRAME] <= LONE_REQUEST:
                return  # the first request is small: it will soon be whole, what only looks like one hardly ever
            evidence *= short <= 0 or evidence >= PLAIN_ID
        if evidence > 0:
            ways[way, SYNCED] = 1
        elif (
            length >= 5
            and 0 < int32_at(state.arena, offset) < TOKEN_LIMIT
            and state.arena[offset + 4] == 0x60
        ):
            # Kafka 0.9 sent GSSAPI tokens (RFC 2743, section 3.1: tag 0x60) without any handshake before them.
            ways[way, SYNCED] = 1
            connections[connection, RAW_SASL] = 1
        elif (
            length < 14
            and ways[way, NEXT] == ways[way, FRAME] + length
            and (length < 4 or 8 <= int32_at(state.arena, offset) <= MAX_FRAME)
        ):
            return
        elif length >= 14 and connections[connection, OPENED_BY] >= 0:
            ways[way, FOREIGN] = 1  # a SYN-ACK alone would not tell where the data of its SYN began
    if ways[way, SYNCED] == 0 and not find_request(state, connection, way):
        return
    connections[connection, PROTOCOL] = protocol
    connections[connection, CLIENT_WAY] = way - 2 * connection
    other = 4 * connection + 1 - way
    search_anew(state, other)  # it was searched for requests so far
    if ways[other, WHOLE] and ways[other, FRAME] == 0:
        ways[other, SYNCED] = 1


@jit_inner
def _recognise_lone(state: State, connection: int, way: int) -> bool:
    """Decide whether a direction without the other one holds responses: of many captures only one route is seen."""
    connections = state.connections
    other = 4 * connection + 1 - way
    if state.ways[other, HIGH] != 0 or connections[connection, CLIENT_WAY] == way - 2 * connection:
        return False
    if not find_chain(state, way):
        return False
    connections[connection, PROTOCOL] = KAFKA
    connections[connection, CLIENT_WAY] = other - 2 * connection
    return True


@jit_inner
def _forget_what_cannot_be_kafka(state: State, connection: int, way: int) -> None:
    """Bound what is kept of a connection in which no frame was found so far."""
    connections = state.connections
    ways = state.ways
    if ways[way, NEXT] - ways[way, FRAME] > MAX_HELD:
        if _recognise_lone(state, connection, way):
            return
        skip(state, way, max(ways[way, SCANNED], ways[way, NEXT] - LONE_REQUEST - HEADER_VIEW))
    limit = NOT_KAFKA_AFTER if connections[connection, HANDSHAKE] else NOT_KAFKA_AFTER_MIDSTREAM
    if ways[way, SKIPPED] - ways[way, SKIPPED_BEFORE] > limit:
        connections[connection, PROTOCOL] = OTHER


@jit_inner
def _is_kafka(protocol: int) -> bool:
    return bool(protocol == KAFKA or protocol == KAFKA_0_7)


@jit_inner
def _shortest(protocol: int, client: bool) -> int:
    """Give the size of the smallest frame that says what it is."""
    if protocol == KAFKA_0_7:
        return SHORTEST_OLD_REQUEST if client else SHORTEST_OLD_RESPONSE
    return SHORTEST_REQUEST if client else SHORTEST_RESPONSE


@jit_inner
def _is_searched(state: State, way: int) -> bool:
    """Say whether a direction holds bytes behind a hole, or some in which the next frame is still to be found."""
    ways = state.ways
    return bool(ways[way, AHEAD] >= 0 or (ways[way, SYNCED] == 0 and ways[way, HEAD] >= 0))


@jit_inner
def _waits_for_requests(state: State, connection: int, way: int) -> bool:
    """Say whether a search for responses waits for their requests, which tell where they begin; or without any, for more."""
    ways = state.ways
    other = 4 * connection + 1 - way
    is_lone = ways[other, HIGH] == 0 and state.connections[connection, ENDING] == 0
    return bool(is_lone or _is_searched(state, other))


@jit_inner
def _find_frame(state: State, connection: int, way: int, client: bool) -> bool:
    """Search a direction that is out of step; of what is not found, keep only what may be the start of a frame."""
    ways = state.ways
    held = ways[way, NEXT] - ways[way, FRAME]
    if ways[way, WHOLE] and ways[way, FRAME] == 0:
        ways[way, SYNCED] = 1  # it was not known before that this is the beginning
        return True
    if state.connections[connection, PROTOCOL] == KAFKA_0_7:
        keep = HEADER_VIEW if client else RESPONSE_VIEW
        if client:
            found = find_old_request(state, way, state.max_versions) == YES
        else:
            found = find_old_response(state, way)
        if not found and held > keep:
            skip(state, way, ways[way, NEXT] - keep)
    elif not client and held <= MAX_HELD and _waits_for_requests(state, connection, way):
        found = False
    else:
        found = find_request(state, connection, way) if client else find_response(state, connection, way)
        if not found:
            skip(state, way, ways[way, SCANNED])
    return bool(found)


@jit_inner
def _take_request(state: State, connection: int, way: int, side: Int64s) -> int:
    """Take one request off the stream; 1: taken or place lost, 0: nothing complete is there, -1: no room in the arena."""
    ways = state.ways
    offset, length = view(state, way, ways[way, FRAME], HEADER_VIEW)
    if length < 4:
        if ways[way, NEXT] - ways[way, FRAME] < 4:
            return 0
        _lose_place(state, way, length)
        return 1
    size = int32_at(state.arena, offset)
    raw = state.connections[connection, RAW_SASL] != 0
    token = raw and 0 <= size < TOKEN_LIMIT
    protocol = state.connections[connection, PROTOCOL]
    shortest = _shortest(protocol, True)
    if not token and (size < shortest or size > MAX_FRAME):
        ways[way, OVERSIZED] += size > MAX_FRAME
        _lose_place(state, way, 1)
        return 1
    if protocol == KAFKA_0_7:
        if length >= 6 and not can_be_old_request(state.arena, offset):
            _lose_place(state, way, 1)
            return 1
    elif length >= min(4 + size, 14) and size >= SHORTEST_REQUEST:
        if raw and header_evidence(state.arena, offset, length, state.max_versions) == 0:
            pass
        elif can_be_request(state.arena, offset, min(length, 4 + size)):
            token = False
            if raw and ways[way, NEXT] - ways[way, FRAME] >= 4 + size and not _is_handshake(state, offset):
                state.connections[connection, RAW_SASL] = 0
        elif not token:
            _lose_place(state, way, 1)
            return 1
    if ways[way, NEXT] - ways[way, FRAME] < 4 + size:
        return 0
    if not _take_frame(state, way, size, side):
        return -1
    if token:
        on_token(state, connection, side)
    elif side[STOP] - side[START] >= shortest:
        on_request(state, connection, side)
    return 1


@jit_inner
def _is_handshake(state: State, offset: int) -> bool:
    return bool(state.arena[offset + 4] == 0 and state.arena[offset + 5] == 17)


@jit_inner
def _take_response(state: State, connection: int, way: int, side: Int64s) -> int:
    """Take one response off the stream; the result is as in `_take_request`."""
    ways = state.ways
    offset, length = view(state, way, ways[way, FRAME], 8)
    if length < 4:
        if ways[way, NEXT] - ways[way, FRAME] < 4:
            return 0
        _lose_place(state, way, length)
        return 1
    size = int32_at(state.arena, offset)
    shortest = _shortest(state.connections[connection, PROTOCOL], False)
    if expects_token(state, connection):
        shortest = 0
    if size < shortest or size > MAX_FRAME:
        ways[way, OVERSIZED] += size > MAX_FRAME
        _lose_place(state, way, 1)
        return 1
    if length == 8 and shortest == SHORTEST_RESPONSE:
        correlation_id = int32_at(state.arena, offset + 4)
        if correlation_id < 0 and waiting_request(state, connection, correlation_id) < 0:
            _lose_place(state, way, 1)  # clients count from 0
            return 1
    if ways[way, NEXT] - ways[way, FRAME] < 4 + size:
        return 0
    if not _take_frame(state, way, size, side):
        return -1
    if side[STOP] - side[START] >= shortest:
        on_response(state, connection, side)
    return 1


@jit_inner
def _consume(state: State, connection: int, way: int, side: Int64s) -> int:
    """Take all frames off one direction that are complete by now."""
    connections = state.connections
    ways = state.ways
    while ways[way, HEAD] >= 0:
        if not _is_kafka(connections[connection, PROTOCOL]):
            if connections[connection, PROTOCOL] == UNDECIDED:
                _recognise(state, connection, way)
            if connections[connection, PROTOCOL] == UNDECIDED:
                _forget_what_cannot_be_kafka(state, connection, way)
            if connections[connection, PROTOCOL] == TLS:
                return TLS_READY if tls_is_ready(state, way) else DONE
            if not _is_kafka(connections[connection, PROTOCOL]):
                if connections[connection, PROTOCOL] != UNDECIDED:
                    skip(state, way, ways[way, NEXT])
                return DONE
        client = way - 2 * connection == connections[connection, CLIENT_WAY]
        if state.counters[EXCHANGE_COUNT] + rows_needed(state, connection) > len(state.exchanges):
            return FULL_EXCHANGES
        if state.counters[FREE_WAITING_COUNT] < 2:
            return FULL_WAITING
        _drop_leading_gaps(state, way)
        if ways[way, HEAD] < 0:
            return DONE
        if ways[way, SYNCED] == 0 and not _find_frame(state, connection, way, client):
            return DONE
        taken = (
            _take_request(state, connection, way, side)
            if client
            else _take_response(state, connection, way, side)
        )
        if taken < 0:
            return FULL_ARENA
        if taken == 0:
            return DONE
    return DONE


@jit_inner
def _consume_both(state: State, connection: int, way: int, side: Int64s) -> int:
    """Take frames off the direction that just grew, and off the other one if it was only now recognised."""
    counters = state.counters
    undecided = state.connections[connection, PROTOCOL] == UNDECIDED
    code = _consume(state, connection, way, side)
    if undecided and state.connections[connection, PROTOCOL] != UNDECIDED:
        counters[RECOGNISED] = 1
    if code == DONE and counters[RECOGNISED]:
        code = _consume(state, connection, 4 * connection + 1 - way, side)
        if code == DONE:
            counters[RECOGNISED] = 0
    return code


@jit_inner
def _note_flags(
    state: State, connection: int, way: int, flags: int, time: int, sequence: int, ack: int
) -> None:
    """Follow the opening and the closing of a connection (RFC 9293, section 3.5)."""
    connections = state.connections
    side = way - 2 * connection
    if flags & FLAG_SYN:
        begin_at(state, way, (sequence + 1) & 0xFFFFFFFF, False)
        connections[connection, HANDSHAKE] = 1
        if flags & FLAG_ACK:
            begin_at(state, 4 * connection + 1 - way, ack, True)
            if connections[connection, SYN_ACK_NS] == 0:
                connections[connection, SYN_ACK_NS] = time
            connections[connection, CLIENT_WAY] = 1 - side
        else:
            if connections[connection, SYN_ACK_NS] == 0:
                connections[connection, SYN_NS] = time
            connections[connection, OPENED_BY] = side << 32 | sequence
            connections[connection, CLIENT_WAY] = side
    elif (
        flags & FLAG_ACK
        and connections[connection, SYN_ACK_NS] != 0
        and connections[connection, ACK_NS] == 0
        and side == connections[connection, CLIENT_WAY]
    ):
        connections[connection, ACK_NS] = time
    if connections[connection, ENDED] == OPEN:
        if flags & FLAG_RST:
            connections[connection, ENDED] = RST_SEEN
        elif flags & FLAG_FIN:
            connections[connection, ENDED] = FIN_SEEN


@jit_flat
def advance(
    state: State, segments: Int64s, connection_of: Int64s, at_of: Int64s, first: int
) -> tuple[int, int]:
    """Process segments[:, first:] in order; give (what is full or DONE, number of the next segment to process).

    `segments` has the columns of `pieces`, whose flags get those of `receive`, `connection_of` the row of each segment's
    connection and `at_of` where its payload lies in the arena. A segment at which a pool was full may be in part processed: STEP says what is still to be done,
    so the next call goes on in the same order as if there had been room. TLS_READY says of the segment's connection that
    the caller must take its records of TLS first, PORTS_REUSED that it is over and its row is to begin anew.
    """
    side = state.side
    counters = state.counters
    count = segments.shape[1]
    for index in range(first, count):
        prefetch(state.arena, at_of[min(index + FETCHED_AHEAD, count - 1)])
        connection = connection_of[index]
        flags = segments[FLAGS, index]
        way = 2 * connection + (1 if flags & FLAG_B_TO_A else 0)
        other = 4 * connection + 1 - way
        time = segments[SEGMENT_TIME, index]
        if counters[STEP] == TAKE_IN:
            if counters[HELD] > counters[MOST_HELD]:
                return TOO_MUCH_HELD, index
            if counters[FREE_CHUNK_COUNT] < chunks_needed(state, way) + chunks_needed(state, other):
                return FULL_CHUNKS, index
            sequence = segments[SEQ, index]
            begins = (sequence + 1) & 0xFFFFFFFF if flags & FLAG_SYN else sequence
            length = segments[CAPTURED, index] + segments[MISSING, index]
            talks = (length > 0 or flags & FLAG_SYN) and flags & (FLAG_ACK | FLAG_RST) == FLAG_ACK
            if talks and is_elsewhere(state, way, other, begins, segments[ACK, index]):
                return PORTS_REUSED, index
            if talks and state.ways[other, FIRST_AGREED] < 0:
                state.ways[other, FIRST_AGREED] = segments[ACK, index]
            if (
                flags & (FLAG_SYN | FLAG_FIN | FLAG_RST | FLAG_BARE_ACK)
                or state.connections[connection, ACK_NS] == 0
            ):
                _note_flags(state, connection, way, flags, time, sequence, segments[ACK, index])
            if flags & FLAG_BARE_ACK:
                continue  # described for the handshake alone, once in every split: nothing else may hang on it
            if state.ways[way, CLOCK_NS] - time > CLOCK_STEP_NS:
                latest = max(state.ways[way, CLOCK_NS], state.ways[other, CLOCK_NS])
                set_clock_back(state, connection, way, latest - time)
            state.ways[way, CLOCK_NS] = time
            if length > 0 and not flags & FLAG_RST:
                if state.ways[way, FIRST_SENT] < 0:
                    state.ways[way, FIRST_SENT] = begins
                if flags & FLAG_ACK:
                    state.ways[way, ACKED] = segments[ACK, index]
                segments[FLAGS, index] |= receive(
                    state,
                    way,
                    time,
                    segments[SEGMENT_PACKET, index],
                    at_of[index],
                    segments[CAPTURED, index],
                    segments[MISSING, index],
                    begins,
                )
            counters[STEP] = CONSUME
            if state.ways[other, AHEAD] >= 0:
                if flags & FLAG_ACK:
                    acknowledge(state, other, segments[ACK, index], time)
                if settle(state, other, time):
                    counters[STEP] = CONSUME_OTHER
        if counters[STEP] == CONSUME_OTHER:
            code = _consume_both(state, connection, other, side)
            if code != DONE:
                return code, index
            counters[STEP] = CONSUME
        if state.ways[way, AHEAD] >= 0:
            settle(state, way, time)
        code = _consume_both(state, connection, way, side)
        if code != DONE:
            return code, index
        counters[STEP] = TAKE_IN
    return DONE, count


@jit_inner
def _take_rest(state: State, connection: int, way: int, side: Int64s) -> int:
    """Take the last frame of a direction, which the capture has only the beginning of."""
    connections = state.connections
    ways = state.ways
    client = way - 2 * connection == connections[connection, CLIENT_WAY]
    if (
        _is_kafka(connections[connection, PROTOCOL])
        and ways[way, SYNCED]
        and ways[way, HEAD] >= 0
        and not connections[connection, RAW_SASL]
    ):
        offset, length = view(state, way, ways[way, FRAME], HEADER_VIEW)
        if length >= 4 + _shortest(connections[connection, PROTOCOL], client):
            if state.counters[EXCHANGE_COUNT] + rows_needed(state, connection) > len(state.exchanges):
                return FULL_EXCHANGES
            if state.counters[FREE_WAITING_COUNT] < 2:
                return FULL_WAITING
            if not _take_frame(state, way, int32_at(state.arena, offset), side):
                return FULL_ARENA
            if client:
                on_request(state, connection, side)
            else:
                on_response(state, connection, side)
    skip(state, way, ways[way, NEXT])
    return DONE


@jit_inner
def _give_up_rest(state: State, way: int) -> None:
    """Keep only the beginning of a frame, which has what pairs it; of records of TLS, and where no frame was found, nothing."""
    protocol = state.connections[way // 2, PROTOCOL]
    if protocol == TLS:
        leave_gap(state, way, 0)
        search_anew(state, way)
    elif _is_kafka(protocol) and state.ways[way, SYNCED]:
        leave_gap(state, way, BEGINNING)
        search_anew(state, way)
    else:
        skip(state, way, state.ways[way, NEXT])


@jit_flat
def finish(state: State, connections: Int64s, how: int) -> tuple[int, int]:
    """End connections (THE_END): give up holes, take what is left, and close the books.

    Or let them go on with less: without what waits behind holes (HOLES), or without anything that waits (ALL_THAT_WAITS).
    The result is as in `advance`, but for the number: it is that of the connection to go on with.
    """
    side = state.side
    for index in range(len(connections)):
        connection = connections[index]
        # The client's direction comes first: the server's last frames may answer requests that only now complete.
        client = state.connections[connection, CLIENT_WAY]
        if client < 0:
            client = state.connections[connection, SERVER_PORT_WAY]
        for turn in range(TURNS if how == THE_END else 2):
            way = 2 * connection + (client if turn % 2 == 0 else 1 - client)
            if how == THE_END:
                state.connections[connection, ENDING] = 1 if turn < 2 else 2
            elif how == ALL_THAT_WAITS:  # what is there must say what this connection is
                state.connections[connection, ENDING] = state.connections[connection, PROTOCOL] == UNDECIDED
            if state.counters[FREE_CHUNK_COUNT] < chunks_needed(state, way):
                return FULL_CHUNKS, index
            while state.ways[way, AHEAD] >= 0:
                give_up_hole(state, way)
            undecided = (
                how == THE_END and turn < TURNS - 2 and state.connections[connection, PROTOCOL] == UNDECIDED
            )
            if undecided and not _recognise_lone(state, connection, way) and turn >= 2:
                search_anew(state, way)
            code = _consume_both(state, connection, way, side)
            if code == DONE and turn >= TURNS - 2:
                code = _take_rest(state, connection, way, side)
            if code != DONE:
                return code, index
            if how == ALL_THAT_WAITS:
                _give_up_rest(state, way)
        if how != THE_END:
            state.connections[connection, ENDING] = 0
        if how == HOLES:
            continue
        if how == ALL_THAT_WAITS and state.connections[connection, PROTOCOL] == KAFKA_0_7:
            shorten_waiting(state, connection, BEGINNING)  # the order of what waits is all that pairs
            continue
        if state.counters[EXCHANGE_COUNT] + rows_needed(state, connection) > len(state.exchanges):
            return FULL_EXCHANGES, index
        give_up_all(state, connection)
    return DONE, len(connections)


@jit_inner
def _carried_chunks(state: State, node: int, arena: Bytes, at: int, copy: bool) -> int:
    while node >= 0:
        chunks = state.chunks
        if chunks[node, AT] >= 0:
            if copy:
                copy_bytes(state.arena, chunks[node, AT], arena, at, chunks[node, LENGTH])
                chunks[node, AT] = at
            at += chunks[node, LENGTH]
        node = chunks[node, NEXT_CHUNK]
    return at


@jit_inner
def _carried_side(state: State, node: int, column: int, arena: Bytes, at: int, copy: bool) -> int:
    waiting = state.waiting
    while node >= 0:
        start = waiting[node, column + START]
        length = waiting[node, column + STOP] - start
        if copy:
            copy_bytes(state.arena, start, arena, at, length)
            waiting[node, column + START] = at
            waiting[node, column + STOP] = at + length
            waiting[node, column + FRAME_STOP] += at - start
        at += length
        node = waiting[node, NEXT_WAITING]
    return at


@jit_flat
def carry_over(state: State, count: int, arena: Bytes, copy: bool) -> int:
    """Give how many bytes of the arena are still needed by the first `count` connections; with `copy`, move them.

    They go to the front of `arena`, a new one, and everything that points to them is changed to point there. Its first
    byte stays unused: a side of an exchange that starts at 0 is not there.
    """
    at = 1
    for connection in range(count):
        for way in range(2 * connection, 2 * connection + 2):
            at = _carried_chunks(state, state.ways[way, HEAD], arena, at, copy)
            at = _carried_chunks(state, state.ways[way, AHEAD], arena, at, copy)
        connections = state.connections
        at = _carried_side(state, connections[connection, FIRST_WAITING], REQUEST_SIDE, arena, at, copy)
        at = _carried_side(state, connections[connection, FIRST_EARLY], RESPONSE_SIDE, arena, at, copy)
    return at
