"""TCP reassembly: segments in capture order become the bytes of each direction, in order.

`receive` takes one segment. Bytes that continue the stream become chunks behind `TAIL`; bytes beyond a hole wait in
`AHEAD`, sorted; bytes that were there before are dropped (the first copy wins). A hole is given up, and becomes a gap
chunk, when nothing can fill it any more:

- the receiver has acknowledged what lies behind it, and `ACK_GRACE_NS` later the capture still has not got it: the bytes
  did arrive (RFC 9293, section 3.8.6), the capture lost them;
- more lies beyond it than a window can hold, or it is older than any retransmission;
- the connection is over.

Of a direction whose SYN is not in the capture nobody knows where it begins: something older may be sent again. It begins
behind a hole like any other, and waits in `AHEAD` until the receiver has acknowledged what is there, within the bounds
of `HELD_…`.

A segment whose numbers, its own and its acknowledgment, are both far from those before it belongs to another connection of
the same ports, whose opening was not captured: then the one before is over.

Times are compared with those of the same connection only. If its clock is set back, `set_clock_back` takes what waits
along.

A packet that the capture cut short (snaplen) leaves a gap at once, whose time and packet number are known.
"""

import numpy as np

from kdissect import limits
from kdissect.jit.decorators import copy_bytes, jit_inner
from kdissect.streams.flow_state import (
    ACKED,
    AHEAD,
    AHEAD_COUNT,
    AT,
    BASE,
    CLOCK_NS,
    CUT,
    FRAME,
    FREE_CHUNK,
    FREE_CHUNK_COUNT,
    HEAD,
    HELD,
    HELD_NS,
    HIGH,
    HOLE_ACKED_NS,
    HOLE_NS,
    LATEST_AHEAD,
    LENGTH,
    LOST,
    NEXT,
    NEXT_CHUNK,
    OVERFULL,
    PACKET,
    PAYLOAD,
    POSITION,
    PROBES,
    REORDERED,
    REPEATS,
    RETRANSMITTED,
    SCAN_CHUNK,
    SCANNED,
    SEEN,
    SEEN_CHUNK,
    SKIPPED,
    STARTED,
    STEPPED_NS,
    TAIL,
    TIME,
    WHOLE,
    State,
)

ACK_GRACE_NS = 20_000_000  # packets of one moment may be captured out of order; 20 ms is far beyond any queue
HELD_MAX_NS = 10_000_000_000  # of a beginning that nobody acknowledges
HELD_BYTES = 32 << 10
HELD_CHUNKS = 1 << 12
# RFC 6298 section 5.7: a sender may wait a minute and more before it tries again.
HOLE_MAX_AGE_NS = 120_000_000_000
MAX_AHEAD_BYTES = limits.AHEAD_BYTES
MAX_AHEAD_CHUNKS = max(1 << 10, MAX_AHEAD_BYTES >> 12)
GAP = -1
CHUNK_BYTES = 64  # that a chunk takes beside those of the stream
FAR_BYTES = 16 << 20  # more than lies between two segments of one connection, unless much was lost


@jit_inner
def unwrap(sequence: int, base: int, near: int) -> int:
    """Give the stream position of a 32-bit sequence number: the one closest to position `near`."""
    distance = (sequence - base - near) & 0xFFFFFFFF
    if distance >= 0x80000000:
        distance -= 0x100000000
    return near + distance


@jit_inner
def _new_chunk(state: State, position: int, at: int, length: int, time: int, packet: int) -> int:
    node = state.counters[FREE_CHUNK]
    chunks = state.chunks
    state.counters[FREE_CHUNK] = chunks[node, NEXT_CHUNK]
    state.counters[FREE_CHUNK_COUNT] -= 1
    state.counters[HELD] += CHUNK_BYTES + (length if at >= 0 else 0)
    chunks[node, POSITION] = position
    chunks[node, AT] = at
    chunks[node, LENGTH] = length
    chunks[node, TIME] = time
    chunks[node, PACKET] = packet
    chunks[node, NEXT_CHUNK] = -1
    return node


