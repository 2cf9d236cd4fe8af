"""Bytes that are still needed move to the front of the arena, and nothing else stays."""

import pytest

from kdissect.streams.arena import FIRST_OFFSET, renew_arena
from kdissect.streams.flow_state import GAP, SCRATCH
from tests.helpers.state_kernels import consume, look, put_chunk, state_of


@pytest.mark.slow
def test_what_is_not_consumed_moves_to_the_front() -> None:
    state = state_of(connections=2, arena=b"." + bytes(range(65, 91)))
    put_chunk(state, 0, 0, 1, 5, 1)
    put_chunk(state, 0, 5, GAP, 100, 2)
    put_chunk(state, 3, 0, 20, 4, 3)
    consume(state, 0, 2, True)
    renewed, offset = renew_arena(state, 2, 1000)
    assert offset == FIRST_OFFSET + 5 + 4
    assert renewed.arena[FIRST_OFFSET:offset].tobytes() == b"ABCDETUVW"
    assert len(renewed.arena) >= offset + 1000 + SCRATCH
    assert renewed.counters.assembly == offset + 1000
    for direction, position, expected in ((0, 2, b"CDE"), (3, 0, b"TUVW")):
        at, length = look(renewed, direction, position, 10)
        assert renewed.arena[at : at + length].tobytes() == expected


def test_an_arena_that_is_large_enough_is_used_again() -> None:
    state = state_of(arena=bytes(4096))
    put_chunk(state, 0, 0, 2000, 3, 1)
    renewed, offset = renew_arena(state, 1, 100)
    assert renewed.arena is state.arena
    assert offset == FIRST_OFFSET + 3


def test_bytes_may_move_to_places_that_other_bytes_had() -> None:
    """The second direction's bytes lie where those of the first one go."""
    state = state_of(arena=b"." + b"second" + b"first" + bytes(4096))
    put_chunk(state, 0, 0, 7, 5, 1)
    put_chunk(state, 1, 0, 1, 6, 2)
    renewed, offset = renew_arena(state, 1, 100)
    assert renewed.arena[FIRST_OFFSET:offset].tobytes() == b"firstsecond"
    for direction, expected in ((0, b"first"), (1, b"second")):
        at, length = look(renewed, direction, 0, 10)
        assert renewed.arena[at : at + length].tobytes() == expected


def test_a_new_arena_has_a_least_size() -> None:
    state = state_of(arena=bytes(100))
    renewed, _ = renew_arena(state, 0, 1000, 1 << 20)
    assert len(renewed.arena) == 1 << 20
    again, _ = renew_arena(renewed, 0, 1000, 1 << 21)
    assert again.arena is renewed.arena
