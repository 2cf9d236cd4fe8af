"""How a state begins and grows: an empty state, room for more rows, and a row for a new connection.

Compiled loops cannot allocate. When a pool has no room they stop and name it (`room`); these functions return
a state with a larger one. Node numbers and offsets stay valid, since a pool keeps its rows in their places.
"""

import numpy as np
from numpy.typing import NDArray

from kdissect.array_types import Int64s
from kdissect.jit.rows import array_of, grown_table, integers_of, new_table
from kdissect.jit.unread_bytes import NOTHING_UNREAD
from kdissect.streams.flow_state import (
    OTHER,
    SCRATCH,
    TLS,
    TLS_PASSED,
    UNDECIDED,
    ChunkRow,
    ConnectionRow,
    DirectionRow,
    ExchangeRow,
    FrameRow,
    SegmentRow,
    State,
    StateCounters,
)

# Fields in which nothing is -1.
ABSENT_IN_CONNECTION = ("client_side", "opened_by", "first_waiting", "last_waiting", "first_early")
ABSENT_IN_DIRECTION = ("head", "tail", "ahead", "latest_ahead", "acked", "first_sent", "first_expected")

# Fields of a direction that stay when another connection uses the same ports: what was counted, and how it
# was opened first.
COUNTED = (
    "lost_bytes", "skipped_bytes", "retransmitted", "reordered", "payload_bytes", "cut_bytes",
    "oversized_frames", "overfull_holes", "first_sent", "first_expected", "conflicts",
)  # fmt: skip


def new_state(max_versions: Int64s) -> State:
    """Return an empty state. `max_versions[key]` is the highest version of an API key that ever existed."""
    state = State(
        connections=new_table(ConnectionRow, 0),
        directions=new_table(DirectionRow, 0),
        chunks=new_table(ChunkRow, 0),
        waiting=new_table(ExchangeRow, 0),
        exchanges=new_table(ExchangeRow, 0),
        counters=new_table(StateCounters, 1)[0],
        arena=np.zeros(SCRATCH, np.uint8),
        max_versions=max_versions,
        segment=new_table(SegmentRow, 1)[0],
        frame=new_table(FrameRow, 1)[0],
        blank=new_table(ExchangeRow, 1)[0],
        unread=NOTHING_UNREAD,
    )
    state.counters.free_chunk = state.counters.free_waiting = -1
    state.counters.reading = state.counters.read_next = -1
    state = with_more_chunks(state, 1 << 10)
    state = with_more_waiting(state, 1 << 8)
    return with_more_exchanges(state, 1 << 10)


def with_more_connections(state: State, count: int) -> State:
    """Return the state with room for `count` connections in all, fresh rows ready for use."""
    have = len(state.connections)
    if count <= have:
        return state
    room = max(count, 2 * have, 64)
    connections = grown_table(ConnectionRow, state.connections, room)
    directions = grown_table(DirectionRow, state.directions, 2 * room)
    _blank_connections(array_of(connections), slice(have, None))
    _blank_directions(array_of(directions), slice(2 * have, None))
    return state._replace(connections=connections, directions=directions)


def forget_connections(state: State, rows: Int64s) -> None:
    """Make the rows of connections that have ended ready for others."""
    connections, directions = array_of(state.connections), array_of(state.directions)
    both = np.concatenate([2 * rows, 2 * rows + 1])
    integers_of(connections)[rows] = 0
    integers_of(directions)[both] = 0
    _blank_connections(connections, rows)
    _blank_directions(directions, both)


def _blank_connections(connections: NDArray[np.void], rows: Int64s | slice) -> None:
    """Fill rows of zeros with what they hold before their first segment."""
    for name in ABSENT_IN_CONNECTION:
        connections[name][rows] = -1


def _blank_directions(directions: NDArray[np.void], rows: Int64s | slice) -> None:
    """Fill rows of zeros with what they hold before their first segment."""
    for name in ABSENT_IN_DIRECTION:
        directions[name][rows] = -1
    for mark in ("scanned", "doubtful"):
        directions[mark]["chunk"][rows] = -1


def begin_anew(state: State, connection: int) -> None:
    """Make a row ready for another connection on the same ports, after the one before has ended.

    The counters stay. The protocol stays, too, because a server's port has one protocol. Under TLS a
    connection cannot be read whose opening is not there.
    """
    row = array_of(state.connections)[connection : connection + 1]
    protocol = int(row["protocol"][0])
    row["protocol"] = {OTHER: UNDECIDED, TLS: TLS_PASSED}.get(protocol, protocol)
    row["raw_sasl"] = row["clock_stepped_ns"] = row["ending"] = 0
    row["ack_ns"][row["ack_ns"] == 0] = -1  # it will not come any more
    directions = array_of(state.directions)[2 * connection : 2 * connection + 2]
    counted = {name: directions[name].copy() for name in COUNTED}
    integers_of(directions)[:] = 0
    _blank_directions(directions, slice(None))
    for name, values in counted.items():
        directions[name] = values
    directions["skipped_before"] = directions["skipped_bytes"]


def _link_new_nodes(links: Int64s, have: int, free: int) -> int:
    """Chain the nodes from number `have` on, and the nodes that are free so far behind them.

    Return how many nodes are new.
    """
    room = len(links)
    links[have:] = np.arange(have + 1, room + 1)
    links[room - 1] = free
    return room - have


def with_more_chunks(state: State, least: int) -> State:
    """Return the state with `least` more free nodes in the chunk pool, or more."""
    have = len(state.chunks)
    chunks = grown_table(ChunkRow, state.chunks, have + max(least, have))
    counters = state.counters
    counters.free_chunk_count += _link_new_nodes(array_of(chunks)["next"], have, counters.free_chunk)
    counters.free_chunk = have
    return state._replace(chunks=chunks)


def with_more_waiting(state: State, least: int) -> State:
    """Return the state with `least` more free nodes in the pool of waiting requests, or more."""
    have = len(state.waiting)
    waiting = grown_table(ExchangeRow, state.waiting, have + max(least, have))
    counters = state.counters
    counters.free_waiting_count += _link_new_nodes(array_of(waiting)["next"], have, counters.free_waiting)
    counters.free_waiting = have
    return state._replace(waiting=waiting)


def with_more_exchanges(state: State, least: int) -> State:
    """Return the state with room for `least` more finished exchanges, or more."""
    have = len(state.exchanges)
    return state._replace(exchanges=grown_table(ExchangeRow, state.exchanges, have + max(least, have)))


def with_more_arena(state: State, least: int) -> State:
    """Return the state with room for `least` more assembled bytes.

    Offsets stay as they are, only the scratch moves.
    """
    arena = np.empty(len(state.arena) + max(least, len(state.arena) // 2), np.uint8)
    used = int(state.counters.assembly)
    arena[:used] = state.arena[:used]
    return state._replace(arena=arena)