@jit_inner
def free_chunk(state: State, node: int) -> int:
    """Put a chunk back into the pool and return the one that followed it."""
    following = state.chunks[node, NEXT_CHUNK]
    state.counters[HELD] -= CHUNK_BYTES + (state.chunks[node, LENGTH] if state.chunks[node, AT] >= 0 else 0)
    state.chunks[node, NEXT_CHUNK] = state.counters[FREE_CHUNK]
    state.counters[FREE_CHUNK] = node
    state.counters[FREE_CHUNK_COUNT] += 1
    return following


@jit_inner
def _append(state: State, way: int, node: int) -> None:
    ways = state.ways
    if ways[way, TAIL] < 0:
        ways[way, HEAD] = node
    else:
        state.chunks[ways[way, TAIL], NEXT_CHUNK] = node
    ways[way, TAIL] = node
    ways[way, NEXT] = state.chunks[node, POSITION] + state.chunks[node, LENGTH]


@jit_inner
def _append_ready(state: State, way: int) -> None:
    """Move what no longer lies beyond a hole from AHEAD to the stream."""
    ways = state.ways
    while ways[way, AHEAD] >= 0 and state.chunks[ways[way, AHEAD], POSITION] <= ways[way, NEXT]:
        node = ways[way, AHEAD]
        if node == ways[way, LATEST_AHEAD]:
            ways[way, LATEST_AHEAD] = -1
        ways[way, AHEAD] = state.chunks[node, NEXT_CHUNK]
        state.chunks[node, NEXT_CHUNK] = -1
        ways[way, AHEAD_COUNT] -= 1
        _append(state, way, node)
    if ways[way, AHEAD] < 0:
        ways[way, HOLE_NS] = 0
    ways[way, HOLE_ACKED_NS] = 0


@jit_inner
def begin_at(state: State, way: int, sequence: int, acknowledged: bool) -> None:
    """Take note of the sequence number of a direction's first byte, unless bytes of it were consumed already.

    A SYN counts more than the acknowledgment in a SYN-ACK that was captured before it (`acknowledged`): that covers the
    data of the SYN.
    """
    ways = state.ways
    if acknowledged and ways[way, WHOLE] != 0:
        return
    if ways[way, STARTED] != 0 and ways[way, HELD_NS] == 0 and ways[way, HIGH] != 0:
        return
    if ways[way, HELD_NS] != 0:
        first = unwrap(sequence, ways[way, BASE], 0)
        if first > state.chunks[ways[way, AHEAD], POSITION] or first < -MAX_AHEAD_BYTES:
            return
        node = ways[way, AHEAD]
        while node >= 0:
            state.chunks[node, POSITION] -= first
            node = state.chunks[node, NEXT_CHUNK]
        ways[way, HIGH] -= first
        if not acknowledged:
            ways[way, HELD_NS] = 0
        ways[way, STARTED] = 1
    else:
        ways[way, STARTED] = 2 if acknowledged else 1
    ways[way, WHOLE] = 1
    ways[way, BASE] = sequence
    if ways[way, HELD_NS] != 0:
        return
    if ways[way, AHEAD] >= 0 and state.chunks[ways[way, AHEAD], POSITION] <= 0:
        _append_ready(state, way)


@jit_inner
def _release(state: State, way: int, time: int) -> None:
    """Let a direction without SYN begin with the first byte that came in time."""
    ways = state.ways
    first = state.chunks[ways[way, AHEAD], POSITION]
    if ways[way, WHOLE] == 0 or first < 0:
        ways[way, WHOLE] = 0
        ways[way, NEXT] = first
        ways[way, FRAME] = first
        ways[way, SCANNED] = ways[way, SEEN] = first
    ways[way, HELD_NS] = 0
    _append_ready(state, way)
    if ways[way, AHEAD] >= 0:
        ways[way, HOLE_NS] = time


@jit_inner
def give_up_hole(state: State, way: int) -> None:
    """Replace the hole after NEXT by a gap and go on behind it."""
    ways = state.ways
    if ways[way, HELD_NS] != 0:
        _release(state, way, ways[way, HELD_NS])
        return
    missing = state.chunks[ways[way, AHEAD], POSITION] - ways[way, NEXT]
    ways[way, LOST] += missing
    _append(state, way, _new_chunk(state, ways[way, NEXT], GAP, missing, -1, -1))
    _append_ready(state, way)


