"""Held records of a direction are shown in order with gaps, and dropped as far as they were used."""

from kdissect.streams.flow_state import GAP
from kdissect.streams.tls.held_records import FEW, held_chunks, let_go
from kdissect.streams.tls.record_layer import Chunk
from kdissect.streams.tls.tls_session import MOST_HELD
from tests.helpers.state_kernels import put_chunk, state_of


def test_chunks_and_gaps_come_in_order() -> None:
    state = state_of(arena=b".abc....defg")
    put_chunk(state, 1, 0, 1, 3, 1)
    put_chunk(state, 1, 3, GAP, 10, 2)
    put_chunk(state, 1, 13, 8, 4, 3)
    assert held_chunks(state, 1) == [
        Chunk(b"abc", 3, 1001, 1),
        Chunk(None, 10, 1002, 2),
        Chunk(b"defg", 4, 1003, 3),
    ]
    let_go(state, 1, 2, False)
    assert held_chunks(state, 1)[0] == Chunk(b"c", 1, 1001, 1)
    let_go(state, 1, 12, True)
    assert held_chunks(state, 1) == [Chunk(b"efg", 3, 1003, 3)]
    assert state.directions[1].scanned.position == 17 + MOST_HELD
    assert held_chunks(state, 0) == []


def test_any_number_of_chunks_is_shown() -> None:
    count = 5 * FEW
    state = state_of(arena=bytes(count))
    for number in range(count):
        put_chunk(state, 0, number, number, 1, number)
    assert [chunk.packet for chunk in held_chunks(state, 0)] == list(range(count))
