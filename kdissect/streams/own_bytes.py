"""Batches of exchanges with no other bytes than their own, which another process can be given.

The arena of the engine has the payload of whole splits, and changes when the engine goes on. A batch needs a
part of that. Its messages are copied one behind the other.
"""

from collections.abc import Iterator

import numpy as np

from kdissect.array_types import Bytes, Int64s
from kdissect.jit.decorators import jit_flat, jit_inner
from kdissect.jit.rows import Records, RowTable, new_table, table_of
from kdissect.streams.arena import FIRST_OFFSET, move_frame
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import REQUEST_SIDE, RESPONSE_SIDE, ExchangeRow, FrameRow


def own_bytes(batch: ExchangeBatch, most: int) -> Iterator[ExchangeBatch]:
    """Yield a batch in parts that have arrays of their own, of at most `most` bytes or one exchange each."""
    ends = np.cumsum(_sizes(batch.exchanges))
    done = 0
    while done < len(ends):
        before = int(ends[done - 1]) if done else 0
        stop = max(done + 1, int(np.searchsorted(ends, before + most, side="right")))
        exchanges = batch.exchanges[done:stop].copy()
        arena = np.empty(FIRST_OFFSET + int(ends[stop - 1]) - before, np.uint8)
        copy_frames(table_of(ExchangeRow, exchanges), batch.arena, arena)
        yield ExchangeBatch(exchanges, arena)
        done = stop


def _sizes(exchanges: Records) -> Int64s:
    """Return how many bytes the messages of each exchange take."""
    request, response = exchanges[REQUEST_SIDE], exchanges[RESPONSE_SIDE]
    sizes: Int64s = request["stop"] - request["start"] + response["stop"] - response["start"]
    return sizes


@jit_flat
def copy_frames(exchanges: RowTable[ExchangeRow], arena: Bytes, out: Bytes) -> int:
    """Copy all messages to `out`, and have the exchanges point there. Return the offset behind the last."""
    at = FIRST_OFFSET
    for row in range(len(exchanges)):
        at = _copied(exchanges[row].request, arena, out, at)
        at = _copied(exchanges[row].response, arena, out, at)
    return at


@jit_inner
def _copied(frame: FrameRow, arena: Bytes, out: Bytes, at: int) -> int:
    if frame.start == 0:
        return at
    move_frame(frame, arena, out, at)
    return frame.stop


def call_all() -> None:
    """Call the loop once, so that it is compiled and kept."""
    nothing = np.zeros(1, np.uint8)
    copy_frames(new_table(ExchangeRow, 0), nothing, nothing)
