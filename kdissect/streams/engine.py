"""The loop of pass two: one segment after another through reassembly, framing and pairing.

`advance` is the only place that knows the order of things: a segment is received, holes are settled, then every complete
frame that has become available is taken off the stream and paired. It stops when a pool is full and says which; the
caller makes room and calls again with the number of the next segment. `finish` ends connections, or has them give up
what they wait for. `carry_over` moves what is not consumed to the front of a new arena, so that the bytes of a slab can be let go.
"""

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
    CONSUME,
    CONSUME_OTHER,
    DONE,
    FIN_SEEN,
    FULL_ARENA,
    FULL_CHUNKS,
    FULL_EXCHANGES,
    FULL_WAITING,
    KAFKA,
    KAFKA_0_7,
    OPEN,
    OTHER,
    PORTS_REUSED,
    RST_SEEN,
    SCRATCH,
    TAKE_IN,
    TLS,
    TLS_READY,
    TOO_MUCH_HELD,
    UNDECIDED,
    Bytes,
    FrameRow,
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
    at = state.chunks[node].offset + begin - state.chunks[node].position
    position = begin
    time = -1
    while node >= 0 and position < end:
        chunks = state.chunks
        if (
            chunks[node].offset < 0
            or chunks[node].offset + position - chunks[node].position != at + position - begin
        ):
            break
        time = chunks[node].time_ns
        position = min(end, chunks[node].position + chunks[node].length)
        node = chunks[node].next
    return position, time


@jit_inner
def _take_frame(state: State, way: int, size: int, frame: FrameRow) -> bool:
    """Take the frame at FRAME, with a body of `size` bytes, off the stream; False when the arena has no room for it.

    Fills `side` (SIDE columns). A frame that lies in one place of the arena stays there, another is assembled; after a
    gap the rest of a frame is of no use, so STOP is where the first gap begins.
    """
    directions = state.directions
    arena = state.arena
    begin = directions[way].frame
    end = min(begin + 4 + size, directions[way].next)
    node = directions[way].head
    frame.first_byte_ns = state.chunks[node].time_ns
    frame.packet = state.chunks[node].packet
    reaches, last_ns = _in_one_place(state, node, begin, end)
    if reaches == begin + 4 + size:
        frame.start = state.chunks[node].offset + begin - state.chunks[node].position + 4
        frame.stop = frame.start + size
        frame.last_byte_ns = last_ns
    else:
        at = state.counters.assembly
        if at + end - begin + SCRATCH > len(arena):
            return False
        contiguous = True
        last_ns = -1
        position = begin
        filled = at
        while node >= 0 and position < end:
            chunks = state.chunks
            inside = position - chunks[node].position
            take = min(end - position, chunks[node].length - inside)
            contiguous = contiguous and chunks[node].offset >= 0
            if contiguous:
                source = chunks[node].offset + inside
                copy_bytes(arena, source, arena, filled, take)
                filled += take
            last_ns = chunks[node].time_ns
            position += take
            node = chunks[node].next
        frame.start = at + 4
        frame.stop = max(filled, at + 4)
        frame.last_byte_ns = last_ns if end == begin + 4 + size else -1
        state.counters.assembly = filled
    frame.frame_stop = frame.start + size
    discard(state, way, end)
    return True


@jit_inner
def _lose_place(state: State, way: int, bytes_on: int) -> None:
    """The stream is out of step: search for the next frame `bytes_on` bytes further on."""
    directions = state.directions
    directions[way].in_step = 0
    forget_order(state, way)
    skip(state, way, min(directions[way].frame + bytes_on, directions[way].next))


@jit_inner
def _drop_leading_gaps(state: State, way: int) -> None:
    """Leave gaps behind where a frame should begin."""
    directions = state.directions
    in_step = directions[way].in_step
    while directions[way].head >= 0 and state.chunks[directions[way].head].offset < 0:
        directions[way].in_step = 0
        gap = directions[way].head
        discard(state, way, state.chunks[gap].position + state.chunks[gap].length)
    if in_step and directions[way].in_step == 0:
        forget_order(state, way)


