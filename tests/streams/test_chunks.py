"""Chunks of a stream: they come from a pool and go back, and bytes spread over them can be read."""

from kdissect.streams.chunks import CHUNK_BYTES
from kdissect.streams.flow_state import GAP
from tests.helpers.state_kernels import consume, look, put_chunk, state_of

ARENA = b".abc....defg...."


def spread():
    state = state_of(arena=ARENA)
    put_chunk(state, 0, 0, 1, 3, 1)
    put_chunk(state, 0, 3, 8, 4, 2)
    return state


def seen(state, position: int, wanted: int) -> bytes:
    offset, length = look(state, 0, position, wanted)
    return state.arena[offset : offset + length].tobytes()


def test_bytes_spread_over_chunks_are_seen_together() -> None:
    state = spread()
    assert [seen(state, at, 4) for at in range(8)] == [
        b"abcd",
        b"bcde",
        b"cdef",
        b"defg",
        b"efg",
        b"fg",
        b"g",
        b"",
    ]
    assert state.directions[0].next == 7


def test_a_view_ends_at_a_gap() -> None:
    state = spread()
    put_chunk(state, 0, 7, GAP, 10, 3)
    put_chunk(state, 0, 17, 1, 2, 4)
    assert (seen(state, 0, 20), seen(state, 7, 5), seen(state, 17, 5)) == (b"abcdefg", b"", b"ab")


def test_consumed_chunks_go_back_to_the_pool() -> None:
    state = spread()
    free = state.counters.free_chunk_count
    assert state.counters.held == 2 * CHUNK_BYTES + 7
    consume(state, 0, 4, True)
    assert state.counters.free_chunk_count == free + 1
    assert state.counters.held == CHUNK_BYTES + 4
    assert (state.directions[0].frame, state.directions[0].skipped_bytes) == (4, 0)
    assert seen(state, 4, 9) == b"efg"
    consume(state, 0, 7, True)
    assert (state.directions[0].head, state.directions[0].tail, state.counters.held) == (-1, -1, 0)


def test_skipped_bytes_count_unless_the_capture_lost_them() -> None:
    state = spread()
    put_chunk(state, 0, 7, GAP, 10, 3)
    consume(state, 0, 2, False)
    consume(state, 0, 12, False)
    assert state.directions[0].skipped_bytes == 7
