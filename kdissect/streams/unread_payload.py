"""Payload of large segments that is not read until somebody looks at it.

Most bytes of Kafka's traffic are records, of which a report needs the headers of batches and a few samples.
Large segments of a direction that is in step get their places in the arena, and are left in the file. The
engine reads those in which it looks at a frame, and whatever is copied, searched or compared. The walk over
messages reads the others, as far as it needs them (`protocol.columnar.vm`).

    4.2 GB of bulk traffic, pass two in one process     1.13 s before, 0.78 s now

Tables of records need all bytes, so the caller decides whether payload may stay unread.
"""

import os
from io import FileIO

import numpy as np

from kdissect.array_types import Bools, Bytes, Int64s
from kdissect.jit.decorators import jit_flat, jit_inline, jit_inner
from kdissect.jit.rows import array_of
from kdissect.jit.unread_bytes import (
    BEGIN,
    DESCRIPTOR,
    END,
    NOTHING_UNREAD,
    PLACE,
    UNREAD_FIELDS,
    is_shorter,
    read_rows,
)
from kdissect.streams.flow_state import BEGAN, KAFKA, State

LEAST = 16 << 10  # bytes: a smaller segment is read with those beside it


class CaptureChanged(Exception):
    """The capture file no longer holds what pass one saw in it."""


class UnreadPayload:
    """The segments in the arena that may be unread, in the order of their offsets.

    `rows` is a table of `unread_bytes`, which the state of the engine has, too. Files stay open as long as
    there are rows of them.
    """

    def __init__(self) -> None:
        self.rows = NOTHING_UNREAD
        self._files: dict[str, FileIO] = {}

    def add(self, path: str, descriptor: int, offsets: Int64s, lengths: Int64s, places: Int64s) -> None:
        """Add segments of an open file, which lie behind all others in the arena."""
        if path not in self._files:
            self._files[path] = FileIO(os.dup(descriptor))
        rows = np.empty((len(offsets), UNREAD_FIELDS), np.int64)
        rows[:, BEGIN], rows[:, END], rows[:, PLACE] = offsets, offsets + lengths, places
        rows[:, DESCRIPTOR] = self._files[path].fileno()
        self.rows = np.concatenate([self.rows, rows[np.argsort(offsets)]])

    def clear(self) -> None:
        """Forget all segments, and close their files. Raise CaptureChanged as `check` does."""
        self.check()
        for file in self._files.values():
            file.close()
        self.rows, self._files = NOTHING_UNREAD, {}

    def check(self) -> None:
        """Raise CaptureChanged if bytes were wanted that a file has no more."""
        if is_shorter(self.rows):
            raise CaptureChanged(f"{' or '.join(self._files)} became shorter while it was read")


def may_stay_unread(state: State) -> Bools:
    """Return for each direction whether its next segments are parts of frames, one behind the other."""
    directions, connections = array_of(state.directions), array_of(state.connections)
    is_kafka = np.repeat(connections["protocol"] == KAFKA, 2)
    is_whole = (directions["ahead"] < 0) & (directions["held_ns"] == 0) & (directions["begun"] == BEGAN)
    found: Bools = is_kafka & is_whole & (directions["in_step"] != 0)
    return found


@jit_inline
def look_at(state: State, begin: int, end: int) -> None:
    """Have arena[begin:end] read before it is looked at."""
    if state.counters.unread > 0:
        _read(state, begin, end)


@jit_inner
def _read(state: State, begin: int, end: int) -> None:
    state.counters.unread -= read_rows(state.unread, state.arena, begin, end)


@jit_inline
def look_at_all(state: State) -> None:
    """Have all payload read: something is not as it should be, so anything may be looked at."""
    look_at(state, 0, len(state.arena))


def read_now(state: State, begins: Int64s, ends: Int64s) -> None:
    """Have the bytes arena[begins[i]:ends[i]] read, from Python."""
    if state.counters.unread > 0:
        state.counters.unread -= read_parts(state.unread, state.arena, begins, ends)


@jit_flat
def read_parts(unread: Int64s, arena: Bytes, begins: Int64s, ends: Int64s) -> int:
    """Read the rows of some parts of the arena. Return how many were not read before."""
    count = 0
    for part in range(len(begins)):
        count += read_rows(unread, arena, begins[part], ends[part])
    return count


def call_all() -> None:
    """Call the loop that only large messages need, so that it is compiled and kept."""
    none = np.zeros(0, np.int64)
    read_parts(NOTHING_UNREAD, np.zeros(1, np.uint8), none, none)