@jit_inner
def _recognise(state: State, connection: int, way: int) -> None:
    """Decide from the first bytes of a direction whether this connection speaks Kafka, and who is the client."""
    connections = state.connections
    directions = state.directions
    _drop_leading_gaps(state, way)
    offset, length = view(state, way, directions[way].frame, TLS_VIEW)
    if length == 0:
        return
    if is_tls_record(state.arena, offset, length):
        record = 5 + ((int(state.arena[offset + 3]) << 8) | int(state.arena[offset + 4]))
        behind, more = view(state, way, directions[way].frame + record, TLS_VIEW)
        if more < TLS_VIEW or is_tls_record(state.arena, behind, more):
            connections[connection].protocol = TLS
            for side in range(2 * connection, 2 * connection + 2):
                directions[side].scanned.position = directions[side].frame  # of TLS: what has been looked at
            return
    client = connections[connection].client_side
    if client >= 0 and client != way - 2 * connection:
        return
    protocol = KAFKA
    old = find_old_request(state, way, state.max_versions)
    if old == UNSURE:
        return
    if old == YES:
        protocol = KAFKA_0_7
    elif directions[way].from_start and directions[way].frame == 0:
        # The search before has used the scratch that the header may lie in.
        offset, length = view(state, way, directions[way].frame, HEADER_VIEW)
        evidence = header_evidence(state.arena, offset, length, state.max_versions) if length >= 14 else 0
        produces = int16_at(state.arena, offset + 4) == ApiKey.PRODUCE
        if evidence > 0 and not (produces and evidence == PLAIN_BODY):
            short = directions[way].frame + 4 + int32_at(state.arena, offset) - directions[way].next
            to_come = connections[connection].ending == 0
            if short > 0 and to_come and directions[way].next - directions[way].frame <= LONE_REQUEST:
                return  # the first request is small: it will soon be whole, what only looks like one hardly ever
            evidence *= short <= 0 or evidence >= PLAIN_ID
        if evidence > 0:
            directions[way].in_step = 1
        elif (
            length >= 5
            and 0 < int32_at(state.arena, offset) < TOKEN_LIMIT
            and state.arena[offset + 4] == 0x60
        ):
            # Kafka 0.9 sent GSSAPI tokens (RFC 2743, section 3.1: tag 0x60) without any handshake before them.
            directions[way].in_step = 1
            connections[connection].raw_sasl = 1
        elif (
            length < 14
            and directions[way].next == directions[way].frame + length
            and (length < 4 or 8 <= int32_at(state.arena, offset) <= MAX_FRAME)
        ):
            return
        elif length >= 14 and connections[connection].opened_by >= 0:
            directions[way].foreign = 1  # a SYN-ACK alone would not tell where the data of its SYN began
    if directions[way].in_step == 0 and not find_request(state, connection, way):
        return
    connections[connection].protocol = protocol
    connections[connection].client_side = way - 2 * connection
    other = 4 * connection + 1 - way
    search_anew(state, other)  # it was searched for requests so far
    if directions[other].from_start and directions[other].frame == 0:
        directions[other].in_step = 1


@jit_inner
def _recognise_lone(state: State, connection: int, way: int) -> bool:
    """Decide whether a direction without the other one holds responses: of many captures only one route is seen."""
    connections = state.connections
    other = 4 * connection + 1 - way
    if state.directions[other].highest != 0 or connections[connection].client_side == way - 2 * connection:
        return False
    if not find_chain(state, way):
        return False
    connections[connection].protocol = KAFKA
    connections[connection].client_side = other - 2 * connection
    return True


