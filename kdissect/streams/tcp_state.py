"""Facts of TCP headers about a connection: its opening, its end, its clock, its identity.

Three questions are answered here, from numbers and flags alone (RFC 9293, section 3):

- `note_flags`: who opened the connection and when, where its streams begin, and how it ended.
- `is_elsewhere`: does a segment belong to another connection on the same ports, whose opening was not
  captured? Its sequence number and its acknowledgment are then both far from those before it.
- `follow_clock`: times are compared with those of the same connection only. If the clock of the capture is
  set back, the times of what waits move along.
"""

from kdissect.capture.segment_index import FLAG_ACK, FLAG_FIN, FLAG_RST, FLAG_SYN
from kdissect.jit.decorators import jit_inline, jit_inner
from kdissect.streams.flow_state import (
    FIN_SEEN,
    NOT_BEGUN,
    OPEN,
    RST_SEEN,
    UNDECIDED,
    SegmentRow,
    State,
    other_direction,
)
from kdissect.streams.reassembly import ACK_GRACE_NS, begin_at, unwrap

FAR_BYTES = 16 << 20  # more than lies between two segments of one connection, unless much was lost
CLOCK_STEP_NS = ACK_GRACE_NS  # a direction that goes back in time by more was not captured out of order
SEQUENCE_MASK = 0xFFFFFFFF


@jit_inner
def note_flags(state: State, connection: int, direction: int, segment: SegmentRow) -> None:
    """Follow the opening and the closing of a connection (RFC 9293, section 3.5)."""
    row = state.connections[connection]
    flags = segment.flags
    side = direction - 2 * connection
    if flags & FLAG_SYN:
        _note_opening(state, connection, direction, segment)
    elif flags & FLAG_ACK and row.syn_ack_ns != 0 and row.ack_ns == 0 and side == row.client_side:
        row.ack_ns = segment.time_ns
    if row.ended == OPEN:
        if flags & FLAG_RST:
            row.ended = RST_SEEN
        elif flags & FLAG_FIN:
            row.ended = FIN_SEEN


@jit_inner
def _note_opening(state: State, connection: int, direction: int, segment: SegmentRow) -> None:
    """Learn from a SYN or SYN-ACK who the client is, and where the streams begin.

    A connection of which messages were read keeps its client, whatever a damaged segment claims.
    """
    row = state.connections[connection]
    side = direction - 2 * connection
    row.handshake = 1
    if row.client_side < 0 or row.protocol == UNDECIDED:
        row.client_side = 1 - side if segment.flags & FLAG_ACK else side
    begin_at(state, direction, segment.sequence, False)
    if segment.flags & FLAG_ACK:
        begin_at(state, other_direction(direction), segment.acknowledgment, True)
        if row.syn_ack_ns == 0:
            row.syn_ack_ns = segment.time_ns
        return
    if row.syn_ack_ns == 0:
        row.syn_ns = segment.time_ns
    row.opened_by = side << 32 | ((segment.sequence - 1) & SEQUENCE_MASK)


@jit_inner
def _is_near(state: State, direction: int, sequence: int) -> bool:
    """Return whether a sequence number is near the end of a direction's stream."""
    row = state.directions[direction]
    return bool(abs(unwrap(sequence, row.first_sequence, row.next) - row.next) <= FAR_BYTES)


@jit_inner
def is_elsewhere(state: State, direction: int, segment: SegmentRow) -> bool:
    """Return whether a segment's numbers are all far from what both directions have said of theirs so far."""
    row = state.directions[direction]
    other = other_direction(direction)
    other_row = state.directions[other]
    if row.begun != NOT_BEGUN and _is_near(state, direction, segment.sequence):
        return False
    agreed = other_row.acked
    if agreed >= 0 and abs(unwrap(segment.sequence, agreed, 0)) <= FAR_BYTES:
        return False
    if row.begun == NOT_BEGUN and agreed < 0:
        return False
    before = row.acked
    if before >= 0 and abs(unwrap(segment.acknowledgment, before, 0)) <= FAR_BYTES:
        return False
    return other_row.begun == NOT_BEGUN or not _is_near(state, other, segment.acknowledgment)


@jit_inline
def follow_clock(state: State, connection: int, direction: int, time_ns: int) -> None:
    """Note the time of a segment, and move what waits back in time if the capture's clock was set back."""
    row = state.directions[direction]
    if row.clock_ns - time_ns > CLOCK_STEP_NS:
        latest = max(row.clock_ns, state.directions[other_direction(direction)].clock_ns)
        _set_clock_back(state, connection, direction, latest - time_ns)
    row.clock_ns = time_ns


@jit_inner
def _set_clock_back(state: State, connection: int, direction: int, by_ns: int) -> None:
    """Move the times of what waits back by `by_ns`, because the clock of the capture was set back."""
    directions = state.directions
    state.connections[connection].clock_stepped_ns += by_ns
    directions[other_direction(direction)].clock_ns -= by_ns
    for either in range(2 * connection, 2 * connection + 2):
        row = directions[either]
        row.held_ns -= by_ns if row.held_ns != 0 else 0
        row.hole_ns -= by_ns if row.hole_ns != 0 else 0
        row.hole_acked_ns -= by_ns if row.hole_acked_ns != 0 else 0
