"""TCP reassembly: segments in capture order become the bytes of each direction, in order.

`receive` takes one segment. Bytes that continue the stream become chunks behind `TAIL`; bytes beyond a hole
wait in `AHEAD`, sorted; bytes that were there before are dropped (the first copy wins). A hole is given up,
and becomes a gap chunk, when nothing can fill it any more:

- the receiver has acknowledged what lies behind it, and `ACK_GRACE_NS` later the capture still has not got
  it: the bytes did arrive (RFC 9293, section 3.8.6), the capture lost them;
- more lies beyond it than a window can hold, or it is older than any retransmission;
- the connection is over.

Of a direction whose SYN is not in the capture nobody knows where it begins: something older may be sent
again. It begins behind a hole like any other, and waits in `AHEAD` until the receiver has acknowledged what
is there, within the bounds of `HELD_…`.

A segment whose numbers, its own and its acknowledgment, are both far from those before it belongs to another
connection of the same ports, whose opening was not captured: then the one before is over.

Times are compared with those of the same connection only. If its clock is set back, `set_clock_back` takes
what waits along.

A packet that the capture cut short (snaplen) leaves a gap at once, whose time and packet number are known.
"""

from kdissect import limits
from kdissect.jit.decorators import copy_bytes, jit_inner
from kdissect.streams.flow_state import (
    GAP,
    PROBES,
    REPEATS,
    SCRATCH,
    State,
    other_direction,
)

ACK_GRACE_NS = 20_000_000  # packets of one moment may be captured out of order; 20 ms is far beyond any queue
HELD_MAX_NS = 10_000_000_000  # of a beginning that nobody acknowledges
HELD_BYTES = 32 << 10
HELD_CHUNKS = 1 << 12
# RFC 6298 section 5.7: a sender may wait a minute and more before it tries again.
HOLE_MAX_AGE_NS = 120_000_000_000
MAX_AHEAD_BYTES = limits.AHEAD_BYTES
MAX_AHEAD_CHUNKS = max(1 << 10, MAX_AHEAD_BYTES >> 12)
CHUNK_BYTES = 64  # that a chunk takes beside those of the stream
FAR_BYTES = 16 << 20  # more than lies between two segments of one connection, unless much was lost


@jit_inner
def unwrap(sequence: int, base: int, near: int) -> int:
    """Return the stream position of a 32-bit sequence number: the one closest to position `near`."""
    distance = (sequence - base - near) & 0xFFFFFFFF
    if distance >= 0x80000000:
        distance -= 0x100000000
    return near + distance


@jit_inner
def _new_chunk(state: State, position: int, at: int, length: int, time: int, packet: int) -> int:
    node = state.counters.free_chunk
    chunks = state.chunks
    state.counters.free_chunk = chunks[node].next
    state.counters.free_chunk_count -= 1
    state.counters.held += CHUNK_BYTES + (length if at >= 0 else 0)
    chunks[node].position = position
    chunks[node].offset = at
    chunks[node].length = length
    chunks[node].time_ns = time
    chunks[node].packet = packet
    chunks[node].next = -1
    return node


@jit_inner
def free_chunk(state: State, node: int) -> int:
    """Put a chunk back into the pool and return the one that followed it."""
    following = state.chunks[node].next
    state.counters.held -= CHUNK_BYTES + (state.chunks[node].length if state.chunks[node].offset >= 0 else 0)
    state.chunks[node].next = state.counters.free_chunk
    state.counters.free_chunk = node
    state.counters.free_chunk_count += 1
    return following


@jit_inner
def _append(state: State, direction: int, node: int) -> None:
    row = state.directions[direction]
    if row.tail < 0:
        row.head = node
    else:
        state.chunks[row.tail].next = node
    row.tail = node
    row.next = state.chunks[node].position + state.chunks[node].length


