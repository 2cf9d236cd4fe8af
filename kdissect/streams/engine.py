"""The loop of pass two: one segment after another through reassembly, framing and pairing.

`advance` is the only place that knows the order of things: a segment is received, holes are settled, then
every complete frame that has become available is taken off the stream and paired. It stops when a pool is
full and says which; the caller makes room and calls again with the number of the next segment. `finish` ends
connections, or has them give up what they wait for. `carry_over` moves what is not consumed to the front of a
new arena, so that the bytes of a slab can be let go.
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
from kdissect.protocol.integers import int32_at
from kdissect.streams.detection import (
    TOKEN_LIMIT,
    forget_what_cannot_be_kafka,
    recognise,
    recognise_lone,
    tls_is_ready,
)
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
    other_direction,
)
from kdissect.streams.framing import (
    HEADER_VIEW,
    MAX_FRAME,
    MAX_HELD,
    SHORTEST_REQUEST,
    SHORTEST_RESPONSE,
    YES,
    can_be_request,
    find_request,
    find_response,
    header_evidence,
    search_anew,
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

CLOCK_STEP_NS = ACK_GRACE_NS  # a direction that goes back in time by more was not captured out of order
TURNS = 6  # of both ends at the end: what is certain first, then what is likely, then the rest
FETCHED_AHEAD = 8  # segments: their bytes are on the direction while those before are worked on
THE_END, HOLES, ALL_THAT_WAITS = range(3)  # what `finish` is to do
BEGINNING = 1 << 10  # bytes of a frame that are kept when the rest is let go: more than any header


@jit_inner
def _in_one_place(state: State, node: int, begin: int, end: int) -> tuple[int, int]:
    """Return up to which position, at most `end`, the stream from `begin` in `node` on is contiguous.

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
def _take_frame(state: State, direction: int, size: int, frame: FrameRow) -> bool:
    """Consume the frame at FRAME, with a body of `size` bytes, off the stream.

    False when the arena has no room for it.

    Fills `side` (SIDE columns). A frame that lies in one place of the arena stays there, another is
    assembled; after a gap the rest of a frame is of no use, so STOP is where the first gap begins.
    """
    row = state.directions[direction]
    arena = state.arena
    begin = row.frame
    end = min(begin + 4 + size, row.next)
    node = row.head
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
    discard(state, direction, end)
    return True


@jit_inner
def _lose_place(state: State, direction: int, bytes_on: int) -> None:
    """The stream is out of step: search for the next frame `bytes_on` bytes further on."""
    row = state.directions[direction]
    row.in_step = 0
    forget_order(state, direction)
    skip(state, direction, min(row.frame + bytes_on, row.next))


@jit_inner
def _drop_leading_gaps(state: State, direction: int) -> None:
    """Leave gaps behind where a frame should begin."""
    row = state.directions[direction]
    in_step = row.in_step
    while row.head >= 0 and state.chunks[row.head].offset < 0:
        row.in_step = 0
        gap = row.head
        discard(state, direction, state.chunks[gap].position + state.chunks[gap].length)
    if in_step and row.in_step == 0:
        forget_order(state, direction)


@jit_inner
def _is_kafka(protocol: int) -> bool:
    return bool(protocol == KAFKA or protocol == KAFKA_0_7)


@jit_inner
def _shortest(protocol: int, client: bool) -> int:
    """Return the size of the smallest frame that says what it is."""
    if protocol == KAFKA_0_7:
        return SHORTEST_OLD_REQUEST if client else SHORTEST_OLD_RESPONSE
    return SHORTEST_REQUEST if client else SHORTEST_RESPONSE


@jit_inner
def _is_searched(state: State, direction: int) -> bool:
    """Return whether a direction holds bytes behind a hole, or bytes in which a frame is searched."""
    row = state.directions[direction]
    return bool(row.ahead >= 0 or (row.in_step == 0 and row.head >= 0))


@jit_inner
def _waits_for_requests(state: State, connection: int, direction: int) -> bool:
    """Return whether a search for responses waits for their requests, which tell where they begin.

    Or without any, for more.
    """
    directions = state.directions
    other = other_direction(direction)
    is_lone = directions[other].highest == 0 and state.connections[connection].ending == 0
    return bool(is_lone or _is_searched(state, other))


@jit_inner
def _find_frame(state: State, connection: int, direction: int, client: bool) -> bool:
    """Search a direction that is out of step.

    Of what is not found, keep only what may be the start of a frame.
    """
    row = state.directions[direction]
    held = row.next - row.frame
    if row.from_start and row.frame == 0:
        row.in_step = 1  # it was not known before that this is the beginning
        return True
    if state.connections[connection].protocol == KAFKA_0_7:
        keep = HEADER_VIEW if client else RESPONSE_VIEW
        if client:
            found = find_old_request(state, direction, state.max_versions) == YES
        else:
            found = find_old_response(state, direction)
        if not found and held > keep:
            skip(state, direction, row.next - keep)
    elif not client and held <= MAX_HELD and _waits_for_requests(state, connection, direction):
        found = False
    else:
        found = (
            find_request(state, connection, direction)
            if client
            else find_response(state, connection, direction)
        )
        if not found:
            skip(state, direction, row.scanned.position)
    return bool(found)


