"""The arena from slab to slab: bytes that are still needed move to its front.

An arena is [carried over | read from the capture | assembled frames | scratch]. When a slab is done, its
bytes can be let go, except those that a chunk or a waiting message points to. `renew_arena` moves these to
the front, changes everything that points to them, and leaves room for the bytes of the next slab. These bytes
are few: to copy them twice costs less than two arenas, which would take 30 MB more in each worker.
"""

import numpy as np

from kdissect.array_types import Bytes
from kdissect.jit.decorators import copy_bytes, jit_flat, jit_inner
from kdissect.streams.flow_state import SCRATCH, FrameRow, State
from kdissect.streams.unread_payload import look_at

FIRST_OFFSET = 1  # byte 0 stays unused, because a message that starts at 0 is not there
SPARE = 2  # an arena that is too small is replaced by one that is larger than needed by this fraction


@jit_inner
def _carried_chunks(state: State, node: int, arena: Bytes, at: int, copy: bool) -> int:
    """Return the offset behind the bytes of a list of chunks, after they were moved to offset `at`."""
    while node >= 0:
        chunks = state.chunks
        if chunks[node].offset >= 0:
            if copy:
                look_at(state, chunks[node].offset, chunks[node].offset + chunks[node].length)
                copy_bytes(state.arena, chunks[node].offset, arena, at, chunks[node].length)
                chunks[node].offset = at
            at += chunks[node].length
        node = chunks[node].next
    return at


@jit_inner
def move_frame(frame: FrameRow, source: Bytes, target: Bytes, at: int) -> None:
    """Copy a message to offset `at` of another arena, and have it point there."""
    length = frame.stop - frame.start
    copy_bytes(source, frame.start, target, at, length)
    frame.frame_stop += at - frame.start
    frame.start = at
    frame.stop = at + length


@jit_inner
def _carried_frame(state: State, frame: FrameRow, arena: Bytes, at: int, copy: bool) -> int:
    """Return the offset behind the bytes of a message, after they were moved to offset `at`."""
    length = frame.stop - frame.start
    if copy:
        look_at(state, frame.start, frame.stop)
        move_frame(frame, state.arena, arena, at)
    return at + length


@jit_flat
def carry_over(state: State, count: int, arena: Bytes, copy: bool) -> int:
    """Return the offset behind the bytes that the first `count` connections still need.

    With `copy`, move them to the front of `arena`, and change everything that points to them.
    """
    at = FIRST_OFFSET
    for connection in range(count):
        for direction in range(2 * connection, 2 * connection + 2):
            at = _carried_chunks(state, state.directions[direction].head, arena, at, copy)
            at = _carried_chunks(state, state.directions[direction].ahead, arena, at, copy)
        node = state.connections[connection].first_waiting
        while node >= 0:
            at = _carried_frame(state, state.waiting[node].request, arena, at, copy)
            node = state.waiting[node].next
        node = state.connections[connection].first_early
        while node >= 0:
            at = _carried_frame(state, state.waiting[node].response, arena, at, copy)
            node = state.waiting[node].next
    return at


def renew_arena(state: State, count: int, size: int, least: int = 0) -> tuple[State, int]:
    """Return the state with a renewed arena, and the offset of `size` bytes of room in it.

    The arena keeps the bytes that the first `count` connections still need. If it is too small, the state
    gets a larger one, of at least `least` bytes. Memory is taken only when bytes are written to it.
    """
    kept = np.empty(carry_over(state, count, state.arena, False), np.uint8)
    carry_over(state, count, kept, True)
    needed = len(kept) + size + SCRATCH
    if len(state.arena) < needed:
        state = state._replace(arena=np.empty(max(needed + needed // SPARE, least), np.uint8))
    state.arena[FIRST_OFFSET : len(kept)] = kept[FIRST_OFFSET:]
    state.counters.assembly = len(kept) + size
    return state, len(kept)
