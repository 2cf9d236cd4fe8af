"""Read a batch of messages into columns: what analysis needs to know of requests and responses, without an object each.

In come bytes and where in them messages stand, with the API, version and side of each; out come three tables of NumPy
arrays. `messages` has one row per message, in order; `partitions` one per topic-partition that a message names, and one
per topic that it names without partitions; `nodes` one per broker it gives an address of. Rows say which message they
belong to and stand in the order of the wire.

Which columns there are is said in `registers`. Text stays where it is: a span says where its bytes are in the arena.
Wrong bytes give a fault, and what stands before them is kept. Of the same messages the answer is the same however they
are cut into batches.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdissect.protocol.library import library
from kdissect.protocol.record_sets import FAULT, RECORDS, SUMMARY, WRAPPERS, RecordSetFault
from kdissect.protocol.records import RecordFault, count_records
from kdissect.protocol.registers import (
    BROKER,
    BROKER_WIDTH,
    MESSAGE,
    MESSAGE_WIDTH,
    ROW,
    ROW_VALUES,
    ROW_WIDTH,
    Register,
    slots,
)
from kdissect.protocol.state import (
    REASONS,
    VERDICT_ERROR_CODE,
    VERDICT_ERROR_COUNT,
    VERDICT_ERROR_SEEN,
    VERDICT_FAULT,
    VERDICT_FAULT_AT,
    VERDICT_FAULT_ROW,
    VERDICT_WIDTH,
    Reason,
)
from kdissect.protocol.walk import walk

Ints = NDArray[np.int64]
FIRST_ROOM = 1024  # rows; doubled when they do not suffice


class Integers(NamedTuple):
    """A column of numbers; where one is not present its value means nothing."""

    values: Ints
    present: NDArray[np.bool_]


class Spans(NamedTuple):
    """A column of byte strings in the arena: start is -1 where there is none, or null."""

    start: Ints
    length: Ints


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of what was read, by column name (see `registers`)."""

    message: Ints  # the message each row belongs to
    integers: Mapping[str, Integers]
    spans: Mapping[str, Spans]

    def __len__(self) -> int:
        return len(self.message)


@dataclass(frozen=True, slots=True)
class Columns:
    """What was read of a batch of messages."""

    messages: Table
    partitions: Table
    nodes: Table
    records: Mapping[str, Ints]  # one per partition row, named as in record_sets.SUMMARY; -1 without records
    error_code: NDArray[np.int16]  # the first in wire order that is not 0, or 0
    error_count: NDArray[np.int32]
    has_error: NDArray[np.bool_]  # an error code was read, be it 0
    fault_reason: NDArray[np.int8]  # a Reason
    fault_position: NDArray[
        np.int32
    ]  # of the field that could not be read, from the start of the header; or -1
    fault_row: NDArray[np.int32]

    def fault_text(self, message: int) -> str | None:
        """Say what is wrong with a message, where, and in which field; None if nothing is."""
        reason = Reason(int(self.fault_reason[message]))
        if reason == Reason.NONE:
            return None
        position = int(self.fault_position[message])
        if position < 0:
            return REASONS[reason]
        path = library().paths[int(self.fault_row[message])]
        return f"{REASONS[reason]} at byte {position}" + (f" in {path}" if path else "")


def read(
    arena: NDArray[np.uint8],
    start: Ints,
    stop: Ints,
    frame_stop: Ints,
    api_key: NDArray[np.int16],
    api_version: NDArray[np.int16],
    response: NDArray[np.bool_],
) -> Columns:
    """Read messages at arena[start:stop], header first, each a request or a response of an API in a version.

    `frame_stop` is where each message should end, which is behind `stop` if the capture lost its tail.
    """
    entries = library().entries(api_key, api_version, response.astype(np.bool_))
    spans = np.stack([start, stop, np.maximum(stop, frame_stop)], axis=1).astype(np.int64)
    output = _Output(len(entries))
    done = 0
    while done < len(entries):
        done = walk(library().table, entries, arena, spans, done, *output.arrays())
        if done < len(entries):
            output.grow()
    unread = entries < 0
    output.verdicts[unread, VERDICT_FAULT] = -entries[unread]
    output.verdicts[unread, VERDICT_FAULT_AT] = -1
    columns = output.columns()
    _count_wrapped(arena, columns)
    return columns


