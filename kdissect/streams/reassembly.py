"""TCP reassembly: segments in capture order become the bytes of each direction, in order.

`receive` takes one segment. Bytes that continue the stream become chunks behind `tail`. Bytes beyond a hole
wait in `ahead`, sorted. Bytes that were there before are dropped: the first copy wins. `settle` gives up a
hole, which becomes a gap chunk, when nothing can fill it any more:

- The receiver has acknowledged what lies behind the hole, and ACK_GRACE_NS later the capture still has not
  got it. The bytes did arrive (RFC 9293, section 3.8.6), and the capture lost them.
- More lies beyond the hole than a window can hold, or the hole is older than any retransmission.
- The connection is over.

If the SYN of a direction is not in the capture, nobody knows where the direction begins: older bytes may be
sent again. Such a direction begins behind a hole like any other. It waits in `ahead` until the receiver has
acknowledged what is there, within the bounds of `HELD_…`.

A packet that the capture cut short (snaplen) leaves a gap at once, whose time and packet number are known.
"""

from kdissect import limits
from kdissect.jit.decorators import jit_inline, jit_inner
from kdissect.streams.chunks import append, new_chunk
from kdissect.streams.flow_state import (
    BEGAN,
    BEGIN_ACKNOWLEDGED,
    GAP,
    NOT_BEGUN,
    PROBES,
    REPEATS,
    DirectionRow,
    SegmentRow,
    State,
)

ACK_GRACE_NS = 20_000_000  # packets of one moment may be captured out of order; 20 ms is far beyond any queue
HELD_MAX_NS = 10_000_000_000  # how long a beginning waits that nobody acknowledges
HELD_BYTES = 32 << 10
HELD_CHUNKS = 1 << 12
# RFC 6298 section 5.7: a sender may wait a minute and more before it tries again.
HOLE_MAX_AGE_NS = 120_000_000_000
MAX_AHEAD_BYTES = limits.AHEAD_BYTES
MAX_AHEAD_CHUNKS = max(1 << 10, MAX_AHEAD_BYTES >> 12)


@jit_inner
def unwrap(sequence: int, base: int, near: int) -> int:
    """Return the stream position of a 32-bit sequence number: the one closest to position `near`."""
    distance = (sequence - base - near) & 0xFFFFFFFF
    if distance >= 0x80000000:
        distance -= 0x100000000
    return near + distance


@jit_inner
def _append_ready(state: State, direction: int) -> None:
    """Move the chunks that no longer lie beyond a hole from `ahead` to the stream."""
    row = state.directions[direction]
    while row.ahead >= 0 and state.chunks[row.ahead].position <= row.next:
        node = row.ahead
        if node == row.latest_ahead:
            row.latest_ahead = -1
        row.ahead = state.chunks[node].next
        state.chunks[node].next = -1
        row.ahead_count -= 1
        append(state, direction, node)
    if row.ahead < 0:
        row.hole_ns = 0
    row.hole_acked_ns = 0


@jit_inner
def begin_at(state: State, direction: int, sequence: int, acknowledged: bool) -> None:
    """Note the sequence number of a direction's first byte, unless bytes of it were consumed already.

    The number comes from a SYN, or from the acknowledgment in a SYN-ACK (`acknowledged`). A SYN counts more
    than a SYN-ACK that was captured before it, because that one also acknowledges the data of the SYN.
    """
    row = state.directions[direction]
    if acknowledged and row.from_start != 0:
        return
    if row.begun != NOT_BEGUN and row.held_ns == 0 and row.highest != 0:
        return
    if row.held_ns != 0:
        first = unwrap(sequence, row.first_sequence, 0)
        if first > state.chunks[row.ahead].position or first < -MAX_AHEAD_BYTES:
            return
        _count_from(state, direction, first)
        if not acknowledged:
            row.held_ns = 0
        row.begun = BEGAN
    else:
        row.begun = BEGIN_ACKNOWLEDGED if acknowledged else BEGAN
    row.from_start = 1
    row.first_sequence = sequence
    if row.held_ns != 0:
        return
    if row.ahead >= 0 and state.chunks[row.ahead].position <= 0:
        _append_ready(state, direction)