@jit_inner
def _insert_ahead(state: State, way: int, begin: int, at: int, end: int, time: int, packet: int) -> int:
    """Keep bytes begin..end for later, as far as they are new; return how many were."""
    ways = state.ways
    added = 0
    before = np.int64(-1)
    after = ways[way, AHEAD]
    latest = ways[way, LATEST_AHEAD]
    if latest >= 0 and state.chunks[latest, POSITION] + state.chunks[latest, LENGTH] <= begin:
        before = latest
        after = state.chunks[latest, NEXT_CHUNK]
    while begin < end:
        while after >= 0 and state.chunks[after, POSITION] + state.chunks[after, LENGTH] <= begin:
            before = after
            after = state.chunks[after, NEXT_CHUNK]
        if after >= 0 and state.chunks[after, POSITION] <= begin:
            known_to = state.chunks[after, POSITION] + state.chunks[after, LENGTH]
            if at >= 0:
                at += known_to - begin
            begin = known_to
            continue
        stop = end
        if after >= 0 and state.chunks[after, POSITION] < end:
            stop = state.chunks[after, POSITION]
        node = _new_chunk(state, begin, at, stop - begin, time, packet)
        state.chunks[node, NEXT_CHUNK] = after
        if before < 0:
            ways[way, AHEAD] = node
        else:
            state.chunks[before, NEXT_CHUNK] = node
        ways[way, AHEAD_COUNT] += 1
        ways[way, LATEST_AHEAD] = node
        before = node
        added += stop - begin
        if at >= 0:
            at += stop - begin
        begin = stop
    return added


@jit_inner
def _is_near(state: State, way: int, sequence: int) -> bool:
    ways = state.ways
    return bool(abs(unwrap(sequence, ways[way, BASE], ways[way, NEXT]) - ways[way, NEXT]) <= FAR_BYTES)


@jit_inner
def is_elsewhere(state: State, way: int, other: int, sequence: int, acknowledgment: int) -> bool:
    """Say whether a segment's numbers are all far from what both directions have said of theirs so far."""
    ways = state.ways
    if ways[way, STARTED] != 0 and _is_near(state, way, sequence):
        return False
    agreed = ways[other, ACKED]
    if agreed >= 0 and abs(unwrap(sequence, agreed, 0)) <= FAR_BYTES:
        return False
    if ways[way, STARTED] == 0 and agreed < 0:
        return False
    before = ways[way, ACKED]
    if before >= 0 and abs(unwrap(acknowledgment, before, 0)) <= FAR_BYTES:
        return False
    return ways[other, STARTED] == 0 or not _is_near(state, other, acknowledgment)


@jit_inner
def chunks_needed(state: State, way: int) -> int:
    """Give an upper bound of the nodes that the next segment of this direction may take from the pool."""
    return 2 * state.ways[way, AHEAD_COUNT] + 8


@jit_inner
def receive(
    state: State, way: int, time: int, packet: int, at: int, captured: int, missing: int, sequence: int
) -> int:
    """Add one segment's payload: `captured` bytes at arena[at:], then `missing` bytes that the capture cut off.

    Gives flags for it: REPEATS when some of them were there before, PROBES for a keep-alive probe.
    """
    ways = state.ways
    length = captured + missing
    ways[way, PAYLOAD] += length
    ways[way, CUT] += missing
    if ways[way, STARTED] == 0:
        ways[way, STARTED] = 1
        ways[way, BASE] = sequence
        ways[way, HELD_NS] = time
    elif ways[way, STARTED] == 2:
        ways[way, STARTED] = 1
        ways[way, HELD_NS] = time
    held = ways[way, HELD_NS] != 0
    begin = unwrap(sequence, ways[way, BASE], ways[way, NEXT])
    middle = begin + captured
    end = begin + length
    if end <= ways[way, NEXT] and not held:
        # A keep-alive probe repeats one byte by design (RFC 9293, section 3.8.4); it is no sign of loss.
        if length == 1 and end == ways[way, NEXT]:
            return PROBES
        ways[way, RETRANSMITTED] += 1
        return REPEATS
    repeats = 0
    high = ways[way, HIGH]
    if begin < ways[way, NEXT] and not held:
        skip = ways[way, NEXT] - begin
        ways[way, RETRANSMITTED] += 1
        repeats = REPEATS
        begin += skip
        at += skip
        middle = max(middle, begin)
    if (
        begin == ways[way, NEXT]
        and not held
        and (ways[way, AHEAD] < 0 or end <= state.chunks[ways[way, AHEAD], POSITION])
    ):
        if end < high:
            ways[way, REORDERED] += 1
        if middle > begin:
            _append(state, way, _new_chunk(state, begin, at, middle - begin, time, packet))
        if end > middle:
            ways[way, LOST] += end - middle
            _append(state, way, _new_chunk(state, middle, GAP, end - middle, time, packet))
        if ways[way, AHEAD] >= 0:
            _append_ready(state, way)
    else:
        added = 0
        if middle > begin:
            added = _insert_ahead(state, way, begin, at, middle, time, packet)
        if end > middle:
            cut = _insert_ahead(state, way, middle, GAP, end, time, packet)
            ways[way, LOST] += cut
            added += cut
        if added < end - begin:
            repeats = REPEATS
        if added == 0:
            ways[way, RETRANSMITTED] += 1
        elif end < high:
            ways[way, REORDERED] += 1
        if ways[way, HOLE_NS] == 0:
            ways[way, HOLE_NS] = time
        if not held and state.chunks[ways[way, AHEAD], POSITION] <= ways[way, NEXT]:
            _append_ready(state, way)
    ways[way, HIGH] = max(high, end)
    return repeats