@jit_inner
def _take_request(state: State, connection: int, direction: int, frame: FrameRow) -> int:
    """Consume one request off the stream.

    1: taken or place lost, 0: nothing complete is there, -1: no room in the arena.
    """
    row = state.directions[direction]
    offset, length = view(state, direction, row.frame, HEADER_VIEW)
    if length < 4:
        if row.next - row.frame < 4:
            return 0
        _lose_place(state, direction, length)
        return 1
    size = int32_at(state.arena, offset)
    raw = state.connections[connection].raw_sasl != 0
    token = raw and 0 <= size < TOKEN_LIMIT
    protocol = state.connections[connection].protocol
    shortest = _shortest(protocol, True)
    if not token and (size < shortest or size > MAX_FRAME):
        row.oversized_frames += size > MAX_FRAME
        _lose_place(state, direction, 1)
        return 1
    if protocol == KAFKA_0_7:
        if length >= 6 and not can_be_old_request(state.arena, offset):
            _lose_place(state, direction, 1)
            return 1
    elif length >= min(4 + size, 14) and size >= SHORTEST_REQUEST:
        if raw and header_evidence(state.arena, offset, length, state.max_versions) == 0:
            pass
        elif can_be_request(state.arena, offset, min(length, 4 + size)):
            token = False
            if raw and row.next - row.frame >= 4 + size and not _is_handshake(state, offset):
                state.connections[connection].raw_sasl = 0
        elif not token:
            _lose_place(state, direction, 1)
            return 1
    if row.next - row.frame < 4 + size:
        return 0
    if not _take_frame(state, direction, size, frame):
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
def _take_response(state: State, connection: int, direction: int, frame: FrameRow) -> int:
    """Consume one response off the stream; the result is as in `_take_request`."""
    row = state.directions[direction]
    offset, length = view(state, direction, row.frame, 8)
    if length < 4:
        if row.next - row.frame < 4:
            return 0
        _lose_place(state, direction, length)
        return 1
    size = int32_at(state.arena, offset)
    shortest = _shortest(state.connections[connection].protocol, False)
    if expects_token(state, connection):
        shortest = 0
    if size < shortest or size > MAX_FRAME:
        row.oversized_frames += size > MAX_FRAME
        _lose_place(state, direction, 1)
        return 1
    if length == 8 and shortest == SHORTEST_RESPONSE:
        correlation_id = int32_at(state.arena, offset + 4)
        if correlation_id < 0 and waiting_request(state, connection, correlation_id) < 0:
            _lose_place(state, direction, 1)  # clients count from 0
            return 1
    if row.next - row.frame < 4 + size:
        return 0
    if not _take_frame(state, direction, size, frame):
        return -1
    if frame.stop - frame.start >= shortest:
        on_response(state, connection, frame)
    return 1


@jit_inner
def _consume(state: State, connection: int, direction: int, frame: FrameRow) -> int:
    """Consume all frames off one direction that are complete by now."""
    row = state.directions[direction]
    connections = state.connections
    while row.head >= 0:
        if not _is_kafka(connections[connection].protocol):
            if connections[connection].protocol == UNDECIDED:
                _drop_leading_gaps(state, direction)
                recognise(state, connection, direction)
            if connections[connection].protocol == UNDECIDED:
                forget_what_cannot_be_kafka(state, connection, direction)
            if connections[connection].protocol == TLS:
                return TLS_READY if tls_is_ready(state, direction) else DONE
            if not _is_kafka(connections[connection].protocol):
                if connections[connection].protocol != UNDECIDED:
                    skip(state, direction, row.next)
                return DONE
        client = direction - 2 * connection == connections[connection].client_side
        if state.counters.exchange_count + rows_needed(state, connection) > len(state.exchanges):
            return FULL_EXCHANGES
        if state.counters.free_waiting_count < 2:
            return FULL_WAITING
        _drop_leading_gaps(state, direction)
        if row.head < 0:
            return DONE
        if row.in_step == 0 and not _find_frame(state, connection, direction, client):
            return DONE
        taken = (
            _take_request(state, connection, direction, frame)
            if client
            else _take_response(state, connection, direction, frame)
        )
        if taken < 0:
            return FULL_ARENA
        if taken == 0:
            return DONE
    return DONE


