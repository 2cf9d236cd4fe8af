"""Search for a response at a place of a stream that is out of step.

A response begins with a length and a correlation id, and nothing else. It is believed if a request waits for
its id and what stands behind its frame agrees, if lengths lead from it exactly to the end of its packet, or
if a chain of LONE_CHAIN frames begins with it whose ids count upwards.
"""

from kdissect.jit.decorators import jit_inline, jit_inner
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.integers import int32_at
from kdissect.streams.chunks import view_from
from kdissect.streams.flow_state import NOT_ENDING, State
from kdissect.streams.request_header import (
    LARGEST_WITHOUT_RECORDS,
    LENGTH_BYTES,
    MAX_FRAME,
    MAYBE,
    NO,
    UNSURE,
    YES,
)
from kdissect.streams.request_search import CHAIN_STEP, is_cut
from kdissect.streams.waiting_queue import MAX_WAITING, NEAR_WAITING, waiting_request

RESPONSE_VIEW = 8  # bytes: a length and a correlation id
SHORTEST_RESPONSE = 4
LONE_RESPONSE = 1 << 17  # bytes: a larger response must begin a packet
LONGEST_VERSIONS = 1 << 14  # of ApiVersions, whose response is full of what looks like a length and an id
LONE_CHAIN = 4  # frames in a row, with ids that count upwards by at most CHAIN_STEP, are no accident
FAR_STEP = 1 << 16  # between ids of one connection: clients have one count for all of theirs
NO_LINK = -1  # stands for the id before the first one of a chain
CHAIN_CHUNKS = 1 << 10  # lengths are followed so far, whatever the sizes of its packets


@jit_inline
def is_link(size: int, correlation_id: int, last: int) -> bool:
    """Return whether a frame may follow a response with the id `last` in a chain, or begin one (NO_LINK)."""
    if size < SHORTEST_RESPONSE or size > MAX_FRAME or correlation_id < 0:
        return False
    return last == NO_LINK or 0 < correlation_id - last <= CHAIN_STEP


@jit_inner
def chain_begins(state: State, node: int, position: int) -> bool:
    """Return whether LONE_CHAIN frames begin at a position in this chunk, with ids that count upwards."""
    count, last = 0, NO_LINK
    chunks = state.chunks
    for _ in range(CHAIN_CHUNKS):
        if chunks[node].position + chunks[node].length <= position:
            node = chunks[node].next
            if node < 0:
                return False
            continue
        offset, length = view_from(state, node, position, RESPONSE_VIEW)
        if length < RESPONSE_VIEW:
            return False
        size, correlation_id = int32_at(state.arena, offset), int32_at(state.arena, offset + LENGTH_BYTES)
        if not is_link(size, correlation_id, last):
            return False
        position, last, count = position + LENGTH_BYTES + size, correlation_id, count + 1
        if count == LONE_CHAIN:
            return True
    return False


@jit_inline
def _request_of(state: State, connection: int, correlation_id: int, begins: bool) -> int:
    """Return the node of the request that waits for a response with this id, -1 if none does.

    It is looked for among all only if a packet `begins` with the response, which few places do.
    """
    return waiting_request(state, connection, correlation_id, MAX_WAITING if begins else NEAR_WAITING)


@jit_inner
def _awaits(state: State, connection: int, correlation_id: int, size: int, begins: bool) -> bool:
    """Return whether a request waits for a response with this id, and that may have this size."""
    node = _request_of(state, connection, correlation_id, begins)
    if node < 0:
        return False
    key = state.waiting[node].api_key
    if size > LARGEST_WITHOUT_RECORDS:
        return bool(key == ApiKey.FETCH or key == ApiKey.SHARE_FETCH or key == ApiKey.FETCH_SNAPSHOT)
    return bool(size <= LONGEST_VERSIONS or key != ApiKey.API_VERSIONS)


