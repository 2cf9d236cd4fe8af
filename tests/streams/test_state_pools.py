"""Pools grow without a node that is lost or there twice, and a row can begin anew."""

import pytest

from kdissect.jit.rows import array_of
from kdissect.streams.flow_state import KAFKA, OTHER, TLS, TLS_PASSED, UNDECIDED
from kdissect.streams.state_pools import (
    COUNTED,
    begin_anew,
    with_more_arena,
    with_more_chunks,
    with_more_connections,
    with_more_exchanges,
    with_more_waiting,
)
from tests.helpers.state_kernels import state_of


def free_nodes(table, first: int) -> list[int]:
    links, nodes = array_of(table)["next"], []
    while first >= 0:
        nodes.append(first)
        first = int(links[first])
    return nodes


def test_every_node_of_a_grown_pool_is_free_once() -> None:
    state = state_of()
    for grow, table, first, count in (
        (with_more_chunks, "chunks", "free_chunk", "free_chunk_count"),
        (with_more_waiting, "waiting", "free_waiting", "free_waiting_count"),
    ):
        for least in (1, 5000):
            state = grow(state, least)
        nodes = free_nodes(getattr(state, table), getattr(state.counters, first))
        assert sorted(nodes) == list(range(len(getattr(state, table))))
        assert getattr(state.counters, count) == len(nodes) >= 5000


def test_rows_stay_where_they_are() -> None:
    state = state_of(arena=b"kept")
    state.counters.assembly = 4
    state.connections[0].packets = 7
    state.exchanges[3].ordinal = 9
    state = with_more_arena(with_more_exchanges(with_more_connections(state, 500), 1), 10)
    assert (state.connections[0].packets, state.exchanges[3].ordinal) == (7, 9)
    assert state.arena[:4].tobytes() == b"kept"
    assert (state.connections[499].client_side, state.directions[999].head) == (-1, -1)


@pytest.mark.parametrize(
    ("before", "after"), [(KAFKA, KAFKA), (OTHER, UNDECIDED), (TLS, TLS_PASSED), (UNDECIDED, UNDECIDED)]
)
def test_another_connection_on_the_same_ports_keeps_what_was_counted(before: int, after: int) -> None:
    state = state_of()
    state.connections[0].protocol = before
    direction = state.directions[1]
    for number, name in enumerate(COUNTED):
        setattr(direction, name, number + 1)
    direction.next = direction.highest = 99
    begin_anew(state, 0)
    assert state.connections[0].protocol == after
    assert [getattr(direction, name) for name in COUNTED] == [number + 1 for number in range(len(COUNTED))]
    assert (direction.next, direction.highest, direction.head) == (0, 0, -1)
    assert direction.skipped_before == direction.skipped_bytes
