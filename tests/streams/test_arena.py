"""Bytes that are still needed move to the next arena, and nothing else does."""

import numpy as np
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
    renewed, offset = renew_arena(state, 2, np.empty(0, np.uint8), 1000)
    assert offset == FIRST_OFFSET + 5 + 4
    assert renewed.arena[FIRST_OFFSET:offset].tobytes() == b"ABCDETUVW"
    assert len(renewed.arena) >= offset + 1000 + SCRATCH
    assert renewed.counters.assembly == offset + 1000
    for direction, position, expected in ((0, 2, b"CDE"), (3, 0, b"TUVW")):
        at, length = look(renewed, direction, position, 10)
        assert renewed.arena[at : at + length].tobytes() == expected


def test_an_arena_that_is_large_enough_is_used_again() -> None:
    other = np.empty(4096, np.uint8)
    renewed, offset = renew_arena(state_of(), 1, other, 100)
    assert renewed.arena is other
    assert offset == FIRST_OFFSET
