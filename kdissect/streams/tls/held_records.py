"""Records that a direction under TLS holds, between the compiled loop and the sessions written in Python.

The loop of `advance` stops when a record of TLS is whole; then `held_chunks` shows what lies there, in order,
and `let_go` forgets what a session is done with. The loop stops for a direction again when more has come in
than was looked at.
"""

import numpy as np

from kdissect.jit.decorators import jit_flat
from kdissect.streams.chunks import discard
from kdissect.streams.flow_state import Int64s, State
from kdissect.streams.tls.record_layer import Chunk
from kdissect.streams.tls.tls_session import MOST_HELD

COLUMNS = 4
FEW = 64


@jit_flat
def _list_chunks(state: State, direction: int, rows: Int64s) -> int:
    """Fill rows (at, length, time, packet); return how many were filled."""
    row = state.directions[direction]
    count = 0
    node = row.head
    while node >= 0 and count < len(rows):
        chunks = state.chunks
        inside = max(0, row.frame - chunks[node].position)
        rows[count, 0] = chunks[node].offset + inside if chunks[node].offset >= 0 else -1
        rows[count, 1] = chunks[node].length - inside
        rows[count, 2] = chunks[node].time_ns
        rows[count, 3] = chunks[node].packet
        count += 1
        node = chunks[node].next
    return count


@jit_flat
def _let_go(state: State, direction: int, count: int, wait_for: int) -> None:
    row = state.directions[direction]
    if count > 0:
        discard(state, direction, row.frame + count)
    row.scanned.position = row.next + wait_for


def held_chunks(state: State, direction: int) -> list[Chunk]:
    """Return the bytes of a direction that nobody has taken yet, as chunks in order."""
    rows = np.empty((FEW, COLUMNS), np.int64)
    while (count := _list_chunks(state, direction, rows)) == len(rows):
        rows = np.empty((4 * len(rows), COLUMNS), np.int64)
    arena = state.arena
    return [
        Chunk(arena[at : at + length].tobytes() if at >= 0 else None, length, time, packet)
        for at, length, time, packet in rows[:count].tolist()
    ]


def let_go(state: State, direction: int, count: int, held: bool) -> None:
    """Forget `count` bytes of a direction. What is held is not looked at again unless it becomes too much."""
    _let_go(state, direction, count, MOST_HELD if held else 0)