@jit_inner
def _count_from(state: State, direction: int, first: int) -> None:
    """Make position `first` the new position 0 of a direction that waits for its beginning."""
    row = state.directions[direction]
    node = row.ahead
    while node >= 0:
        state.chunks[node].position -= first
        node = state.chunks[node].next
    row.highest -= first


@jit_inner
def _release(state: State, direction: int, time: int) -> None:
    """Have a direction without SYN begin with the first byte that came in time."""
    row = state.directions[direction]
    first = state.chunks[row.ahead].position
    if row.from_start == 0 or first < 0:
        row.from_start = 0
        row.next = first
        row.frame = first
        row.scanned.position = row.doubtful.position = first
    row.held_ns = 0
    _append_ready(state, direction)
    if row.ahead >= 0:
        row.hole_ns = time


@jit_inner
def give_up_hole(state: State, direction: int) -> None:
    """Replace the hole behind `next` by a gap and go on behind it."""
    row = state.directions[direction]
    if row.held_ns != 0:
        _release(state, direction, row.held_ns)
        return
    missing = state.chunks[row.ahead].position - row.next
    row.lost_bytes += missing
    append(state, direction, new_chunk(state, row.next, GAP, missing, -1, -1))
    _append_ready(state, direction)


@jit_inner
def _insert_ahead(
    state: State, direction: int, segment: SegmentRow, begin: int, end: int, offset: int
) -> int:
    """Keep the bytes begin..end of a segment for later, as far as they are new; return how many were.

    They lie at `offset` in the arena, or nowhere (GAP).
    """
    row = state.directions[direction]
    added = 0
    before = -1
    after = row.ahead
    latest = row.latest_ahead
    if latest >= 0 and state.chunks[latest].position + state.chunks[latest].length <= begin:
        # Segments behind a hole mostly come in order, so the search begins where the last one was put.
        before = latest
        after = state.chunks[latest].next
    while begin < end:
        while after >= 0 and state.chunks[after].position + state.chunks[after].length <= begin:
            before = after
            after = state.chunks[after].next
        if after >= 0 and state.chunks[after].position <= begin:
            known_to = state.chunks[after].position + state.chunks[after].length
            if offset >= 0:
                offset += known_to - begin
            begin = known_to
            continue
        stop = end
        if after >= 0 and state.chunks[after].position < end:
            stop = state.chunks[after].position
        node = new_chunk(state, begin, offset, stop - begin, segment.time_ns, segment.packet)
        state.chunks[node].next = after
        if before < 0:
            row.ahead = node
        else:
            state.chunks[before].next = node
        row.ahead_count += 1
        row.latest_ahead = node
        before = node
        added += stop - begin
        if offset >= 0:
            offset += stop - begin
        begin = stop
    return added


@jit_inner
def _receive_ahead(
    state: State, direction: int, segment: SegmentRow, begin: int, middle: int, end: int, offset: int
) -> bool:
    """Keep the bytes begin..end of a segment beyond the hole; the capture cut off those from `middle` on.

    Return whether some of them were there before.
    """
    row = state.directions[direction]
    added = 0
    if middle > begin:
        added = _insert_ahead(state, direction, segment, begin, middle, offset)
    if end > middle:
        cut = _insert_ahead(state, direction, segment, middle, end, GAP)
        row.lost_bytes += cut
        added += cut
    if added == 0:
        row.retransmitted += 1
    elif end < row.highest:
        row.reordered += 1
    if row.hole_ns == 0:
        row.hole_ns = segment.time_ns
    if row.held_ns == 0 and state.chunks[row.ahead].position <= row.next:
        _append_ready(state, direction)
    return added < end - begin


@jit_inline
def _receive_next(
    state: State, direction: int, segment: SegmentRow, begin: int, middle: int, end: int, offset: int
) -> None:
    """Put the bytes begin..end of a segment behind the stream; the capture cut off those from `middle` on."""
    row = state.directions[direction]
    if end < row.highest:
        row.reordered += 1
    if middle > begin:
        append(
            state,
            direction,
            new_chunk(state, begin, offset, middle - begin, segment.time_ns, segment.packet),
        )
    if end > middle:
        row.lost_bytes += end - middle
        append(state, direction, new_chunk(state, middle, GAP, end - middle, segment.time_ns, segment.packet))
    if row.ahead >= 0:
        _append_ready(state, direction)