@jit_inner
def _append_ready(state: State, direction: int) -> None:
    """Move what no longer lies beyond a hole from AHEAD to the stream."""
    row = state.directions[direction]
    while row.ahead >= 0 and state.chunks[row.ahead].position <= row.next:
        node = row.ahead
        if node == row.latest_ahead:
            row.latest_ahead = -1
        row.ahead = state.chunks[node].next
        state.chunks[node].next = -1
        row.ahead_count -= 1
        _append(state, direction, node)
    if row.ahead < 0:
        row.hole_ns = 0
    row.hole_acked_ns = 0


@jit_inner
def begin_at(state: State, direction: int, sequence: int, acknowledged: bool) -> None:
    """Note the sequence number of a direction's first byte, unless bytes of it were consumed already.

    A SYN counts more than the acknowledgment in a SYN-ACK that was captured before it (`acknowledged`): that
    covers the data of the SYN.
    """
    row = state.directions[direction]
    if acknowledged and row.from_start != 0:
        return
    if row.started != 0 and row.held_ns == 0 and row.highest != 0:
        return
    if row.held_ns != 0:
        first = unwrap(sequence, row.first_sequence, 0)
        if first > state.chunks[row.ahead].position or first < -MAX_AHEAD_BYTES:
            return
        node = row.ahead
        while node >= 0:
            state.chunks[node].position -= first
            node = state.chunks[node].next
        row.highest -= first
        if not acknowledged:
            row.held_ns = 0
        row.started = 1
    else:
        row.started = 2 if acknowledged else 1
    row.from_start = 1
    row.first_sequence = sequence
    if row.held_ns != 0:
        return
    if row.ahead >= 0 and state.chunks[row.ahead].position <= 0:
        _append_ready(state, direction)


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
    """Replace the hole after NEXT by a gap and go on behind it."""
    row = state.directions[direction]
    if row.held_ns != 0:
        _release(state, direction, row.held_ns)
        return
    missing = state.chunks[row.ahead].position - row.next
    row.lost_bytes += missing
    _append(state, direction, _new_chunk(state, row.next, GAP, missing, -1, -1))
    _append_ready(state, direction)


@jit_inner
def _insert_ahead(state: State, direction: int, begin: int, at: int, end: int, time: int, packet: int) -> int:
    """Keep bytes begin..end for later, as far as they are new; return how many were."""
    row = state.directions[direction]
    added = 0
    before = -1
    after = row.ahead
    latest = row.latest_ahead
    if latest >= 0 and state.chunks[latest].position + state.chunks[latest].length <= begin:
        before = latest
        after = state.chunks[latest].next
    while begin < end:
        while after >= 0 and state.chunks[after].position + state.chunks[after].length <= begin:
            before = after
            after = state.chunks[after].next
        if after >= 0 and state.chunks[after].position <= begin:
            known_to = state.chunks[after].position + state.chunks[after].length
            if at >= 0:
                at += known_to - begin
            begin = known_to
            continue
        stop = end
        if after >= 0 and state.chunks[after].position < end:
            stop = state.chunks[after].position
        node = _new_chunk(state, begin, at, stop - begin, time, packet)
        state.chunks[node].next = after
        if before < 0:
            row.ahead = node
        else:
            state.chunks[before].next = node
        row.ahead_count += 1
        row.latest_ahead = node
        before = node
        added += stop - begin
        if at >= 0:
            at += stop - begin
        begin = stop
    return added


@jit_inner
def _is_near(state: State, direction: int, sequence: int) -> bool:
    row = state.directions[direction]
    return bool(abs(unwrap(sequence, row.first_sequence, row.next) - row.next) <= FAR_BYTES)


