"""A chain of large responses, in a direction whose other one was not captured.

`frame_search.find_chain` finds LONE_CHAIN responses whose bytes are all there. Those of consumers are too
large for that, so `follow_chain` keeps where the next one must begin, and lets their bytes go. The responses
before the last one of the chain are lost.

Many packets within a response begin like one by chance, of a random size. So of two chains that have just
begun, the one counts whose second response comes first.
"""

from kdissect.jit.decorators import jit_inner
from kdissect.protocol.integers import int32_at
from kdissect.streams.chunks import view_from
from kdissect.streams.flow_state import DirectionRow, State
from kdissect.streams.frame_search import begin_frame
from kdissect.streams.request_header import LENGTH_BYTES
from kdissect.streams.response_search import LONE_CHAIN, NO_LINK, RESPONSE_VIEW, is_link


@jit_inner
def follow_chain(state: State, direction: int) -> bool:
    """Follow the chain of a direction through what is not consumed, or begin one where a packet begins.

    Return whether it has LONE_CHAIN responses. The direction is in step at the last one then.
    """
    row = state.directions[direction]
    chain = row.chain
    if chain.position < row.frame:
        chain.frames = 0  # its next response was given up with what waited before it
    node = row.head
    while node >= 0:
        stop = state.chunks[node].position + state.chunks[node].length
        if stop > chain.looked:
            _begin_chain(state, direction, node)
            chain.looked = stop
        while chain.frames > 0 and chain.position < stop:
            position = chain.position
            if not _lengthen(state, direction, node):
                return False
            if chain.frames == LONE_CHAIN:
                return begin_frame(state, direction, position)
        node = state.chunks[node].next
    return False


@jit_inner
def _lengthen(state: State, direction: int, node: int) -> bool:
    """Add the response that begins in this chunk to the chain of a direction, or end the chain.

    Return False if more bytes must come to decide.
    """
    row = state.directions[direction]
    chain = row.chain
    offset, length = view_from(state, node, chain.position, RESPONSE_VIEW)
    if length < RESPONSE_VIEW:
        if chain.position + RESPONSE_VIEW > row.next:
            return False
        chain.frames = 0  # a gap
        return True
    size, correlation_id = int32_at(state.arena, offset), int32_at(state.arena, offset + LENGTH_BYTES)
    if is_link(size, correlation_id, chain.correlation_id):
        chain.frames += 1
        chain.correlation_id = correlation_id
        chain.position += LENGTH_BYTES + size
    else:
        chain.frames = 0
    return True


@jit_inner
def _begin_chain(state: State, direction: int, node: int) -> None:
    """Begin a chain with the packet of this chunk, unless there is a better one."""
    row = state.directions[direction]
    chain = row.chain
    chunk = state.chunks[node]
    if chain.frames > 1 or chunk.offset < 0 or chunk.length < RESPONSE_VIEW or chunk.position < row.frame:
        return
    size = int32_at(state.arena, chunk.offset)
    correlation_id = int32_at(state.arena, chunk.offset + LENGTH_BYTES)
    end = chunk.position + LENGTH_BYTES + size
    if is_link(size, correlation_id, NO_LINK) and (chain.frames == 0 or end < chain.position):
        chain.frames = 1
        chain.correlation_id = correlation_id
        chain.position = end


@jit_inner
def chain_needs(row: DirectionRow) -> int:
    """Return the position from which on the bytes of a direction are needed by its chain."""
    return row.chain.position if row.chain.frames > 0 else row.next