@jit_inner
def acknowledge(state: State, way: int, acknowledgment: int, time: int) -> None:
    """Take note that the receiver of this direction has all bytes before a 32-bit acknowledgment number."""
    ways = state.ways
    if ways[way, AHEAD] < 0 or ways[way, HOLE_ACKED_NS] != 0:
        return
    if unwrap(acknowledgment, ways[way, BASE], ways[way, NEXT]) >= state.chunks[ways[way, AHEAD], POSITION]:
        ways[way, HOLE_ACKED_NS] = time


@jit_inner
def set_clock_back(state: State, connection: int, way: int, by_ns: int) -> None:
    """Go on with what waits as if the time were still the one before the clock was set back, as one direction shows."""
    ways = state.ways
    state.connections[connection, STEPPED_NS] += by_ns
    ways[4 * connection + 1 - way, CLOCK_NS] -= by_ns
    for either in range(2 * connection, 2 * connection + 2):
        for since in (HELD_NS, HOLE_NS, HOLE_ACKED_NS):
            if ways[either, since] != 0:
                ways[either, since] -= by_ns


@jit_inner
def _may_begin_earlier(state: State, way: int, time: int) -> bool:
    """Say whether bytes before the first ones of a direction may still come."""
    ways = state.ways
    if ways[way, WHOLE] != 0:
        return bool(time - ways[way, HELD_NS] <= ACK_GRACE_NS)
    first = state.chunks[ways[way, AHEAD], POSITION]
    acknowledged = ways[way, HOLE_ACKED_NS] != 0 and time - ways[way, HOLE_ACKED_NS] > ACK_GRACE_NS
    return bool(
        not acknowledged
        and time - ways[way, HELD_NS] <= HELD_MAX_NS
        and ways[way, HIGH] - first <= HELD_BYTES
        and ways[way, AHEAD_COUNT] <= HELD_CHUNKS
    )


@jit_inner
def settle(state: State, way: int, time: int) -> bool:
    """Give up the hole of this direction when nothing can fill it any more; say whether that happened."""
    ways = state.ways
    given_up = False
    if ways[way, HELD_NS] != 0:
        if _may_begin_earlier(state, way, time):
            return False
        _release(state, way, time)
        given_up = True
    while ways[way, AHEAD] >= 0:
        if not (
            (ways[way, HOLE_ACKED_NS] != 0 and time - ways[way, HOLE_ACKED_NS] > ACK_GRACE_NS)
            or time - ways[way, HOLE_NS] > HOLE_MAX_AGE_NS
        ):
            if (
                ways[way, HIGH] - ways[way, NEXT] <= MAX_AHEAD_BYTES
                and ways[way, AHEAD_COUNT] <= MAX_AHEAD_CHUNKS
            ):
                break
            ways[way, OVERFULL] += 1
        give_up_hole(state, way)
        if ways[way, AHEAD] >= 0:
            ways[way, HOLE_NS] = time
        given_up = True
    return given_up