@jit_inner
def _forget_what_cannot_be_kafka(state: State, connection: int, way: int) -> None:
    """Bound what is kept of a connection in which no frame was found so far."""
    connections = state.connections
    directions = state.directions
    if directions[way].next - directions[way].frame > MAX_HELD:
        if _recognise_lone(state, connection, way):
            return
        skip(
            state,
            way,
            max(directions[way].scanned.position, directions[way].next - LONE_REQUEST - HEADER_VIEW),
        )
    limit = NOT_KAFKA_AFTER if connections[connection].handshake else NOT_KAFKA_AFTER_MIDSTREAM
    if directions[way].skipped_bytes - directions[way].skipped_before > limit:
        connections[connection].protocol = OTHER


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
    directions = state.directions
    return bool(directions[way].ahead >= 0 or (directions[way].in_step == 0 and directions[way].head >= 0))


@jit_inner
def _waits_for_requests(state: State, connection: int, way: int) -> bool:
    """Say whether a search for responses waits for their requests, which tell where they begin; or without any, for more."""
    directions = state.directions
    other = 4 * connection + 1 - way
    is_lone = directions[other].highest == 0 and state.connections[connection].ending == 0
    return bool(is_lone or _is_searched(state, other))


@jit_inner
def _find_frame(state: State, connection: int, way: int, client: bool) -> bool:
    """Search a direction that is out of step; of what is not found, keep only what may be the start of a frame."""
    directions = state.directions
    held = directions[way].next - directions[way].frame
    if directions[way].from_start and directions[way].frame == 0:
        directions[way].in_step = 1  # it was not known before that this is the beginning
        return True
    if state.connections[connection].protocol == KAFKA_0_7:
        keep = HEADER_VIEW if client else RESPONSE_VIEW
        if client:
            found = find_old_request(state, way, state.max_versions) == YES
        else:
            found = find_old_response(state, way)
        if not found and held > keep:
            skip(state, way, directions[way].next - keep)
    elif not client and held <= MAX_HELD and _waits_for_requests(state, connection, way):
        found = False
    else:
        found = find_request(state, connection, way) if client else find_response(state, connection, way)
        if not found:
            skip(state, way, directions[way].scanned.position)
    return bool(found)


@jit_inner
def _take_request(state: State, connection: int, way: int, frame: FrameRow) -> int:
    """Take one request off the stream; 1: taken or place lost, 0: nothing complete is there, -1: no room in the arena."""
    directions = state.directions
    offset, length = view(state, way, directions[way].frame, HEADER_VIEW)
    if length < 4:
        if directions[way].next - directions[way].frame < 4:
            return 0
        _lose_place(state, way, length)
        return 1
    size = int32_at(state.arena, offset)
    raw = state.connections[connection].raw_sasl != 0
    token = raw and 0 <= size < TOKEN_LIMIT
    protocol = state.connections[connection].protocol
    shortest = _shortest(protocol, True)
    if not token and (size < shortest or size > MAX_FRAME):
        directions[way].oversized_frames += size > MAX_FRAME
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
            if (
                raw
                and directions[way].next - directions[way].frame >= 4 + size
                and not _is_handshake(state, offset)
            ):
                state.connections[connection].raw_sasl = 0
        elif not token:
            _lose_place(state, way, 1)
            return 1
    if directions[way].next - directions[way].frame < 4 + size:
        return 0
    if not _take_frame(state, way, size, frame):
        return -1
    if token:
        on_token(state, connection, frame)
    elif frame.stop - frame.start >= shortest:
        on_request(state, connection, frame)
    return 1


@jit_inner
def _is_handshake(state: State, offset: int) -> bool:
    return bool(state.arena[offset + 4] == 0 and state.arena[offset + 5] == 17)


@jit_inner
def _take_response(state: State, connection: int, way: int, frame: FrameRow) -> int:
    """Take one response off the stream; the result is as in `_take_request`."""
    directions = state.directions
    offset, length = view(state, way, directions[way].frame, 8)
    if length < 4:
        if directions[way].next - directions[way].frame < 4:
            return 0
        _lose_place(state, way, length)
        return 1
    size = int32_at(state.arena, offset)
    shortest = _shortest(state.connections[connection].protocol, False)
    if expects_token(state, connection):
        shortest = 0
    if size < shortest or size > MAX_FRAME:
        directions[way].oversized_frames += size > MAX_FRAME
        _lose_place(state, way, 1)
        return 1
    if length == 8 and shortest == SHORTEST_RESPONSE:
        correlation_id = int32_at(state.arena, offset + 4)
        if correlation_id < 0 and waiting_request(state, connection, correlation_id) < 0:
            _lose_place(state, way, 1)  # clients count from 0
            return 1
    if directions[way].next - directions[way].frame < 4 + size:
        return 0
    if not _take_frame(state, way, size, frame):
        return -1
    if frame.stop - frame.start >= shortest:
        on_response(state, connection, frame)
    return 1