@jit_inner
def is_elsewhere(state: State, direction: int, other: int, sequence: int, acknowledgment: int) -> bool:
    """Return whether a segment's numbers are all far from what both directions have said of theirs so far."""
    row = state.directions[direction]
    directions = state.directions
    if row.started != 0 and _is_near(state, direction, sequence):
        return False
    agreed = directions[other].acked
    if agreed >= 0 and abs(unwrap(sequence, agreed, 0)) <= FAR_BYTES:
        return False
    if row.started == 0 and agreed < 0:
        return False
    before = row.acked
    if before >= 0 and abs(unwrap(acknowledgment, before, 0)) <= FAR_BYTES:
        return False
    return directions[other].started == 0 or not _is_near(state, other, acknowledgment)


@jit_inner
def chunks_needed(state: State, direction: int) -> int:
    """Return an upper bound of the nodes that the next segment of this direction may take from the pool."""
    return 2 * state.directions[direction].ahead_count + 8


@jit_inner
def _receive_ahead(
    state: State, direction: int, begin: int, middle: int, end: int, at: int, time: int, packet: int
) -> bool:
    """Keep bytes begin..end, of which the capture cut off those from `middle` on, beyond the hole.

    Return whether some of them were there before.
    """
    row = state.directions[direction]
    added = 0
    if middle > begin:
        added = _insert_ahead(state, direction, begin, at, middle, time, packet)
    if end > middle:
        cut = _insert_ahead(state, direction, middle, GAP, end, time, packet)
        row.lost_bytes += cut
        added += cut
    if added == 0:
        row.retransmitted += 1
    elif end < row.highest:
        row.reordered += 1
    if row.hole_ns == 0:
        row.hole_ns = time
    if row.held_ns == 0 and state.chunks[row.ahead].position <= row.next:
        _append_ready(state, direction)
    return added < end - begin