@jit_inner
def discard(state: State, way: int, position: int) -> None:
    """Forget the chunks of this direction before a position: they are consumed."""
    ways = state.ways
    while ways[way, HEAD] >= 0:
        chunks = state.chunks
        node = ways[way, HEAD]
        if chunks[node, POSITION] + chunks[node, LENGTH] > position:
            break
        if node == ways[way, SCAN_CHUNK]:
            ways[way, SCAN_CHUNK] = -1
        if node == ways[way, SEEN_CHUNK]:
            ways[way, SEEN_CHUNK] = -1
        ways[way, HEAD] = free_chunk(state, node)
    if ways[way, HEAD] < 0:
        ways[way, TAIL] = -1
    ways[way, FRAME] = position


@jit_inner
def leave_gap(state: State, way: int, keep: int) -> None:
    """Put a gap in the place of all that is not consumed but its first bytes."""
    ways = state.ways
    chunks = state.chunks
    first = ways[way, FRAME] + keep
    end = ways[way, NEXT]
    if ways[way, HEAD] < 0 or first >= end:
        return
    last = ways[way, TAIL]
    time, packet = chunks[last, TIME], chunks[last, PACKET]
    before = np.int64(-1)
    node = ways[way, HEAD]
    while chunks[node, POSITION] + chunks[node, LENGTH] <= first:
        before = node
        node = chunks[node, NEXT_CHUNK]
    if chunks[node, POSITION] < first:
        if chunks[node, AT] >= 0:
            state.counters[HELD] -= chunks[node, POSITION] + chunks[node, LENGTH] - first
        chunks[node, LENGTH] = first - chunks[node, POSITION]
        before = node
        node = chunks[node, NEXT_CHUNK]
    while node >= 0:
        node = free_chunk(state, node)
    gap = _new_chunk(state, first, GAP, end - first, time, packet)
    if before < 0:
        ways[way, HEAD] = gap
    else:
        chunks[before, NEXT_CHUNK] = gap
    ways[way, TAIL] = gap
    discard(state, way, ways[way, FRAME])


@jit_inner
def skip(state: State, way: int, position: int) -> None:
    """Forget the chunks before a position as bytes that belong to no frame; gaps among them are counted as lost already."""
    ways = state.ways
    node = ways[way, HEAD]
    while node >= 0 and state.chunks[node, POSITION] < position:
        chunks = state.chunks
        if chunks[node, AT] >= 0:
            begin = max(ways[way, FRAME], chunks[node, POSITION])
            ways[way, SKIPPED] += min(position, chunks[node, POSITION] + chunks[node, LENGTH]) - begin
        node = chunks[node, NEXT_CHUNK]
    discard(state, way, position)


@jit_inner
def view(state: State, way: int, position: int, wanted: int) -> tuple[int, int]:
    """Give (offset, length) of stream bytes from a position on, contiguous in the arena, at most `wanted` of them.

    The length stops at a gap and at the end of what is known. Bytes that are spread over chunks are put together in
    the arena's scratch, which the next call uses again; `wanted` may not exceed `SCRATCH`.
    """
    return view_from(state, state.ways[way, HEAD], position, wanted)


@jit_inner
def view_from(state: State, node: int, position: int, wanted: int) -> tuple[int, int]:
    """Give what `view` gives, of a position that lies in this chunk or behind it."""
    arena = state.arena
    while node >= 0 and state.chunks[node, POSITION] + state.chunks[node, LENGTH] <= position:
        node = state.chunks[node, NEXT_CHUNK]
    if node < 0 or state.chunks[node, AT] < 0:
        return 0, 0
    offset = state.chunks[node, AT] + position - state.chunks[node, POSITION]
    length = state.chunks[node, POSITION] + state.chunks[node, LENGTH] - position
    if length >= wanted:
        return offset, wanted
    following = state.chunks[node, NEXT_CHUNK]
    if following < 0 or state.chunks[following, AT] < 0:
        return offset, length
    scratch = len(arena) - np.int64(512)
    filled = np.int64(0)
    while node >= 0 and state.chunks[node, AT] >= 0 and filled < wanted:
        chunks = state.chunks
        inside = position + filled - chunks[node, POSITION]
        take = min(wanted - filled, chunks[node, LENGTH] - inside)
        copy_bytes(arena, chunks[node, AT] + inside, arena, scratch + filled, take)
        filled += take
        node = chunks[node, NEXT_CHUNK]
    return scratch, filled  # type: ignore[return-value]
