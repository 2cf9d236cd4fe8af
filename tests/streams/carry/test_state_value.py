"""A state that was carried has the same lists, bytes and counters, and no more than is open."""

import numpy as np
import pytest

from kdissect.jit.rows import array_of
from kdissect.protocol.schema.registry import highest_versions
from kdissect.streams.carry.split_numbers import SplitNumbers
from kdissect.streams.carry.state_value import list_nodes, resumed_state, state_value
from kdissect.streams.carry.value_bytes import CarriedStateError
from kdissect.streams.flow_state import State
from kdissect.streams.state_pools import new_state, with_more_connections
from tests.helpers.state_kernels import put_chunk

VERSIONS = np.array(highest_versions(), np.int64)
BYTES = b"\0requests and responses"


def state_with_chunks() -> State:
    state = with_more_connections(new_state(VERSIONS), 3)
    arena = np.zeros(len(BYTES) + 512, np.uint8)
    arena[: len(BYTES)] = np.frombuffer(BYTES, np.uint8)
    state = state._replace(arena=arena)
    for direction, parts in ((0, [(0, 1, 8)]), (4, [(0, 10, 3), (3, 14, 9)]), (5, [(0, 1, 4), (4, 5, 2)])):
        for position, offset, length in parts:
            put_chunk(state, direction, position, offset, length, (7 << 40) + position + 1)
    state.counters.held = 77
    return state


def streams_of(state: State, direction: int) -> list[tuple[int, bytes]]:
    chunks, found = array_of(state.chunks), []
    node = int(array_of(state.directions)["head"][direction])
    while node >= 0:
        row = chunks[node]
        found.append(
            (int(row["position"]), state.arena[row["offset"] : row["offset"] + row["length"]].tobytes())
        )
        node = int(row["next"])
    return found


def test_kept_connections_have_their_bytes() -> None:
    state = state_with_chunks()
    value = state_value(state, np.array([0, 2]), len(BYTES), SplitNumbers())
    again = resumed_state(VERSIONS, value, 5)
    for direction, kept in ((0, 0), (1, 1), (4, 2), (5, 3)):
        assert streams_of(again, kept) == streams_of(state, direction)
    assert again.counters.held == 77
    assert array_of(again.chunks)["packet"][: len(value["chunks"])].min() >> 40 == 5
    tails = array_of(again.directions)["tail"][[0, 2, 3]].tolist()
    assert [int(array_of(again.chunks)["next"][tail]) for tail in tails] == [-1, -1, -1]


def test_all_other_nodes_are_free() -> None:
    state = resumed_state(VERSIONS, state_value(state_with_chunks(), np.array([2]), 30, SplitNumbers()), 0)
    links = np.ascontiguousarray(array_of(state.chunks)["next"])
    nodes = np.empty(len(links), np.int64)
    count = list_nodes(links, np.array([state.counters.free_chunk]), nodes)
    assert count == state.counters.free_chunk_count == len(links) - 4
    assert sorted(nodes[:count].tolist()) == list(range(4, len(links)))


def test_the_value_has_what_is_open_and_no_more() -> None:
    value = state_value(state_with_chunks(), np.array([1]), 1, SplitNumbers())
    assert [len(value[name]) for name in ("connections", "directions", "chunks", "waiting")] == [1, 2, 0, 0]


def test_a_value_with_other_fields_is_refused() -> None:
    value = state_value(state_with_chunks(), np.array([0]), 1, SplitNumbers()) | {"layout": "other"}
    with pytest.raises(CarriedStateError, match="another version"):
        resumed_state(VERSIONS, value, 0)