@jit_inner
def receive(
    state: State, direction: int, time: int, packet: int, at: int, captured: int, missing: int, sequence: int
) -> int:
    """Add one segment's payload.

    `captured` bytes at arena[at:], then `missing` bytes that the capture cut off.

    Returns flags for it: REPEATS when some of them were there before, PROBES for a keep-alive probe.
    """
    row = state.directions[direction]
    length = captured + missing
    row.payload_bytes += length
    row.cut_bytes += missing
    if row.started == 0:
        row.started = 1
        row.first_sequence = sequence
        row.held_ns = time
    elif row.started == 2:
        row.started = 1
        row.held_ns = time
    held = row.held_ns != 0
    begin = unwrap(sequence, row.first_sequence, row.next)
    middle = begin + captured
    end = begin + length
    if end <= row.next and not held:
        # A keep-alive probe repeats one byte by design (RFC 9293, section 3.8.4); it is no sign of loss.
        if length == 1 and end == row.next:
            return PROBES
        row.retransmitted += 1
        return REPEATS
    repeats = 0
    high = row.highest
    if begin < row.next and not held:
        skip = row.next - begin
        row.retransmitted += 1
        repeats = REPEATS
        begin += skip
        at += skip
        middle = max(middle, begin)
    if begin == row.next and not held and (row.ahead < 0 or end <= state.chunks[row.ahead].position):
        if end < high:
            row.reordered += 1
        if middle > begin:
            _append(state, direction, _new_chunk(state, begin, at, middle - begin, time, packet))
        if end > middle:
            row.lost_bytes += end - middle
            _append(state, direction, _new_chunk(state, middle, GAP, end - middle, time, packet))
        if row.ahead >= 0:
            _append_ready(state, direction)
    elif _receive_ahead(state, direction, begin, middle, end, at, time, packet):
        repeats = REPEATS
    row.highest = max(high, end)
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
def set_clock_back(state: State, connection: int, direction: int, by_ns: int) -> None:
    """Move the times of what waits back by `by_ns`, because the clock of the capture was set back."""
    directions = state.directions
    state.connections[connection].clock_stepped_ns += by_ns
    directions[other_direction(direction)].clock_ns -= by_ns
    for either in range(2 * connection, 2 * connection + 2):
        row = directions[either]
        row.held_ns -= by_ns if row.held_ns != 0 else 0
        row.hole_ns -= by_ns if row.hole_ns != 0 else 0
        row.hole_acked_ns -= by_ns if row.hole_acked_ns != 0 else 0


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
    """Return up the hole of this direction when nothing can fill it any more.

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


@jit_inner
def discard(state: State, direction: int, position: int) -> None:
    """Forget the chunks of this direction before a position: they are consumed."""
    row = state.directions[direction]
    while row.head >= 0:
        chunks = state.chunks
        node = row.head
        if chunks[node].position + chunks[node].length > position:
            break
        if node == row.scanned.chunk:
            row.scanned.chunk = -1
        if node == row.doubtful.chunk:
            row.doubtful.chunk = -1
        row.head = free_chunk(state, node)
    if row.head < 0:
        row.tail = -1
    row.frame = position


@jit_inner
def leave_gap(state: State, direction: int, keep: int) -> None:
    """Put a gap in the place of all that is not consumed but its first bytes."""
    row = state.directions[direction]
    chunks = state.chunks
    first = row.frame + keep
    end = row.next
    if row.head < 0 or first >= end:
        return
    last = row.tail
    time, packet = chunks[last].time_ns, chunks[last].packet
    before = -1
    node = row.head
    while chunks[node].position + chunks[node].length <= first:
        before = node
        node = chunks[node].next
    if chunks[node].position < first:
        if chunks[node].offset >= 0:
            state.counters.held -= chunks[node].position + chunks[node].length - first
        chunks[node].length = first - chunks[node].position
        before = node
        node = chunks[node].next
    while node >= 0:
        node = free_chunk(state, node)
    gap = _new_chunk(state, first, GAP, end - first, time, packet)
    if before < 0:
        row.head = gap
    else:
        chunks[before].next = gap
    row.tail = gap
    discard(state, direction, row.frame)


@jit_inner
def skip(state: State, direction: int, position: int) -> None:
    """Forget the chunks before a position as bytes that belong to no frame.

    Gaps among them are counted as lost already.
    """
    row = state.directions[direction]
    node = row.head
    while node >= 0 and state.chunks[node].position < position:
        chunks = state.chunks
        if chunks[node].offset >= 0:
            begin = max(row.frame, chunks[node].position)
            row.skipped_bytes += min(position, chunks[node].position + chunks[node].length) - begin
        node = chunks[node].next
    discard(state, direction, position)


@jit_inner
def view(state: State, direction: int, position: int, wanted: int) -> tuple[int, int]:
    """Return (offset, length) of at most `wanted` stream bytes from a position on, contiguous in the arena.

    The length stops at a gap and at the end of what is known. Bytes that are spread over chunks are put
    together in the arena's scratch, which the next call uses again; `wanted` may not exceed `SCRATCH`.
    """
    return view_from(state, state.directions[direction].head, position, wanted)


@jit_inner
def view_from(state: State, node: int, position: int, wanted: int) -> tuple[int, int]:
    """Return what `view` gives, of a position that lies in this chunk or behind it."""
    arena = state.arena
    while node >= 0 and state.chunks[node].position + state.chunks[node].length <= position:
        node = state.chunks[node].next
    if node < 0 or state.chunks[node].offset < 0:
        return 0, 0
    offset = state.chunks[node].offset + position - state.chunks[node].position
    length = state.chunks[node].position + state.chunks[node].length - position
    if length >= wanted:
        return offset, wanted
    following = state.chunks[node].next
    if following < 0 or state.chunks[following].offset < 0:
        return offset, length
    scratch = len(arena) - SCRATCH
    filled = 0
    while node >= 0 and state.chunks[node].offset >= 0 and filled < wanted:
        chunks = state.chunks
        inside = position + filled - chunks[node].position
        take = min(wanted - filled, chunks[node].length - inside)
        copy_bytes(arena, chunks[node].offset + inside, arena, scratch + filled, take)
        filled += take
        node = chunks[node].next
    return scratch, filled