@jit_inner
def _consume_both(state: State, connection: int, direction: int, frame: FrameRow) -> int:
    """Consume frames of the direction that grew, and of the other one if it was only now recognised."""
    counters = state.counters
    undecided = state.connections[connection].protocol == UNDECIDED
    code = _consume(state, connection, direction, frame)
    if undecided and state.connections[connection].protocol != UNDECIDED:
        counters.recognised = 1
    if code == DONE and counters.recognised:
        code = _consume(state, connection, other_direction(direction), frame)
        if code == DONE:
            counters.recognised = 0
    return code


@jit_inner
def _note_flags(
    state: State, connection: int, direction: int, flags: int, time: int, sequence: int, ack: int
) -> None:
    """Follow the opening and the closing of a connection (RFC 9293, section 3.5)."""
    connections = state.connections
    side = direction - 2 * connection
    if flags & FLAG_SYN:
        begin_at(state, direction, (sequence + 1) & 0xFFFFFFFF, False)
        connections[connection].handshake = 1
        if flags & FLAG_ACK:
            begin_at(state, other_direction(direction), ack, True)
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


@jit_inner
def _receive_segment(
    state: State, segments: Int64s, index: int, connection: int, direction: int, offset: int
) -> int:
    """Note what a segment says of its connection and hand its payload, at arena[offset:], to reassembly.

    Return DONE, or why the segment cannot be processed yet: then nothing has changed. `counters.step` says
    which directions may hold new frames; it stays as it is for a bare acknowledgment.
    """
    counters = state.counters
    other = other_direction(direction)
    row, other_row = state.directions[direction], state.directions[other]
    if counters.held > counters.most_held:
        return TOO_MUCH_HELD
    if counters.free_chunk_count < chunks_needed(state, direction) + chunks_needed(state, other):
        return FULL_CHUNKS
    flags, time = int(segments[FLAGS, index]), int(segments[SEGMENT_TIME, index])
    sequence, acknowledgment = int(segments[SEQ, index]), int(segments[ACK, index])
    begins = (sequence + 1) & 0xFFFFFFFF if flags & FLAG_SYN else sequence
    captured, missing = int(segments[CAPTURED, index]), int(segments[MISSING, index])
    length = captured + missing
    talks = (length > 0 or flags & FLAG_SYN) and flags & (FLAG_ACK | FLAG_RST) == FLAG_ACK
    if talks and is_elsewhere(state, direction, other, begins, acknowledgment):
        return PORTS_REUSED
    if talks and other_row.first_expected < 0:
        other_row.first_expected = acknowledgment
    if flags & (FLAG_SYN | FLAG_FIN | FLAG_RST | FLAG_BARE_ACK) or state.connections[connection].ack_ns == 0:
        _note_flags(state, connection, direction, flags, time, sequence, acknowledgment)
    if flags & FLAG_BARE_ACK:
        return DONE  # described for the handshake alone, once in every split: nothing else may hang on it
    if row.clock_ns - time > CLOCK_STEP_NS:
        set_clock_back(state, connection, direction, max(row.clock_ns, other_row.clock_ns) - time)
    row.clock_ns = time
    if length > 0 and not flags & FLAG_RST:
        if row.first_sent < 0:
            row.first_sent = begins
        if flags & FLAG_ACK:
            row.acked = acknowledgment
        packet = int(segments[SEGMENT_PACKET, index])
        segments[FLAGS, index] |= receive(state, direction, time, packet, offset, captured, missing, begins)
    counters.step = CONSUME
    if other_row.ahead >= 0:
        if flags & FLAG_ACK:
            acknowledge(state, other, acknowledgment, time)
        if settle(state, other, time):
            counters.step = CONSUME_OTHER
    return DONE


@jit_flat
def advance(
    state: State, segments: Int64s, connection_of: Int64s, at_of: Int64s, first: int
) -> tuple[int, int]:
    """Process segments[:, first:] in order.

    Return (what is full or DONE, number of the next segment to process).

    `segments` has the columns of `pieces`, whose flags get those of `receive`, `connection_of` the row of
    each segment's connection and `at_of` where its payload lies in the arena. A segment at which a pool was
    full may be in part processed: STEP says what is still to be done, so the next call goes on in the same
    order as if there had been room. TLS_READY says of the segment's connection that the caller must take its
    records of TLS first, PORTS_REUSED that it is over and its row is to begin anew.
    """
    frame = state.frame
    counters = state.counters
    count = segments.shape[1]
    for index in range(first, count):
        prefetch(state.arena, at_of[min(index + FETCHED_AHEAD, count - 1)])
        connection = int(connection_of[index])
        direction = 2 * connection + (1 if int(segments[FLAGS, index]) & FLAG_B_TO_A else 0)
        if counters.step == TAKE_IN:
            code = _receive_segment(state, segments, index, connection, direction, int(at_of[index]))
            if code != DONE:
                return code, index
            if counters.step == TAKE_IN:  # a bare acknowledgment: there is nothing to consume
                continue
        if counters.step == CONSUME_OTHER:
            code = _consume_both(state, connection, other_direction(direction), frame)
            if code != DONE:
                return code, index
            counters.step = CONSUME
        if state.directions[direction].ahead >= 0:
            settle(state, direction, int(segments[SEGMENT_TIME, index]))
        code = _consume_both(state, connection, direction, frame)
        if code != DONE:
            return code, index
        counters.step = TAKE_IN
    return DONE, count


