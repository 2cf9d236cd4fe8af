"""The loop over the packets of connections that tells how well their bytes travel.

One segment at a time is timed in each direction: the first one that is sent while none is timed, until it is
acknowledged. A retransmission ends the measurement without a result, since nobody can tell which of the two
the acknowledgment answers (Karn's algorithm, RFC 6298 section 3). An acknowledgment without data is a round
trip, up to the receiver's delay (RFC 9293 section 3.8.6.3: less than 500 ms, 40 ms in Linux). One that comes
with data is counted apart: a server may have worked on its response before.

A segment is sent again if all its bytes were sent before. Bytes that fill a hole of the capture were sent
again if they come REORDERED_NS later than those behind them, else they were captured out of order. Probes of
keep-alive and of a closed window (RFC 9293 sections 3.8.4 and 3.8.6.1) are neither.

Code that nearly every packet needs is copied into the loop (`jit_inline`): a third of the time before.
"""

from kdissect.array_types import Int64s
from kdissect.capture.segment_index import (
    ACK,
    CAPTURED,
    FLAG_ACK,
    FLAG_ACK_ONLY,
    FLAG_B_TO_A,
    FLAG_BARE_ACK,
    FLAG_FIN,
    FLAG_RST,
    FLAG_SYN,
    FLAG_WINDOW_CLOSED,
    FLAGS,
    MISSING,
    PACKET,
    SEQ,
    TIME,
)
from kdissect.jit.decorators import jit_flat, jit_inline, jit_inner
from kdissect.streams.tcp.tracker_state import (
    ACKNOWLEDGED,
    FIRST_POSITION,
    RESET,
    STILL_OPEN,
    UNACKNOWLEDGED,
    WINDOW_CLOSED,
    StepRow,
    TcpState,
)

REORDERED_NS = 3_000_000
STANDSTILL_NS = 200_000_000
"""Bytes in flight for less than this are no span, unless one segment was sent again twice in a row."""

IDLE_NS = 1_000_000_000
"""A connection that was silent for so long may have been dropped on the way."""

STEPS_OF_PACKET, SPANS_OF_PACKET = 5, 6


@jit_inline
def _unwrap(near: int, number: int) -> int:
    """Return the position of a sequence number, the one that is nearest to a known position (0: none is)."""
    if near == 0:
        return FIRST_POSITION + number
    distance = (number - near) & 0xFFFFFFFF
    return near + distance - (0x100000000 if distance >= 0x80000000 else 0)


