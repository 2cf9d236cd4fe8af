"""The tables of pass two (`flow_state.State`) as arrays, and back.

In come a state between two splits and the rows of the connections that go on. Out goes a value with these
rows, what waits in them, and the bytes that they still need. Rows and nodes are numbered anew, so a value has
the size of what is open, whatever came before. `resumed_state` returns a state that behaves like the one that
was carried.

A row is written as its integers. The names of all fields go with them (`LAYOUT`), so a value of a version
with other fields is refused.
"""

from typing import TypeVar

import numpy as np

from kdissect.array_types import Int64s
from kdissect.jit.decorators import jit_flat
from kdissect.jit.rows import Records, RowTable, array_of, dtype_of, integers_of, new_table
from kdissect.streams.carry.split_numbers import SplitNumbers, resumed_packets
from kdissect.streams.carry.value_bytes import CarriedStateError, Value
from kdissect.streams.flow_state import SCRATCH, ChunkRow, ConnectionRow, DirectionRow, ExchangeRow, State
from kdissect.streams.state_pools import new_state, with_more_connections

CHUNKS_ROOM, WAITING_ROOM = 1 << 10, 1 << 8  # nodes that are free at least
LAYOUT = ";".join(str(dtype_of(kind).descr) for kind in (ConnectionRow, DirectionRow, ChunkRow, ExchangeRow))

CHUNK_POINTERS = ("head", "tail", "ahead", "latest_ahead")  # of a direction
WAITING_POINTERS = ("first_waiting", "last_waiting", "first_early")  # of a connection
MARKS = ("scanned", "doubtful")

Node = TypeVar("Node", ChunkRow, ExchangeRow)


@jit_flat
def list_nodes(links: Int64s, first: Int64s, nodes: Int64s) -> int:
    """Fill `nodes` with the nodes of linked lists, one list after another. Return their number."""
    count = 0
    for index in range(len(first)):
        node = first[index]
        while node >= 0:
            nodes[count] = node
            count += 1
            node = links[node]
    return count


def both_directions(rows: Int64s) -> Int64s:
    """Return the rows of both directions of connections.

    >>> both_directions(np.array([0, 3])).tolist()
    [0, 1, 6, 7]
    """
    return (2 * rows[:, None] + np.arange(2)).ravel()


def state_value(state: State, rows: Int64s, arena_stop: int, numbers: SplitNumbers) -> Value:
    """Return what is known of the connections in `rows`, whose bytes lie in arena[:arena_stop]."""
    connections = array_of(state.connections)[rows]
    directions = array_of(state.directions)[both_directions(rows)]
    chunks, chunk_of = _kept_nodes(array_of(state.chunks), directions, ("head", "ahead"))
    waiting, waiting_of = _kept_nodes(array_of(state.waiting), connections, ("first_waiting", "first_early"))
    for name in CHUNK_POINTERS:
        directions[name] = chunk_of[directions[name]]
    for name in MARKS:
        directions[name]["chunk"] = chunk_of[directions[name]["chunk"]]
    for name in WAITING_POINTERS:
        connections[name] = waiting_of[connections[name]]
    chunks["packet"] = numbers.carried(chunks["packet"])
    for part in ("request", "response"):
        waiting[part]["packet"] = numbers.carried(waiting[part]["packet"])
    row_of = np.full(len(state.connections), -1)
    row_of[rows] = np.arange(len(rows))
    waiting["connection"] = row_of[waiting["connection"]]
    return {
        "layout": LAYOUT,
        "connections": integers_of(connections),
        "directions": integers_of(directions),
        "chunks": integers_of(chunks),
        "waiting": integers_of(waiting),
        "arena": state.arena[:arena_stop],
        "held": int(state.counters.held),
        "most_held": int(state.counters.most_held),
    }


def resumed_state(max_versions: Int64s, value: Value, first_split: int) -> State:
    """Return the state of a value. Raise CarriedStateError for one of another version.

    Its splits have numbers from `first_split` on.
    """
    if value["layout"] != LAYOUT:
        raise CarriedStateError("the carried state was written by another version of kdissect")
    count = len(value["connections"])
    state = with_more_connections(new_state(max_versions), count)
    integers_of(array_of(state.connections))[:count] = value["connections"]
    integers_of(array_of(state.directions))[: 2 * count] = value["directions"]
    chunks, free_chunks = _pool(ChunkRow, value["chunks"], CHUNKS_ROOM)
    waiting, free_waiting = _pool(ExchangeRow, value["waiting"], WAITING_ROOM)
    used = array_of(chunks)[: len(value["chunks"])]
    used["packet"] = resumed_packets(used["packet"], first_split)
    used = array_of(waiting)[: len(value["waiting"])]
    for part in ("request", "response"):
        used[part]["packet"] = resumed_packets(used[part]["packet"], first_split)
    arena = np.zeros(len(value["arena"]) + SCRATCH, np.uint8)
    arena[: len(value["arena"])] = value["arena"]
    counters = state.counters
    counters.free_chunk, counters.free_chunk_count = len(value["chunks"]), free_chunks
    counters.free_waiting, counters.free_waiting_count = len(value["waiting"]), free_waiting
    counters.assembly = len(value["arena"])
    counters.held, counters.most_held = value["held"], value["most_held"]
    return state._replace(chunks=chunks, waiting=waiting, arena=arena)


def _kept_nodes(pool: Records, owners: Records, lists: tuple[str, ...]) -> tuple[Records, Int64s]:
    """Return the nodes of the lists of `owners`, linked anew, and the new number of each old node.

    The last element of the numbers is -1, so that -1 stays -1.
    """
    links = np.ascontiguousarray(pool["next"])
    first = np.concatenate([owners[name] for name in lists])
    nodes = np.empty(len(pool), np.int64)
    nodes = nodes[: list_nodes(links, first, nodes)]
    number_of = np.full(len(pool) + 1, -1)
    number_of[nodes] = np.arange(len(nodes))
    kept = pool[nodes]
    kept["next"] = number_of[kept["next"]]
    return kept, number_of


def _pool(kind: type[Node], rows: Int64s, least: int) -> tuple[RowTable[Node], int]:
    """Return a pool that begins with used nodes, the free ones chained behind them, and how many are free."""
    used = len(rows)
    pool = new_table(kind, used + max(least, used))
    array = array_of(pool)
    integers_of(array)[:used] = rows
    array["next"][used:] = np.arange(used + 1, len(array) + 1)
    array["next"][-1] = -1
    return pool, len(array) - used