@jit_inner
def _consume(state: State, connection: int, way: int, frame: FrameRow) -> int:
    """Take all frames off one direction that are complete by now."""
    connections = state.connections
    directions = state.directions
    while directions[way].head >= 0:
        if not _is_kafka(connections[connection].protocol):
            if connections[connection].protocol == UNDECIDED:
                _recognise(state, connection, way)
            if connections[connection].protocol == UNDECIDED:
                _forget_what_cannot_be_kafka(state, connection, way)
            if connections[connection].protocol == TLS:
                return TLS_READY if tls_is_ready(state, way) else DONE
            if not _is_kafka(connections[connection].protocol):
                if connections[connection].protocol != UNDECIDED:
                    skip(state, way, directions[way].next)
                return DONE
        client = way - 2 * connection == connections[connection].client_side
        if state.counters.exchange_count + rows_needed(state, connection) > len(state.exchanges):
            return FULL_EXCHANGES
        if state.counters.free_waiting_count < 2:
            return FULL_WAITING
        _drop_leading_gaps(state, way)
        if directions[way].head < 0:
            return DONE
        if directions[way].in_step == 0 and not _find_frame(state, connection, way, client):
            return DONE
        taken = (
            _take_request(state, connection, way, frame)
            if client
            else _take_response(state, connection, way, frame)
        )
        if taken < 0:
            return FULL_ARENA
        if taken == 0:
            return DONE
    return DONE


