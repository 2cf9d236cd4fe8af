"""Room is asked for before a step, and the pool that has none is named."""

import pytest

from kdissect.jit.decorators import jit_flat
from kdissect.streams.flow_state import (
    DONE,
    FULL_ARENA,
    FULL_CHUNKS,
    FULL_EXCHANGES,
    FULL_WAITING,
    TOO_MUCH_HELD,
)
from kdissect.streams.room import CHUNKS_OF_SEGMENT, room_for_assembly, room_for_frame, room_for_segment
from tests.helpers.state_kernels import put_chunk, state_of


@jit_flat
def for_segment(state, direction):
    return room_for_segment(state, direction)


@jit_flat
def for_frame(state, connection):
    return room_for_frame(state, connection)


@jit_flat
def for_assembly(state, direction, size):
    return room_for_assembly(state, direction, size)


def test_a_segment_needs_chunks_for_both_directions() -> None:
    state = state_of()
    state.counters.most_held = 100
    assert for_segment(state, 0) == DONE
    state.directions[1].ahead_count = 5
    state.counters.free_chunk_count = 2 * CHUNKS_OF_SEGMENT + 10
    assert for_segment(state, 0) == DONE
    state.counters.free_chunk_count -= 1
    assert for_segment(state, 0) == FULL_CHUNKS
    state.counters.held = 101
    assert for_segment(state, 0) == TOO_MUCH_HELD


@pytest.mark.parametrize(("waiting", "early"), [(0, 0), (7, 0), (7, 3)])
def test_a_frame_may_finish_all_that_waits(waiting: int, early: int) -> None:
    state = state_of()
    state.connections[0].waiting_count, state.connections[0].early_count = waiting, early
    state.counters.exchange_count = len(state.exchanges) - waiting - early - 2
    assert for_frame(state, 0) == DONE
    state.counters.exchange_count += 1
    assert for_frame(state, 0) == FULL_EXCHANGES
    state.counters.exchange_count = 0
    state.counters.free_waiting_count = 1
    assert for_frame(state, 0) == FULL_WAITING


def test_only_a_spread_frame_needs_bytes_of_the_arena() -> None:
    state = state_of(arena=bytes(100), room=0)
    put_chunk(state, 0, 0, 1, 20, 1)
    put_chunk(state, 0, 20, 50, 20, 2)
    assert for_assembly(state, 0, 16) == DONE
    assert for_assembly(state, 0, 17) == FULL_ARENA