@jit_inner
def _note_beginning(row: DirectionRow, segment: SegmentRow) -> None:
    """Have a direction wait for its beginning if no SYN has shown where that is."""
    if row.begun == NOT_BEGUN:
        row.first_sequence = segment.sequence
        row.held_ns = segment.time_ns
    elif row.begun == BEGIN_ACKNOWLEDGED:
        row.held_ns = segment.time_ns
    row.begun = BEGAN


@jit_inner
def receive(state: State, direction: int, segment: SegmentRow) -> int:
    """Add the payload of one segment to its direction.

    Return flags for the segment: REPEATS when some of its bytes were there before, PROBES for a keep-alive
    probe.
    """
    row = state.directions[direction]
    length = segment.captured + segment.missing
    row.payload_bytes += length
    row.cut_bytes += segment.missing
    if row.begun != BEGAN:
        _note_beginning(row, segment)
    held = row.held_ns != 0
    offset = segment.offset
    begin = unwrap(segment.sequence, row.first_sequence, row.next)
    middle = begin + segment.captured
    end = begin + length
    if end <= row.next and not held:
        # A keep-alive probe repeats one byte by design (RFC 9293, section 3.8.4); it is no sign of loss.
        if length == 1 and end == row.next:
            return PROBES
        row.retransmitted += 1
        return REPEATS
    repeats = 0
    if begin < row.next and not held:
        row.retransmitted += 1
        repeats = REPEATS
        offset += row.next - begin
        begin = row.next
        middle = max(middle, begin)
    if begin == row.next and not held and (row.ahead < 0 or end <= state.chunks[row.ahead].position):
        _receive_next(state, direction, segment, begin, middle, end, offset)
    elif _receive_ahead(state, direction, segment, begin, middle, end, offset):
        repeats = REPEATS
    row.highest = max(row.highest, end)
    return repeats


@jit_inner
def acknowledge(state: State, direction: int, acknowledgment: int, time: int) -> None:
    """Note that the receiver of this direction has all bytes before a 32-bit acknowledgment number."""
    row = state.directions[direction]
    if row.ahead < 0 or row.hole_acked_ns != 0:
        return
    if unwrap(acknowledgment, row.first_sequence, row.next) >= state.chunks[row.ahead].position:
        row.hole_acked_ns = time


@jit_inner
def _may_begin_earlier(state: State, direction: int, time: int) -> bool:
    """Return whether bytes before the first ones of a direction may still come."""
    row = state.directions[direction]
    if row.from_start != 0:
        return bool(time - row.held_ns <= ACK_GRACE_NS)
    first = state.chunks[row.ahead].position
    acknowledged = row.hole_acked_ns != 0 and time - row.hole_acked_ns > ACK_GRACE_NS
    return bool(
        not acknowledged
        and time - row.held_ns <= HELD_MAX_NS
        and row.highest - first <= HELD_BYTES
        and row.ahead_count <= HELD_CHUNKS
    )


@jit_inner
def settle(state: State, direction: int, time: int) -> bool:
    """Replace the hole of a direction by a gap when nothing can fill it any more.

    Return whether that happened.
    """
    row = state.directions[direction]
    given_up = False
    if row.held_ns != 0:
        if _may_begin_earlier(state, direction, time):
            return False
        _release(state, direction, time)
        given_up = True
    while row.ahead >= 0:
        if not (
            (row.hole_acked_ns != 0 and time - row.hole_acked_ns > ACK_GRACE_NS)
            or time - row.hole_ns > HOLE_MAX_AGE_NS
        ):
            if row.highest - row.next <= MAX_AHEAD_BYTES and row.ahead_count <= MAX_AHEAD_CHUNKS:
                break
            row.overfull_holes += 1
        give_up_hole(state, direction)
        if row.ahead >= 0:
            row.hole_ns = time
        given_up = True
    return given_up
