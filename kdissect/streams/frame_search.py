"""The search for the next frame of a direction that is out of step.

A direction is out of step at a start in the middle of a connection, behind a gap that swallowed a length, and
when a header is impossible. Then the next boundary is searched byte by byte: a request by its header and the
header behind it (`request_search`), a response by the correlation id of a waiting request or by a chain of
lengths (`response_search`).

A search looks at every byte once. Two marks of the direction say how far it has come: no frame begins before
`scanned`; between `scanned` and `doubtful` a frame may begin, but more bytes must come to decide. The search
keeps the bytes behind `scanned` only, and decides after LONE_REQUEST or LONE_RESPONSE bytes at the latest.
"""

from kdissect.jit.decorators import jit_inner, jit_thin
from kdissect.streams.chunks import skip
from kdissect.streams.flow_state import NOT_ENDING, SearchMark, State, other_direction
from kdissect.streams.request_header import MAX_FRAME, MAYBE, NO, YES
from kdissect.streams.request_search import is_request
from kdissect.streams.response_search import RESPONSE_VIEW, chain_begins, is_response
from kdissect.streams.waiting_queue import EARLY_NS

MAX_HELD = 1 << 18  # bytes of a direction that are kept until the other one tells more about them
LARGEST_FIRST_BYTE = MAX_FRAME >> 24  # of a length


@jit_thin
def find_frame(state: State, connection: int, direction: int, client: bool) -> bool:
    """Search a direction that is out of step for the next frame, skip what lies before it.

    Return whether it was found. If not, keep only the bytes in which a frame may begin.
    """
    row = state.directions[direction]
    # Requests show where their responses begin, so a search for responses waits for them, within bounds.
    waits = not client and row.next - row.frame <= MAX_HELD
    if waits and _waits_for_requests(state, connection, direction):
        return False
    if _search(state, connection, direction, client):
        return True
    skip(state, direction, row.scanned.position)
    return False


@jit_inner
def _waits_for_requests(state: State, connection: int, direction: int) -> bool:
    """Return whether a search for responses should wait for their requests, or for any request at all."""
    other = other_direction(direction)
    other_row = state.directions[other]
    is_lone = other_row.highest == 0 and state.connections[connection].ending == NOT_ENDING
    is_searched = other_row.ahead >= 0 or (other_row.in_step == 0 and other_row.head >= 0)
    return bool(is_lone or is_searched)


@jit_thin
def find_request(state: State, connection: int, direction: int) -> bool:
    """Search a stream that is out of step for a request, skip what lies before it.

    Return whether it was found.
    """
    return _search(state, connection, direction, True)


@jit_inner
def find_chain(state: State, direction: int) -> bool:
    """Search a direction for a chain of responses that begins where a packet does, skip what lies before it.

    Return whether it was found. This serves connections whose other direction was not captured.
    """
    row = state.directions[direction]
    node = row.head
    while node >= 0:
        chunks = state.chunks
        position = max(row.frame, chunks[node].position)
        if (
            chunks[node].offset >= 0
            and chunks[node].length >= RESPONSE_VIEW
            and chain_begins(state, node, position)
        ):
            return begin_frame(state, direction, position)
        node = chunks[node].next
    return False


@jit_thin
def _search(state: State, connection: int, direction: int, requests: bool) -> bool:
    """Search a stream that is out of step for a request or a response, skip what lies before it.

    Return whether it was found. The first doubtful place is looked at again when more has come, until it is
    no longer doubtful.
    """
    row = state.directions[direction]
    doubtful = False
    if row.doubtful.position > max(row.scanned.position, row.frame):
        verdict = _look_on(
            state,
            connection,
            direction,
            requests,
            row.scanned,
            row.doubtful.position,
        )
        if verdict == YES:
            return begin_frame(state, direction, row.scanned.position)
        doubtful = verdict != NO
    row.doubtful.position = max(row.doubtful.position, row.scanned.position)
    verdict = MAYBE
    while verdict == MAYBE:
        verdict = _look_on(state, connection, direction, requests, row.doubtful, row.next)
        if verdict == YES:
            return begin_frame(state, direction, row.doubtful.position)
        if not doubtful:
            row.scanned.position = row.doubtful.position
            row.scanned.chunk = row.doubtful.chunk
        if verdict == MAYBE:
            doubtful = True
            row.doubtful.position += 1
    return False


@jit_thin
def _look_on(
    state: State, connection: int, direction: int, requests: bool, mark: SearchMark, limit: int
) -> int:
    """Look from a mark on for a place where a frame may begin, and set the mark there, or to the limit.

    Return the verdict on that place, NO if there is none.
    """
    row = state.directions[direction]
    arena = state.arena
    node = search_from(state, direction, mark)
    while node >= 0 and state.chunks[node].position < limit:
        chunks = state.chunks
        is_new = chunks[node].position >= row.doubtful.position
        if not requests and is_new and _is_early(state, connection, direction, node):
            mark.position = max(mark.position, row.frame, chunks[node].position)
            return NO
        if chunks[node].offset >= 0:
            begin = max(row.frame, mark.position, chunks[node].position)
            for position in range(begin, min(limit, chunks[node].position + chunks[node].length)):
                if arena[chunks[node].offset + position - chunks[node].position] > LARGEST_FIRST_BYTE:
                    continue
                if requests:
                    verdict = is_request(state, connection, direction, node, position)
                else:
                    verdict = is_response(state, connection, direction, node, position)
                if verdict != NO:
                    mark.position = position
                    return verdict
        mark.chunk = node
        node = chunks[node].next
    mark.position = max(mark.position, limit)
    return NO


@jit_inner
def _is_early(state: State, connection: int, direction: int, node: int) -> bool:
    """Return whether the request of a response in this chunk may be captured later than that."""
    row = state.directions[direction]
    age = row.clock_ns - state.chunks[node].time_ns
    held = row.next - row.frame
    return bool(
        0 <= age <= EARLY_NS and held <= MAX_HELD and state.connections[connection].ending == NOT_ENDING
    )


@jit_inner
def search_from(state: State, direction: int, mark: SearchMark) -> int:
    """Return the node of the chunk in which a search goes on from a mark, -1 when there is nothing new."""
    chunks = state.chunks
    node = mark.chunk
    if node < 0 or chunks[node].position > mark.position:
        node = state.directions[direction].head
    while node >= 0 and chunks[node].position + chunks[node].length <= mark.position:
        mark.chunk = node
        node = chunks[node].next
    return node


@jit_inner
def search_anew(state: State, direction: int) -> None:
    """Forget what a search has found out, because it looks for something else now, or by other rules."""
    row = state.directions[direction]
    row.scanned.position = row.doubtful.position = row.frame
    row.scanned.chunk = row.doubtful.chunk = -1


@jit_inner
def begin_frame(state: State, direction: int, position: int) -> bool:
    """Put a direction in step at a position, where a frame begins. Return True."""
    skip(state, direction, position)
    state.directions[direction].in_step = 1
    return True
