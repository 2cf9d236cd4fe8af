"""The bytes of a direction as linked chunks, and the pool that the chunks come from.

A chunk is the bytes of one packet, or a gap: bytes of the stream that are not there. The chunks from `head`
to `tail` are in order and not consumed yet. The chunks from `ahead` on lie beyond a hole, sorted by position
(see `reassembly`). `discard` consumes bytes, `skip` consumes bytes that belong to no frame, and `view` shows
bytes that may be spread over several chunks.

Every chunk counts in `StateCounters.held`: CHUNK_BYTES for the node, and the bytes that it keeps.
"""

from kdissect.jit.decorators import copy_bytes, jit_inline, jit_inner
from kdissect.streams.flow_state import GAP, SCRATCH, State
from kdissect.streams.unread_payload import look_at

CHUNK_BYTES = 64  # of a node, beside its bytes of the stream


@jit_inner
def new_chunk(state: State, position: int, offset: int, length: int, time_ns: int, packet: int) -> int:
    """Return a node that was taken from the pool and filled. The offset is GAP if its bytes are not there."""
    node = state.counters.free_chunk
    chunk = state.chunks[node]
    state.counters.free_chunk = chunk.next
    state.counters.free_chunk_count -= 1
    state.counters.held += CHUNK_BYTES + (length if offset >= 0 else 0)
    chunk.position = position
    chunk.offset = offset
    chunk.length = length
    chunk.time_ns = time_ns
    chunk.packet = packet
    chunk.next = -1
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


@jit_inline
def append(state: State, direction: int, node: int) -> None:
    """Put a chunk behind the last one of the stream."""
    row = state.directions[direction]
    if row.tail < 0:
        row.head = node
    else:
        state.chunks[row.tail].next = node
    row.tail = node
    row.next = state.chunks[node].position + state.chunks[node].length


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
    gap = new_chunk(state, first, GAP, end - first, time, packet)
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
        look_at(state, offset, offset + wanted)
        return offset, wanted
    following = state.chunks[node].next
    if following < 0 or state.chunks[following].offset < 0:
        look_at(state, offset, offset + length)
        return offset, length
    scratch = len(arena) - SCRATCH
    filled = 0
    while node >= 0 and state.chunks[node].offset >= 0 and filled < wanted:
        chunks = state.chunks
        inside = position + filled - chunks[node].position
        take = min(wanted - filled, chunks[node].length - inside)
        look_at(state, chunks[node].offset + inside, chunks[node].offset + inside + take)
        copy_bytes(arena, chunks[node].offset + inside, arena, scratch + filled, take)
        filled += take
        node = chunks[node].next
    return scratch, filled


@jit_inner
def in_one_place(state: State, node: int, begin: int, end: int) -> tuple[int, int]:
    """Return (position, time_ns): how far the stream lies in one place of the arena, and when that came.

    The stretch begins at position `begin` in `node` and ends at `end` at most. The time is that of the packet
    with its last byte.
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
