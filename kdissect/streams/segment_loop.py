"""The loop of pass two over segments: receive each one, then read the frames that it completed.

`advance` is the only place that knows this order: a segment is received, holes of the other direction are
settled by its acknowledgment, then every complete frame is taken off the streams and paired. `engine` draws
the states and handles the stops.
"""

from kdissect.array_types import Int64s
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
    PACKET,
    SEQ,
    TIME,
)
from kdissect.jit.decorators import jit_flat, jit_inline, prefetch
from kdissect.streams.flow_state import DONE, PORTS_REUSED, REPEATS, SegmentRow, State, other_direction
from kdissect.streams.frame_loop import read_turn
from kdissect.streams.reassembly import acknowledge, receive, settle
from kdissect.streams.room import room_for_segment
from kdissect.streams.tcp_state import SEQUENCE_MASK, follow_clock, is_elsewhere, note_flags

FETCHED_AHEAD = 8  # segments: their bytes are on the way while those before are worked on


@jit_inline
def _fill_segment(segment: SegmentRow, segments: Int64s, index: int, offset: int) -> None:
    """Copy one column of the segment table to the row of the segment at hand."""
    flags = int(segments[FLAGS, index])
    sequence = int(segments[SEQ, index])
    segment.time_ns = int(segments[TIME, index])
    segment.packet = int(segments[PACKET, index])
    segment.offset = offset
    segment.captured = int(segments[CAPTURED, index])
    segment.missing = int(segments[MISSING, index])
    segment.sequence = (sequence + 1) & SEQUENCE_MASK if flags & FLAG_SYN else sequence
    segment.acknowledgment = int(segments[ACK, index])
    segment.flags = flags


@jit_inline
def _receive_segment(state: State, connection: int, direction: int, segment: SegmentRow) -> int:
    """Note what a segment says of its connection, and hand its payload to reassembly.

    Return DONE, or why the segment cannot be received yet: then nothing has changed. `counters.reading` and
    `counters.read_next` are the directions that may hold new frames then.
    """
    counters = state.counters
    other = other_direction(direction)
    row, other_row = state.directions[direction], state.directions[other]
    code = room_for_segment(state, direction)
    if code != DONE:
        return code
    flags = segment.flags
    length = segment.captured + segment.missing
    talks = (length > 0 or flags & FLAG_SYN) and flags & (FLAG_ACK | FLAG_RST) == FLAG_ACK
    if talks and is_elsewhere(state, direction, segment):
        return PORTS_REUSED
    if talks and other_row.first_expected < 0:
        other_row.first_expected = segment.acknowledgment
    if flags & (FLAG_SYN | FLAG_FIN | FLAG_RST | FLAG_BARE_ACK) or state.connections[connection].ack_ns == 0:
        note_flags(state, connection, direction, segment)
    if flags & FLAG_BARE_ACK:
        return DONE  # described for the handshake alone, once in every split: nothing else may hang on it
    follow_clock(state, connection, direction, segment.time_ns)
    if length > 0 and not flags & FLAG_RST:
        if row.first_sent < 0:
            row.first_sent = segment.sequence
        if flags & FLAG_ACK:
            row.acked = segment.acknowledgment
        segment.flags |= receive(state, direction, segment)
    counters.reading = direction
    if other_row.ahead >= 0:
        if flags & FLAG_ACK:
            acknowledge(state, other, segment.acknowledgment, segment.time_ns)
        if settle(state, other, segment.time_ns):
            counters.reading = other
            counters.read_next = direction
    return DONE


@jit_inline
def _read_after_segment(state: State, connection: int, direction: int, time_ns: int) -> int:
    """Read the directions that a segment has changed, its own one last.

    Return as `read_frames` does. If the code is not DONE, the next call goes on where this one stopped.
    """
    counters = state.counters
    while counters.reading >= 0:
        if counters.reading == direction and state.directions[direction].ahead >= 0:
            settle(state, direction, time_ns)
        code = read_turn(state, connection)
        if code != DONE:
            return code
    return DONE


@jit_flat
def advance(
    state: State, segments: Int64s, connection_of: Int64s, offset_of: Int64s, first: int
) -> tuple[int, int]:
    """Process segments in order, from number `first` on: as many as `connection_of` has.

    Return (DONE or why the loop stopped, number of the next segment).

    `segments` has the columns of `segment_index`, whose flags get those of `receive`. `connection_of` has the
    row of each segment's connection, and `offset_of` the offset of its payload in the arena. If the loop
    stopped between the frames of a segment, that segment is the next one: it is not received again, because
    `counters.reading` says which direction is still to be read.
    """
    counters, segment = state.counters, state.segment
    count = len(connection_of)
    for index in range(first, count):
        prefetch(state.arena, offset_of[min(index + FETCHED_AHEAD, count - 1)])
        connection = int(connection_of[index])
        direction = 2 * connection + (1 if int(segments[FLAGS, index]) & FLAG_B_TO_A else 0)
        if counters.reading < 0:
            _fill_segment(segment, segments, index, int(offset_of[index]))
            code = _receive_segment(state, connection, direction, segment)
            if code != DONE:
                return code, index
            if segments[FLAGS, index] != segment.flags:  # writing costs more than reading
                segments[FLAGS, index] = segment.flags
                counters.repeats += 1 if segment.flags & REPEATS else 0
        code = _read_after_segment(state, connection, direction, int(segments[TIME, index]))
        if code != DONE:
            return code, index
    return DONE, count