@jit_inner
def _consume_both(state: State, connection: int, way: int, frame: FrameRow) -> int:
    """Take frames off the direction that just grew, and off the other one if it was only now recognised."""
    counters = state.counters
    undecided = state.connections[connection].protocol == UNDECIDED
    code = _consume(state, connection, way, frame)
    if undecided and state.connections[connection].protocol != UNDECIDED:
        counters.recognised = 1
    if code == DONE and counters.recognised:
        code = _consume(state, connection, 4 * connection + 1 - way, frame)
        if code == DONE:
            counters.recognised = 0
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
        connections[connection].handshake = 1
        if flags & FLAG_ACK:
            begin_at(state, 4 * connection + 1 - way, ack, True)
            if connections[connection].syn_ack_ns == 0:
                connections[connection].syn_ack_ns = time
            connections[connection].client_side = 1 - side
        else:
            if connections[connection].syn_ack_ns == 0:
                connections[connection].syn_ns = time
            connections[connection].opened_by = side << 32 | sequence
            connections[connection].client_side = side
    elif (
        flags & FLAG_ACK
        and connections[connection].syn_ack_ns != 0
        and connections[connection].ack_ns == 0
        and side == connections[connection].client_side
    ):
        connections[connection].ack_ns = time
    if connections[connection].ended == OPEN:
        if flags & FLAG_RST:
            connections[connection].ended = RST_SEEN
        elif flags & FLAG_FIN:
            connections[connection].ended = FIN_SEEN


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
    frame = state.frame
    counters = state.counters
    count = segments.shape[1]
    for index in range(first, count):
        prefetch(state.arena, at_of[min(index + FETCHED_AHEAD, count - 1)])
        connection = int(connection_of[index])
        flags = int(segments[FLAGS, index])
        way = 2 * connection + (1 if flags & FLAG_B_TO_A else 0)
        other = 4 * connection + 1 - way
        time = int(segments[SEGMENT_TIME, index])
        if counters.step == TAKE_IN:
            if counters.held > counters.most_held:
                return TOO_MUCH_HELD, index
            if counters.free_chunk_count < chunks_needed(state, way) + chunks_needed(state, other):
                return FULL_CHUNKS, index
            sequence = int(segments[SEQ, index])
            acknowledgment = int(segments[ACK, index])
            begins = (sequence + 1) & 0xFFFFFFFF if flags & FLAG_SYN else sequence
            captured = int(segments[CAPTURED, index])
            missing = int(segments[MISSING, index])
            length = captured + missing
            talks = (length > 0 or flags & FLAG_SYN) and flags & (FLAG_ACK | FLAG_RST) == FLAG_ACK
            if talks and is_elsewhere(state, way, other, begins, acknowledgment):
                return PORTS_REUSED, index
            if talks and state.directions[other].first_expected < 0:
                state.directions[other].first_expected = acknowledgment
            if (
                flags & (FLAG_SYN | FLAG_FIN | FLAG_RST | FLAG_BARE_ACK)
                or state.connections[connection].ack_ns == 0
            ):
                _note_flags(state, connection, way, flags, time, sequence, acknowledgment)
            if flags & FLAG_BARE_ACK:
                continue  # described for the handshake alone, once in every split: nothing else may hang on it
            if state.directions[way].clock_ns - time > CLOCK_STEP_NS:
                latest = max(state.directions[way].clock_ns, state.directions[other].clock_ns)
                set_clock_back(state, connection, way, latest - time)
            state.directions[way].clock_ns = time
            if length > 0 and not flags & FLAG_RST:
                if state.directions[way].first_sent < 0:
                    state.directions[way].first_sent = begins
                if flags & FLAG_ACK:
                    state.directions[way].acked = acknowledgment
                segments[FLAGS, index] |= receive(
                    state,
                    way,
                    time,
                    int(segments[SEGMENT_PACKET, index]),
                    int(at_of[index]),
                    captured,
                    missing,
                    begins,
                )
            counters.step = CONSUME
            if state.directions[other].ahead >= 0:
                if flags & FLAG_ACK:
                    acknowledge(state, other, acknowledgment, time)
                if settle(state, other, time):
                    counters.step = CONSUME_OTHER
        if counters.step == CONSUME_OTHER:
            code = _consume_both(state, connection, other, frame)
            if code != DONE:
                return code, index
            counters.step = CONSUME
        if state.directions[way].ahead >= 0:
            settle(state, way, time)
        code = _consume_both(state, connection, way, frame)
        if code != DONE:
            return code, index
        counters.step = TAKE_IN
    return DONE, count


@jit_inner
def _take_rest(state: State, connection: int, way: int, frame: FrameRow) -> int:
    """Take the last frame of a direction, which the capture has only the beginning of."""
    connections = state.connections
    directions = state.directions
    client = way - 2 * connection == connections[connection].client_side
    if (
        _is_kafka(connections[connection].protocol)
        and directions[way].in_step
        and directions[way].head >= 0
        and not connections[connection].raw_sasl
    ):
        offset, length = view(state, way, directions[way].frame, HEADER_VIEW)
        if length >= 4 + _shortest(connections[connection].protocol, client):
            if state.counters.exchange_count + rows_needed(state, connection) > len(state.exchanges):
                return FULL_EXCHANGES
            if state.counters.free_waiting_count < 2:
                return FULL_WAITING
            if not _take_frame(state, way, int32_at(state.arena, offset), frame):
                return FULL_ARENA
            if client:
                on_request(state, connection, frame)
            else:
                on_response(state, connection, frame)
    skip(state, way, directions[way].next)
    return DONE


