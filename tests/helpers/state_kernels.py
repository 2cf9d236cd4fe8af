"""Compiled entrances to inner kernels of streams, which plain Python may not call by itself."""

import numpy as np

from kdissect.jit.decorators import jit_flat
from kdissect.streams.chunks import append, discard, new_chunk, skip, view
from kdissect.streams.flow_state import State
from kdissect.streams.lone_chain import follow_chain
from kdissect.streams.state_pools import new_state, with_more_connections

VERSIONS = np.full(93, 13, np.int64)


def state_of(connections: int = 1, arena: bytes = b"", room: int = 1024) -> State:
    """An empty state whose arena begins with these bytes."""
    state = with_more_connections(new_state(VERSIONS), connections)
    bytes_ = np.zeros(len(arena) + room, np.uint8)
    bytes_[: len(arena)] = np.frombuffer(arena, np.uint8)
    return state._replace(arena=bytes_)


@jit_flat
def put_chunk(state, direction, position, offset, length, packet):
    append(state, direction, new_chunk(state, position, offset, length, 1000 + packet, packet))


@jit_flat
def look(state, direction, position, wanted):
    return view(state, direction, position, wanted)


@jit_flat
def consume(state, direction, position, belongs_to_frame):
    if belongs_to_frame:
        discard(state, direction, position)
    else:
        skip(state, direction, position)


@jit_flat
def follow(state, direction):
    return follow_chain(state, direction)