class _Output:
    """The arrays that a walk writes to. Rows and nodes grow; what is written stays."""

    def __init__(self, messages: int) -> None:
        self.used = np.zeros(4, np.int64)  # rows and nodes written; then rows and nodes wanted
        self.messages = np.zeros((messages, MESSAGE_WIDTH), np.int64)
        self.message_present = np.zeros(messages, np.int64)
        self.verdicts = np.zeros((messages, VERDICT_WIDTH), np.int64)
        self._make_rows(FIRST_ROOM)
        self._make_nodes(FIRST_ROOM)

    def _make_rows(self, room: int) -> None:
        self.rows = np.empty((room, ROW_WIDTH), np.int64)
        self.row_present = np.empty(room, np.int64)
        self.row_message = np.empty(room, np.int64)

    def _make_nodes(self, room: int) -> None:
        self.nodes = np.empty((room, BROKER_WIDTH), np.int64)
        self.node_message = np.empty(room, np.int64)

    def arrays(self) -> tuple[NDArray[np.int64], ...]:
        return (
            self.used,
            self.messages,
            self.message_present,
            self.verdicts,
            self.rows,
            self.row_present,
            self.row_message,
            self.nodes,
            self.node_message,
        )

    def grow(self) -> None:
        """Make room for what is wanted, at least twice what there is."""
        rows, nodes, wanted_rows, wanted_nodes = self.used.tolist()
        if wanted_rows > len(self.rows):
            written = self.rows[:rows], self.row_present[:rows], self.row_message[:rows]
            self._make_rows(max(wanted_rows, 2 * len(self.rows)))
            self.rows[:rows], self.row_present[:rows], self.row_message[:rows] = written
        if wanted_nodes > len(self.nodes):
            written_nodes = self.nodes[:nodes], self.node_message[:nodes]
            self._make_nodes(max(wanted_nodes, 2 * len(self.nodes)))
            self.nodes[:nodes], self.node_message[:nodes] = written_nodes

    def columns(self) -> Columns:
        rows, nodes = int(self.used[0]), int(self.used[1])
        numbers = np.arange(len(self.messages))
        everything = np.full(nodes, -1, np.int64)
        verdicts = self.verdicts
        return Columns(
            messages=_table(MESSAGE, self.messages, self.message_present, numbers),
            partitions=_table(ROW, self.rows[:rows], self.row_present[:rows], self.row_message[:rows]),
            nodes=_table(BROKER, self.nodes[:nodes], everything, self.node_message[:nodes]),
            records={name: self.rows[:rows, ROW_VALUES + at] for at, name in enumerate(SUMMARY)},
            error_code=verdicts[:, VERDICT_ERROR_CODE].astype(np.int16),
            error_count=verdicts[:, VERDICT_ERROR_COUNT].astype(np.int32),
            has_error=verdicts[:, VERDICT_ERROR_SEEN] != 0,
            fault_reason=verdicts[:, VERDICT_FAULT].astype(np.int8),
            fault_position=verdicts[:, VERDICT_FAULT_AT].astype(np.int32),
            fault_row=verdicts[:, VERDICT_FAULT_ROW].astype(np.int32),
        )


def _table(registers: tuple[Register, ...], values: Ints, present: Ints, message: Ints) -> Table:
    at = slots(registers)
    integers, spans = {}, {}
    for register in registers:
        slot = at[register.column]
        there = (present >> slot & 1) != 0
        if register.kind == "integer":
            integers[register.column] = Integers(values[:, slot], there)
        else:
            start, length = (
                np.where(there, values[:, slot + part], absent) for part, absent in ((0, -1), (1, 0))
            )
            spans[register.column] = Spans(start, length)
    return Table(message, integers, spans)


def _count_wrapped(arena: NDArray[np.uint8], columns: Columns) -> None:
    """Count the records in compressed messages of magic 0 and 1, which the walk could not; -1 where it cannot be done."""
    record_set = columns.partitions.spans["record_set"]
    for row in np.flatnonzero(columns.records[SUMMARY[WRAPPERS]] > 0).tolist():
        start, length = int(record_set.start[row]), int(record_set.length[row])
        counted = count_records(arena[start : start + length].tobytes())
        if isinstance(counted, RecordFault):
            columns.records[SUMMARY[RECORDS]][row] = -1
            if not columns.records[SUMMARY[FAULT]][row]:
                columns.records[SUMMARY[FAULT]][row] = RecordSetFault.COMPRESSION
        else:
            columns.records[SUMMARY[RECORDS]][row] = counted