@jit_inner
def _ends_with_packet(state: State, node: int, position: int) -> bool:
    """Return whether lengths lead from a position in this chunk exactly to the end of its packet."""
    chunks = state.chunks
    stop = chunks[node].position + chunks[node].length
    if is_cut(state, node):
        stop += chunks[chunks[node].next].length
    while position < stop:
        offset, length = view_from(state, node, position, RESPONSE_VIEW)
        if length < RESPONSE_VIEW:
            return False
        size = int32_at(state.arena, offset)
        if size < SHORTEST_RESPONSE or size > MAX_FRAME or int32_at(state.arena, offset + LENGTH_BYTES) < 0:
            return False
        position += LENGTH_BYTES + size
    return position == stop


@jit_inner
def _response_follows(
    state: State,
    connection: int,
    direction: int,
    node: int,
    position: int,
    correlation_id: int,
    sure: bool,
    begins: bool,
) -> bool:
    """Return whether the bytes at a position behind this chunk may be the response that follows this id.

    Their id must be one that a request waits for, or near the id before. With `sure` it must be close above,
    and the response must be small or all there. If no bytes are there, a packet must end at the position,
    unless a packet `begins` with the response before.
    """
    row = state.directions[direction]
    offset, length = view_from(state, node, position, RESPONSE_VIEW)
    if length < RESPONSE_VIEW:
        return begins or position == row.next or _ends_a_packet(state, node, position)
    size = int32_at(state.arena, offset)
    following = int32_at(state.arena, offset + LENGTH_BYTES)
    if size < SHORTEST_RESPONSE or size > MAX_FRAME or following == correlation_id:
        return False
    if following < 0 <= correlation_id:
        return False
    if sure and size > LONE_RESPONSE and row.next < position + LENGTH_BYTES + size:
        return False
    step = following - correlation_id
    close = 0 < step <= CHAIN_STEP if sure else abs(step) <= FAR_STEP
    return bool(close or _request_of(state, connection, following, begins) >= 0)


@jit_inner
def _ends_a_packet(state: State, node: int, position: int) -> bool:
    """Return whether a packet ends at a position: that of this chunk, or of one soon behind it."""
    chunks = state.chunks
    for _ in range(CHAIN_CHUNKS):
        if node < 0:
            return False
        end = chunks[node].position + chunks[node].length
        if end >= position:
            return bool(end == position and (chunks[node].offset >= 0 or chunks[node].packet >= 0))
        node = chunks[node].next
    return False


@jit_inner
def _has_hole(state: State, node: int, position: int) -> bool:
    """Return whether bytes were lost between this chunk and a position."""
    chunks = state.chunks
    for _ in range(CHAIN_CHUNKS):
        if node < 0 or chunks[node].position >= position:
            return False
        if chunks[node].offset < 0 and chunks[node].packet < 0:
            return True
        node = chunks[node].next
    return False


@jit_inner
def is_response(state: State, connection: int, direction: int, node: int, position: int) -> int:
    """Return whether a response begins at a position, in this chunk, of a stream that is out of step.

    The verdicts are those of `is_request`.
    """
    row = state.directions[direction]
    ending = state.connections[connection].ending != NOT_ENDING
    offset, length = view_from(state, node, position, RESPONSE_VIEW)
    if length < RESPONSE_VIEW:
        return NO if ending or position + length < row.next else UNSURE
    size = int32_at(state.arena, offset)
    correlation_id = int32_at(state.arena, offset + LENGTH_BYTES)
    if size < SHORTEST_RESPONSE or size > MAX_FRAME:
        return NO
    begins = position == state.chunks[node].position and state.chunks[node].length >= RESPONSE_VIEW
    if correlation_id < 0 and _request_of(state, connection, correlation_id, begins) < 0:
        return NO
    end = position + LENGTH_BYTES + size
    if (begins or size <= LONE_RESPONSE) and _awaits(state, connection, correlation_id, size, begins):
        # Small ids stand everywhere: what comes behind its frame must confirm one within a packet, or before
        # a hole.
        beyond = row.ahead >= 0 and row.next < end
        likely = begins and not beyond and not _has_hole(state, node, end)
        if not likely and row.next < end + RESPONSE_VIEW and row.next != end:
            if ending:
                return YES if row.next > end else NO
            return MAYBE
        if _response_follows(state, connection, direction, node, end, correlation_id, not likely, begins):
            return YES
    if not begins:
        return NO
    return YES if _ends_with_packet(state, node, position) or chain_begins(state, node, position) else NO