@jit_inline
def _step(state: TcpState, direction: int, time_ns: int) -> StepRow:
    """Return the figures of a direction at this time; the step before is finished."""
    row = state.directions[direction]
    step = max(time_ns // state.length_ns, row.step)
    if row.step != step:
        if row.step:
            state.steps[state.counters.steps] = state.current[direction]
            state.counters.steps += 1
        state.current[direction] = state.blank
        state.current[direction].direction = direction
        state.current[direction].step = step
        row.step = step
    return state.current[direction]


@jit_inner
def _end_wait(state: TcpState, direction: int, time_ns: int, outcome: int) -> None:
    """Describe the time for which the acknowledgment stood still, if that was long."""
    row = state.directions[direction]
    if row.waiting_ns and row.sent > row.acked:
        lasted_ns = time_ns - row.waiting_ns
        is_long = lasted_ns >= STANDSTILL_NS and (row.repeats > 0 or lasted_ns >= IDLE_NS)
        if is_long or row.most_repeats >= 2 or (outcome == RESET and row.idle_ns >= IDLE_NS):
            span = state.spans[state.counters.spans]
            span.kind, span.direction, span.outcome = UNACKNOWLEDGED, direction, outcome
            span.begin_ns, span.end_ns = row.waiting_ns, max(time_ns, row.waiting_ns)
            span.packets, span.most_repeats = row.repeats, row.most_repeats
            span.segment_bytes, span.bytes = row.repeat_bytes, row.sent - row.acked
            span.idle_ns, span.packet = row.idle_ns, row.waiting_packet
            state.counters.spans += 1
    row.waiting_ns = row.repeats = row.most_repeats = row.repeat_at = row.repeat_run = 0
    row.repeat_bytes = row.idle_ns = 0


@jit_inner
def _end_closed_window(state: TcpState, direction: int, time_ns: int, outcome: int) -> None:
    row = state.directions[direction]
    if row.window_ns:
        span = state.spans[state.counters.spans]
        span.kind, span.direction, span.outcome = WINDOW_CLOSED, direction, outcome
        span.begin_ns, span.end_ns = row.window_ns, max(time_ns, row.window_ns)
        span.packets, span.most_repeats, span.segment_bytes = row.window_packets, 0, 0
        span.bytes, span.idle_ns, span.packet = 0, 0, row.window_packet
        state.counters.spans += 1
    row.window_ns = row.window_packets = 0


@jit_inner
def _end_attempt(state: TcpState, connection: int) -> None:
    """Count an attempt to open the connection that nobody answered."""
    row = state.connections[connection]
    if row.syn and not row.answered:
        direction = 2 * connection + ((row.syn - FIRST_POSITION) >> 32)
        figures = _step(state, direction, row.syn_last_ns)
        figures.unanswered += 1
        row.answered = 1


@jit_inner
def _take_syn(state: TcpState, connection: int, side: int, flags: int, number: int, time_ns: int) -> None:
    row = state.connections[connection]
    if flags & FLAG_ACK:
        row.answered = 1
    else:
        syn = FIRST_POSITION + (side << 32 | number)
        if row.syn == syn:
            figures = _step(state, 2 * connection + side, time_ns)
            figures.attempt_repeats += 1
            row.syn_last_ns = time_ns
        else:
            _end_attempt(state, connection)
            for direction in range(2 * connection, 2 * connection + 2):
                _end_wait(state, direction, row.last_ns, STILL_OPEN)
                _end_closed_window(state, direction, row.last_ns, STILL_OPEN)
                old = state.directions[direction]
                old.sent = old.acked = old.timed_stop = old.hole_stop = old.largest = 0
            row.syn, row.syn_ns, row.syn_last_ns, row.answered = syn, time_ns, time_ns, 0
            figures = _step(state, 2 * connection + side, time_ns)
            figures.attempts += 1
    opened = state.directions[2 * connection + side]
    position = _unwrap(opened.sent, number) + 1
    if position > opened.sent:
        opened.sent = opened.acked = position


@jit_inner
def _take_reset(state: TcpState, connection: int, side: int, time_ns: int) -> None:
    row = state.connections[connection]
    if row.syn and not row.answered:
        opener = (row.syn - FIRST_POSITION) >> 32
        if opener != side:
            figures = _step(state, 2 * connection + opener, time_ns)
            figures.refused += 1
        row.answered = 1
    for direction in range(2 * connection, 2 * connection + 2):
        _end_wait(state, direction, time_ns, RESET)
        _end_closed_window(state, direction, time_ns, RESET)
        state.directions[direction].timed_stop = 0


@jit_inline
def _time(state: TcpState, direction: int, trip_ns: int, time_ns: int, bare: bool) -> None:
    """Count a round trip."""
    row, figures = state.directions[direction], _step(state, direction, time_ns)
    if bare:
        if figures.ack_count == 0 or trip_ns < figures.ack_min_ns:
            figures.ack_min_ns = trip_ns
        figures.ack_max_ns = max(figures.ack_max_ns, trip_ns)
        figures.ack_count += 1
        figures.ack_ns += trip_ns
        if row.ack_count == 0 or trip_ns < row.ack_min_ns:
            row.ack_min_ns = trip_ns
        row.ack_max_ns = max(row.ack_max_ns, trip_ns)
        row.ack_count += 1
        row.ack_ns += trip_ns
    else:
        if figures.reply_count == 0 or trip_ns < figures.reply_min_ns:
            figures.reply_min_ns = trip_ns
        figures.reply_max_ns = max(figures.reply_max_ns, trip_ns)
        figures.reply_count += 1
        figures.reply_ns += trip_ns


@jit_inline
def _acknowledge(state: TcpState, direction: int, number: int, time_ns: int, bare: bool, packet: int) -> None:
    """Note what the receiver of a direction acknowledges."""
    row = state.directions[direction]
    position = _unwrap(row.acked, number)
    if row.acked == 0:
        row.acked = position
        row.sent = max(row.sent, position)
        return
    if position <= row.acked:
        return
    if row.timed_stop and position >= row.timed_stop:
        if time_ns >= row.timed_ns:
            _time(state, direction, time_ns - row.timed_ns, time_ns, bare)
        row.timed_stop = 0
    _end_wait(state, direction, time_ns, ACKNOWLEDGED)
    row.acked = position
    if position >= row.sent:
        row.sent = position
        if row.largest:
            figures = _step(state, direction, time_ns)
            figures.largest_acked = max(figures.largest_acked, row.largest)
        row.largest = 0
    else:
        row.waiting_ns, row.waiting_packet = time_ns, packet


@jit_inner
def _is_sent_again(state: TcpState, direction: int, start: int, stop: int, time_ns: int) -> bool:
    """Return whether bytes that are not new were sent before, as far as the capture tells."""
    row = state.directions[direction]
    if row.hole_start <= start and stop <= row.hole_stop:
        if start == row.hole_start:
            row.hole_start = stop
        else:
            row.hole_stop = start
        return bool(time_ns - row.hole_ns >= REORDERED_NS)
    return bool(state.directions[direction ^ 1].window_ns == 0)


@jit_inner
def _repeat(state: TcpState, direction: int, start: int, length: int, time_ns: int) -> None:
    """Count a segment that was sent again."""
    row, figures = state.directions[direction], _step(state, direction, time_ns)
    if figures.repeated == 0:
        figures.repeated_first_ns = time_ns
    figures.repeated += 1
    figures.repeated_bytes += length
    figures.repeated_last_ns = max(figures.repeated_last_ns, time_ns)
    row.timed_stop = 0
    if row.sent > row.acked:
        row.repeat_run = row.repeat_run + 1 if row.repeat_at == start else 1
        row.repeat_at = start
        row.repeat_bytes = length
        row.repeats += 1
        row.most_repeats = max(row.most_repeats, row.repeat_run)


@jit_inline
def _send(
    state: TcpState, direction: int, number: int, length: int, time_ns: int, packet: int, idle_ns: int
) -> None:
    """Note a segment with data."""
    row = state.directions[direction]
    start = _unwrap(row.sent, number)
    stop = start + length
    if row.sent == 0:
        row.sent = start
        row.acked = max(row.acked, start)
    if length == 1 and stop <= row.sent and row.acked >= row.sent:
        return  # keep-alive
    figures = _step(state, direction, time_ns)
    figures.segments += 1
    figures.bytes += length
    if start < row.sent:
        if _is_sent_again(state, direction, start, stop, time_ns):
            _repeat(state, direction, start, length, time_ns)
    elif start > row.sent:
        row.hole_start, row.hole_stop, row.hole_ns = row.sent, start, time_ns
    if stop <= row.sent:
        return
    if row.sent <= row.acked or row.waiting_ns == 0:
        row.waiting_ns, row.waiting_packet, row.idle_ns = time_ns, packet, idle_ns
    if start >= row.sent and row.timed_stop == 0:
        row.timed_stop, row.timed_ns = stop, time_ns
    row.largest = max(row.largest, length)
    row.sent = stop


@jit_inline
def _watch_window(state: TcpState, direction: int, flags: int, time_ns: int, packet: int) -> None:
    """Note the receive window of a direction's sender."""
    row = state.directions[direction]
    if flags & FLAG_ACK_ONLY and flags & FLAG_WINDOW_CLOSED:
        if row.window_ns == 0:
            row.window_ns = time_ns
        row.window_packet = packet
        row.window_packets += 1
    elif row.window_ns and packet != row.window_packet:
        _end_closed_window(state, direction, time_ns, ACKNOWLEDGED)


@jit_flat
def follow(state: TcpState, packets: Int64s, connection_of: Int64s, first: int) -> int:
    """Follow the packets from `first` on. `packets` has a row for each.

    Return the number of the first one for whose results there is no room, or the number of all.
    """
    for i in range(first, len(connection_of)):
        if state.counters.steps + STEPS_OF_PACKET > len(
            state.steps
        ) or state.counters.spans + SPANS_OF_PACKET > len(state.spans):
            return i
        flags, time_ns, packet = int(packets[i, FLAGS]), int(packets[i, TIME]), int(packets[i, PACKET])
        connection = int(connection_of[i])
        side = flags & FLAG_B_TO_A
        direction = 2 * connection + side
        length = int(packets[i, CAPTURED] + packets[i, MISSING])
        row = state.connections[connection]
        idle_ns = time_ns - row.last_ns if row.last_ns else 0
        figures = _step(state, direction, time_ns)
        figures.first_ns = min(figures.first_ns, time_ns) if figures.first_ns else time_ns
        figures.last_ns = max(figures.last_ns, time_ns)
        is_reset = flags & (FLAG_RST | FLAG_ACK_ONLY) == FLAG_RST
        if row.closed_ns == 0 and (is_reset or flags & FLAG_FIN):
            row.closed_ns, row.closed_by = time_ns, side
        if is_reset:
            _take_reset(state, connection, side, time_ns)
        elif flags & FLAG_SYN:
            _take_syn(state, connection, side, flags, int(packets[i, SEQ]), time_ns)
        else:
            if flags & FLAG_ACK:
                bare = flags & (FLAG_ACK_ONLY | FLAG_BARE_ACK) != 0
                _acknowledge(state, direction ^ 1, int(packets[i, ACK]), time_ns, bare, packet)
                _watch_window(state, direction, flags, time_ns, packet)
            if length:
                _send(state, direction, int(packets[i, SEQ]), length, time_ns, packet, idle_ns)
        row.last_ns = max(row.last_ns, time_ns)
    return len(connection_of)


@jit_flat
def finish_tcp(state: TcpState, first: int, count: int) -> int:
    """End the connections from `first` on. Return the first one for whose results there is no room."""
    for connection in range(first, count):
        if state.counters.steps + STEPS_OF_PACKET > len(
            state.steps
        ) or state.counters.spans + SPANS_OF_PACKET > len(state.spans):
            return connection
        row = state.connections[connection]
        _end_attempt(state, connection)
        for direction in range(2 * connection, 2 * connection + 2):
            _end_wait(state, direction, row.last_ns, STILL_OPEN)
            _end_closed_window(state, direction, row.last_ns, STILL_OPEN)
            if state.directions[direction].step:
                state.steps[state.counters.steps] = state.current[direction]
                state.counters.steps += 1
                state.directions[direction].step = 0
    return count