@jit_inner
def _take_rest(state: State, connection: int, direction: int, frame: FrameRow) -> int:
    """Consume the last frame of a direction, which the capture has only the beginning of."""
    row = state.directions[direction]
    connections = state.connections
    client = direction - 2 * connection == connections[connection].client_side
    if (
        _is_kafka(connections[connection].protocol)
        and row.in_step
        and row.head >= 0
        and not connections[connection].raw_sasl
    ):
        offset, length = view(state, direction, row.frame, HEADER_VIEW)
        if length >= 4 + _shortest(connections[connection].protocol, client):
            if state.counters.exchange_count + rows_needed(state, connection) > len(state.exchanges):
                return FULL_EXCHANGES
            if state.counters.free_waiting_count < 2:
                return FULL_WAITING
            if not _take_frame(state, direction, int32_at(state.arena, offset), frame):
                return FULL_ARENA
            if client:
                on_request(state, connection, frame)
            else:
                on_response(state, connection, frame)
    skip(state, direction, row.next)
    return DONE


@jit_inner
def _give_up_rest(state: State, direction: int) -> None:
    """Keep only the beginning of a frame, which has what pairs it.

    Of records of TLS, and where no frame was found, nothing.
    """
    row = state.directions[direction]
    protocol = state.connections[direction // 2].protocol
    if protocol == TLS:
        leave_gap(state, direction, 0)
        search_anew(state, direction)
    elif _is_kafka(protocol) and row.in_step:
        leave_gap(state, direction, BEGINNING)
        search_anew(state, direction)
    else:
        skip(state, direction, row.next)


@jit_flat
def finish(state: State, connections: Int64s, how: int) -> tuple[int, int]:
    """End connections (THE_END): give up holes, take what is left, and close the books.

    Or let them go on with less: without what waits behind holes (HOLES), or without anything that waits
    (ALL_THAT_WAITS). The result is as in `advance`, but for the number: it is that of the connection to go on
    with.
    """
    frame = state.frame
    for index in range(len(connections)):
        connection = int(connections[index])
        # The client's direction comes first: the server's last frames may answer requests that only now
        # complete.
        client = state.connections[connection].client_side
        if client < 0:
            client = state.connections[connection].likely_client_side
        for turn in range(TURNS if how == THE_END else 2):
            direction = 2 * connection + (client if turn % 2 == 0 else 1 - client)
            if how == THE_END:
                state.connections[connection].ending = 1 if turn < 2 else 2
            elif how == ALL_THAT_WAITS:  # what is there must say what this connection is
                state.connections[connection].ending = state.connections[connection].protocol == UNDECIDED
            if state.counters.free_chunk_count < chunks_needed(state, direction):
                return FULL_CHUNKS, index
            while state.directions[direction].ahead >= 0:
                give_up_hole(state, direction)
            undecided = (
                how == THE_END and turn < TURNS - 2 and state.connections[connection].protocol == UNDECIDED
            )
            if undecided and not recognise_lone(state, connection, direction) and turn >= 2:
                search_anew(state, direction)
            code = _consume_both(state, connection, direction, frame)
            if code == DONE and turn >= TURNS - 2:
                code = _take_rest(state, connection, direction, frame)
            if code != DONE:
                return code, index
            if how == ALL_THAT_WAITS:
                _give_up_rest(state, direction)
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
    """Return how many bytes of the arena are still needed by the first `count` connections.

    With `copy`, move them.

    They go to the front of `arena`, a new one, and everything that points to them is changed to point there.
    Its first byte stays unused: a side of an exchange that starts at 0 is not there.
    """
    at = 1
    for connection in range(count):
        for direction in range(2 * connection, 2 * connection + 2):
            at = _carried_chunks(state, state.directions[direction].head, arena, at, copy)
            at = _carried_chunks(state, state.directions[direction].ahead, arena, at, copy)
        node = state.connections[connection].first_waiting
        while node >= 0:
            at = _carried_frame(state, state.waiting[node].request, arena, at, copy)
            node = state.waiting[node].next
        node = state.connections[connection].first_early
        while node >= 0:
            at = _carried_frame(state, state.waiting[node].response, arena, at, copy)
            node = state.waiting[node].next
    return at
