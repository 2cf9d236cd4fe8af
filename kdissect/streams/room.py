"""Room: every step of the engine asks for it before it begins, so no step stops half-way.

Two steps need room. A segment takes chunks (`room_for_segment`). A frame takes a node for what waits, rows
for the exchanges that it finishes, and bytes of the arena if it must be assembled (`room_for_frame`,
`room_for_assembly`). Each function returns DONE, or which pool is full; then the loop stops between two
steps, the caller makes room, and the loop goes on with the same step.

Exchanges are not asked for by the segment: one that fills a hole can release millions of frames, and so many
rows at once would not be a bound.
"""

from kdissect.jit.decorators import jit_inline, jit_inner
from kdissect.streams.flow_state import (
    DONE,
    FULL_ARENA,
    FULL_CHUNKS,
    FULL_EXCHANGES,
    FULL_WAITING,
    TOO_MUCH_HELD,
    State,
    other_direction,
)
from kdissect.streams.framing import has_assembly_room, lies_apart
from kdissect.streams.waiting_queue import rows_needed

# Nodes that a segment takes at most if it fits between chunks: parts before, between and behind, each of them
# captured or cut off, a gap for a hole, and as many to spare.
CHUNKS_OF_SEGMENT = 8
NODES_OF_FRAME = 2  # that a frame takes at most from the pool of what waits


@jit_inline
def chunks_needed(state: State, direction: int) -> int:
    """Return an upper bound of the nodes that the next segment of this direction may take from the pool.

    A segment may bring a part before each chunk that waits, and each hole may become a gap.
    """
    return 2 * state.directions[direction].ahead_count + CHUNKS_OF_SEGMENT


@jit_inline
def room_for_segment(state: State, direction: int) -> int:
    """Return DONE if a segment of a direction may be received, else what must be made first."""
    counters = state.counters
    if counters.held > counters.most_held:
        return TOO_MUCH_HELD
    needed = chunks_needed(state, direction) + chunks_needed(state, other_direction(direction))
    return DONE if counters.free_chunk_count >= needed else FULL_CHUNKS


@jit_inner
def room_for_holes(state: State, direction: int) -> int:
    """Return DONE if all holes of a direction may become gaps, else FULL_CHUNKS."""
    return DONE if state.counters.free_chunk_count >= chunks_needed(state, direction) else FULL_CHUNKS


@jit_inline
def room_for_frame(state: State, connection: int) -> int:
    """Return DONE if the next frame of a connection may be taken and paired, else which pool is full."""
    if state.counters.exchange_count + rows_needed(state, connection) > len(state.exchanges):
        return FULL_EXCHANGES
    if state.counters.free_waiting_count < NODES_OF_FRAME:
        return FULL_WAITING
    return DONE


@jit_inline
def room_for_assembly(state: State, direction: int, size: int) -> int:
    """Return DONE if the next frame, with a body of `size` bytes, lies in one place or may be assembled."""
    if has_assembly_room(state, size) or not lies_apart(state, direction, size):
        return DONE
    return FULL_ARENA
