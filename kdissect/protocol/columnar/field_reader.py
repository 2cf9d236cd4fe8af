"""Read chosen fields of a batch of messages into columns, by their path in the schema.

`batch_reader` keeps what has a role that all reports need. Few messages have more that matters, such as who
leads a group. Their fields are read by a second walk over just these messages, with programs that keep fields
by path. In come bytes and where in them messages stand, out come columns with a value for each message.

A field inside an array keeps the value of the last element, so it is good for arrays of one element. The
field of an array itself keeps the number of elements. A message with a fault may lack any field.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kdissect.array_types import Int64s
from kdissect.jit.unread_bytes import NO_ARRAY, NOTHING_UNREAD
from kdissect.protocol.columnar.batch_reader import Integers, Spans
from kdissect.protocol.columnar.program import compile_fields
from kdissect.protocol.columnar.program_cache import KEYS, VERSIONS, ProgramCache
from kdissect.protocol.columnar.registers import BROKER_WIDTH, MESSAGE_WIDTH, ROW_WIDTH, SUMMARY_WIDTH
from kdissect.protocol.columnar.vm import USED_WIDTH, walk
from kdissect.protocol.columnar.vm_state import (
    FAULT,
    OWNER_WIDTH,
    PRESENT,
    VERDICT_WIDTH,
    new_columns,
    new_rows,
    scratch,
)
from kdissect.protocol.schema.registry import APIS

SLOTS = 2  # of each column: the start and the length of a span, or a number and nothing
UNREAD = -1  # as the fault of a message that has no program
VARINT_BYTES = 5  # of a count, at most


class FieldReader:
    """Reads the fields of `columns`: from a path in a request or response to the column that it becomes.

    Several paths may become one column if no message has both.
    """

    def __init__(self, columns: Mapping[str, str], response: bool) -> None:
        names = list(dict.fromkeys(columns.values()))
        if SLOTS * len(names) > MESSAGE_WIDTH:
            raise ValueError(f"{len(names)} columns do not fit {MESSAGE_WIDTH} registers")
        self._response = response
        self.slots = {name: SLOTS * number for number, name in enumerate(names)}
        by_path = {path: self.slots[name] for path, name in columns.items()}
        self._programs = ProgramCache(partial(compile_fields, slots=by_path))
        self._flexible = np.zeros((KEYS, VERSIONS), np.bool_)
        for key, api in APIS.items():
            flexible = (api.response if response else api.request).flexible
            self._flexible[key, flexible.start : flexible.stop] = True

    def read(
        self,
        arena: NDArray[np.uint8],
        spans: Int64s,
        api_key: NDArray[np.int16],
        api_version: NDArray[np.int16],
        there: NDArray[np.bool_] | None = None,
    ) -> "FieldColumns":
        """Read messages, header first, whose start, stop and frame stop in the arena are the rows of `spans`.

        A message that is not `there` has no field, and no fault.
        """
        spans[:, 2] = np.maximum(spans[:, 1], spans[:, 2])
        entries = self._programs.entries(api_key, api_version, np.full(len(api_key), self._response))
        arena = np.ascontiguousarray(arena).view()
        arena.flags.writeable = False
        room = new_columns(len(entries), VERDICT_WIDTH + MESSAGE_WIDTH)
        messages = room[: len(entries)]
        unknown = entries < 0
        if there is not None:
            unknown &= there
            entries[~there] = UNREAD
        no_rows, no_summaries = new_rows(1, OWNER_WIDTH + ROW_WIDTH), new_rows(1, SUMMARY_WIDTH)
        no_nodes = new_columns(0, OWNER_WIDTH + BROKER_WIDTH)
        used = np.zeros(USED_WIDTH, np.int64)
        table = self._programs.table
        written = room, no_rows, no_summaries, no_nodes
        walk(table, entries, arena, spans, 0, used, *written, NOTHING_UNREAD, NO_ARRAY, *scratch())
        messages[unknown, FAULT] = UNREAD  # the walk says nothing of those without a program
        return FieldColumns(arena, messages, self.slots, self._is_flexible(entries, api_key, api_version))

    def _is_flexible(
        self, entries: Int64s, api_key: NDArray[np.int16], api_version: NDArray[np.int16]
    ) -> NDArray[np.bool_]:
        flexible = np.zeros(len(entries), np.bool_)
        known = entries >= 0
        flexible[known] = self._flexible[api_key[known], api_version[known]]
        return flexible


class FieldColumns:
    """The columns that were read of a batch of messages."""

    def __init__(
        self,
        arena: NDArray[np.uint8],
        messages: Int64s,
        slots: Mapping[str, int],
        flexible: NDArray[np.bool_],
    ) -> None:
        self._arena, self._messages, self._slots, self._flexible = arena, messages, slots, flexible
        self.columns = frozenset(slots)
        self.has_fault: NDArray[np.bool_] = messages[:, FAULT] != 0

    def integers(self, column: str) -> Integers:
        """Return a column of numbers; of a truth value 0 or not 0."""
        there = self._present(column)
        return Integers(np.where(there, self._value(column), 0), there)

    def spans(self, column: str) -> Spans:
        """Return a column of byte strings, as positions in the arena."""
        there = self._present(column)
        length = self._messages[:, VERDICT_WIDTH + self._slots[column] + 1]
        return Spans(np.where(there, self._value(column), -1), np.where(there, length, 0))

    def counts(self, column: str) -> Int64s:
        """Return how many elements an array has: 0 where there is none, or null."""
        counts = np.zeros(len(self._messages), np.int64)
        there = self._present(column)
        for flexible, count_at in ((True, self._varints_at), (False, self._int32s_at)):
            rows = np.flatnonzero(there & (self._flexible == flexible))
            counts[rows] = count_at(self._value(column)[rows])
        return np.maximum(counts, 0)

    def _present(self, column: str) -> NDArray[np.bool_]:
        there: NDArray[np.bool_] = (self._messages[:, PRESENT] >> self._slots[column] & 1) != 0
        return there

    def _value(self, column: str) -> Int64s:
        values: Int64s = self._messages[:, VERDICT_WIDTH + self._slots[column]]
        return values

    def _bytes(self, start: Int64s, count: int) -> Int64s:
        """Return bytes of the arena from each start, in rows; 0 behind its end."""
        places = start[:, None] + np.arange(count)
        inside = places < len(self._arena)
        return np.where(inside, self._arena[np.where(inside, places, 0)].astype(np.int64), 0)

    def _int32s_at(self, start: Int64s) -> Int64s:
        found = self._bytes(start, 4)
        counts: Int64s = (found << np.array([24, 16, 8, 0])).sum(axis=1).astype(np.uint32).astype(np.int32)
        return counts.astype(np.int64)

    def _varints_at(self, start: Int64s) -> Int64s:
        """Return varints less one, as a compact array has its count."""
        found = self._bytes(start, VARINT_BYTES)
        goes_on = np.cumprod(found >= 0x80, axis=1)
        used = np.concatenate([np.ones((len(found), 1), np.int64), goes_on[:, :-1]], axis=1)
        values: Int64s = ((found & 0x7F) * used << np.arange(VARINT_BYTES) * 7).sum(axis=1)
        return values - 1