@jit_inner
def _give_up_rest(state: State, way: int) -> None:
    """Keep only the beginning of a frame, which has what pairs it; of records of TLS, and where no frame was found, nothing."""
    protocol = state.connections[way // 2].protocol
    if protocol == TLS:
        leave_gap(state, way, 0)
        search_anew(state, way)
    elif _is_kafka(protocol) and state.directions[way].in_step:
        leave_gap(state, way, BEGINNING)
        search_anew(state, way)
    else:
        skip(state, way, state.directions[way].next)


@jit_flat
def finish(state: State, connections: Int64s, how: int) -> tuple[int, int]:
    """End connections (THE_END): give up holes, take what is left, and close the books.

    Or let them go on with less: without what waits behind holes (HOLES), or without anything that waits (ALL_THAT_WAITS).
    The result is as in `advance`, but for the number: it is that of the connection to go on with.
    """
    frame = state.frame
    for index in range(len(connections)):
        connection = int(connections[index])
        # The client's direction comes first: the server's last frames may answer requests that only now complete.
        client = state.connections[connection].client_side
        if client < 0:
            client = state.connections[connection].likely_client_side
        for turn in range(TURNS if how == THE_END else 2):
            way = 2 * connection + (client if turn % 2 == 0 else 1 - client)
            if how == THE_END:
                state.connections[connection].ending = 1 if turn < 2 else 2
            elif how == ALL_THAT_WAITS:  # what is there must say what this connection is
                state.connections[connection].ending = state.connections[connection].protocol == UNDECIDED
            if state.counters.free_chunk_count < chunks_needed(state, way):
                return FULL_CHUNKS, index
            while state.directions[way].ahead >= 0:
                give_up_hole(state, way)
            undecided = (
                how == THE_END and turn < TURNS - 2 and state.connections[connection].protocol == UNDECIDED
            )
            if undecided and not _recognise_lone(state, connection, way) and turn >= 2:
                search_anew(state, way)
            code = _consume_both(state, connection, way, frame)
            if code == DONE and turn >= TURNS - 2:
                code = _take_rest(state, connection, way, frame)
            if code != DONE:
                return code, index
            if how == ALL_THAT_WAITS:
                _give_up_rest(state, way)
        if how != THE_END:
            state.connections[connection].ending = 0
        if how == HOLES:
            continue
        if how == ALL_THAT_WAITS and state.connections[connection].protocol == KAFKA_0_7:
            shorten_waiting(state, connection, BEGINNING)  # the order of what waits is all that pairs
            continue
        if state.counters.exchange_count + rows_needed(state, connection) > len(state.exchanges):
            return FULL_EXCHANGES, index
        give_up_all(state, connection)
    return DONE, len(connections)


@jit_inner
def _carried_chunks(state: State, node: int, arena: Bytes, at: int, copy: bool) -> int:
    while node >= 0:
        chunks = state.chunks
        if chunks[node].offset >= 0:
            if copy:
                copy_bytes(state.arena, chunks[node].offset, arena, at, chunks[node].length)
                chunks[node].offset = at
            at += chunks[node].length
        node = chunks[node].next
    return at


@jit_inner
def _carried_frame(state: State, frame: FrameRow, arena: Bytes, at: int, copy: bool) -> int:
    length = frame.stop - frame.start
    if copy:
        copy_bytes(state.arena, frame.start, arena, at, length)
        frame.frame_stop += at - frame.start
        frame.start = at
        frame.stop = at + length
    return at + length


@jit_flat
def carry_over(state: State, count: int, arena: Bytes, copy: bool) -> int:
    """Give how many bytes of the arena are still needed by the first `count` connections; with `copy`, move them.

    They go to the front of `arena`, a new one, and everything that points to them is changed to point there. Its first
    byte stays unused: a side of an exchange that starts at 0 is not there.
    """
    at = 1
    for connection in range(count):
        for way in range(2 * connection, 2 * connection + 2):
            at = _carried_chunks(state, state.directions[way].head, arena, at, copy)
            at = _carried_chunks(state, state.directions[way].ahead, arena, at, copy)
        node = state.connections[connection].first_waiting
        while node >= 0:
            at = _carried_frame(state, state.waiting[node].request, arena, at, copy)
            node = state.waiting[node].next
        node = state.connections[connection].first_early
        while node >= 0:
            at = _carried_frame(state, state.waiting[node].response, arena, at, copy)
            node = state.waiting[node].next
    return at
