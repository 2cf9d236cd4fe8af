"""Read a batch of messages into columns: what analysis needs of them, without an object for each.

In come bytes and where in them messages stand, with the API, version and side of each; out come three tables
of NumPy arrays. `messages` has one row per message, in order; `partitions` one per topic-partition that a
message names, and one per topic that it names without partitions; `nodes` one per broker whose address it
has. Rows say which message they belong to and stand in the order of the wire.

`registers` lists the columns. Text stays in the arena: a span is its position there. Wrong bytes are a fault,
and what stands before them is kept. The result for a message does not depend on its batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdissect.array_types import Int64s
from kdissect.jit.many_rows import are_many, read_only
from kdissect.jit.unread_bytes import NO_ARRAY, NOTHING_UNREAD
from kdissect.protocol.columnar.program_cache import library
from kdissect.protocol.columnar.register_loops import take_integers, take_spans
from kdissect.protocol.columnar.registers import (
    BROKER,
    BROKER_WIDTH,
    MESSAGE,
    MESSAGE_WIDTH,
    ROW,
    ROW_SLOTS,
    ROW_WIDTH,
    SUMMARY_AT,
    SUMMARY_ROW,
    SUMMARY_WIDTH,
    Register,
    slots,
)
from kdissect.protocol.columnar.vm import SUMMARIES, TEXT, USED_WIDTH, walk
from kdissect.protocol.columnar.vm_state import (
    ERROR_CODE,
    ERROR_COUNT,
    ERROR_SEEN,
    FAULT,
    FAULT_AT,
    FAULT_ROW,
    OWNER,
    OWNER_PRESENT,
    OWNER_WIDTH,
    PRESENT,
    REASONS,
    VERDICT_WIDTH,
    Reason,
    new_columns,
    new_rows,
    scratch,
)
from kdissect.protocol.records.batch_summary import FAULT as SET_FAULT
from kdissect.protocol.records.batch_summary import (
    FAULT_POSITION,
    RECORDS,
    SUMMARY,
    WRAPPERS,
    RecordSetFault,
)
from kdissect.protocol.records.record_decoder import RecordFault, count_records

FIRST_ROOM = 1024  # rows; at least doubled when they do not suffice
NO_BOUND = 1 << 40
TOPIC_SIZE = ROW_SLOTS["topic"] + 1
TEXT_OF_ROW = 64  # bytes of a topic's name that one row may have, at an average


class Integers(NamedTuple):
    """A column of numbers, 0 where one is not present."""

    values: Int64s
    present: NDArray[np.bool_]


class Spans(NamedTuple):
    """A column of byte strings in the arena: start is -1 where there is none, or null."""

    start: Int64s
    length: Int64s


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of what was read. Columns are made when they are first asked for, by the names in `registers`."""

    registers: tuple[Register, ...]
    message: Int64s  # the message each row belongs to
    present: Int64s  # one bit per register that has a value
    values: Int64s
    _integers: dict[str, Integers] = field(default_factory=dict, repr=False, compare=False)
    _spans: dict[str, Spans] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.message)

    def integers(self, column: str) -> Integers:
        """Return a column of numbers."""
        if column not in self._integers:
            slot = _slot(self.registers, column, "integer")
            there = self._present(slot)
            # The values elsewhere depend on the batch.
            self._integers[column] = Integers(np.where(there, self.values[:, slot], 0), there)
        return self._integers[column]

    def spans(self, column: str) -> Spans:
        """Return a column of byte strings, as positions in the arena."""
        if column not in self._spans:
            slot = _slot(self.registers, column, "span")
            there, start, length = self._present(slot), self.values[:, slot], self.values[:, slot + 1]
            self._spans[column] = Spans(np.where(there, start, -1), np.where(there, length, 0))
        return self._spans[column]

    def fill_integers(self, column: str, rows: Int64s, values: Int64s, present: NDArray[np.bool_]) -> None:
        """Fill a column of numbers at some rows, -1 for none, in where nothing is present yet."""
        slot = _slot(self.registers, column, "integer")
        if are_many(len(rows)):
            take_integers(
                self.values, np.ascontiguousarray(self.present), slot, read_only(rows), values, present
            )
            return
        places = np.flatnonzero((rows >= 0) & ~present)
        places = places[self._present(slot)[rows[places]]]
        values[places], present[places] = self.values[rows[places], slot], True

    def integers_at(self, column: str, rows: Int64s) -> Integers:
        """Return a column of numbers at some rows; row -1 has nothing."""
        taken = Integers(np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_))
        self.fill_integers(column, rows, *taken)
        return taken

    def spans_at(self, column: str, rows: Int64s) -> Spans:
        """Return a column of byte strings at some rows; row -1 has nothing."""
        slot = _slot(self.registers, column, "span")
        taken = Spans(np.full(len(rows), -1, np.int64), np.zeros(len(rows), np.int64))
        if are_many(len(rows)):
            take_spans(self.values, np.ascontiguousarray(self.present), slot, read_only(rows), *taken)
            return taken
        places = np.flatnonzero(rows >= 0)
        places = places[self._present(slot)[rows[places]]]
        taken.start[places] = self.values[rows[places], slot]
        taken.length[places] = self.values[rows[places], slot + 1]
        return taken

    def rows_with(self, column: str) -> Int64s:
        """Return the rows that have a byte string in a column."""
        return np.flatnonzero(self._present(_slot(self.registers, column, "span")))

    def put_spans(self, column: str, rows: Int64s, start: Int64s, length: Int64s) -> None:
        """Set a column of byte strings at some rows, before anybody has asked for it."""
        slot = _slot(self.registers, column, "span")
        self.present[rows] |= 1 << slot
        self.values[rows, slot], self.values[rows, slot + 1] = start, length

    def _present(self, slot: int) -> NDArray[np.bool_]:
        there: NDArray[np.bool_] = (self.present & (1 << slot)) != 0
        return there


@cache
def _slot(registers: tuple[Register, ...], column: str, kind: str) -> int:
    if (column, kind) not in [(register.column, register.kind) for register in registers]:
        raise KeyError(f"no {kind} {column!r}")
    return slots(registers)[column]


@dataclass(frozen=True, slots=True)
class RecordSummaries:
    """Numbers from the headers of records: a row of `summaries` for each partition row that has some.

    `of_row` has its number for each partition row, -1 without records.
    """

    summaries: Int64s
    of_row: Int64s

    def __getitem__(self, name: str) -> Int64s:
        """Return a column of SUMMARY by partition row, -1 without records."""
        values = np.append(self.column(name), -1)  # number -1 finds the last place
        return values[self.of_row]

    def column(self, name: str) -> Int64s:
        """Return a column of SUMMARY by summary; what is written there is written in the summaries."""
        column: Int64s = self.summaries[:, SUMMARY.index(name)]
        return column

    @property
    def rows(self) -> Int64s:
        """The partition row of each summary."""
        rows: Int64s = self.summaries[:, SUMMARY_ROW]
        return rows


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns read from a batch of messages."""

    messages: Table
    partitions: Table
    nodes: Table
    records: RecordSummaries
    rows: Int64s  # of `partitions` as written, for loops: OWNER, OWNER_PRESENT, registers, SUMMARY_AT
    error_code: NDArray[np.int16]  # the first in wire order that is not 0, or 0
    error_count: NDArray[np.int32]
    has_error: NDArray[np.bool_]  # an error code was read, be it 0
    fault_reason: NDArray[np.int8]  # a Reason
    fault_position: NDArray[np.int32]  # of the unreadable field, from the start of the header; or -1
    fault_row: NDArray[np.int32]
    paths: Sequence[str] | Mapping[int, str]
    """Paths of fields, by row of the program; at least those of `fault_row`."""

    def fault_text(self, message: int) -> str | None:
        """Return what is wrong with a message, where, and in which field; None if nothing is."""
        reason = Reason(int(self.fault_reason[message]))
        if reason == Reason.NONE:
            return None
        position = int(self.fault_position[message])
        if position < 0:
            return REASONS[reason]
        path = self.paths[int(self.fault_row[message])]
        return f"{REASONS[reason]} at byte {position}" + (f" in {path}" if path else "")


def read(
    arena: NDArray[np.uint8],
    start: Int64s,
    stop: Int64s,
    frame_stop: Int64s,
    api_key: NDArray[np.int16],
    api_version: NDArray[np.int16],
    response: NDArray[np.bool_],
    together: int = NO_BOUND,
) -> Columns:
    """Read messages at arena[start:stop], header first, each a request or a response of an API in a version.

    `frame_stop` is where each message should end, which is behind `stop` if the capture lost its tail. A few
    bytes may ask for a row, and a row for a long name. So reading ends before the message with which there
    would be more than `together` rows or nodes, or TEXT_OF_ROW times as many bytes of topics. A message that
    needs more than that is read alone.
    """
    entries = library().entries(api_key, api_version, response.astype(np.bool_))
    spans = np.stack([start, stop, np.maximum(stop, frame_stop)], axis=1).astype(np.int64)
    return read_listed(arena, entries, spans, together)


def read_listed(
    arena: NDArray[np.uint8],
    entries: Int64s,
    spans: Int64s,
    together: int = NO_BOUND,
    unread: Int64s = NOTHING_UNREAD,
) -> Columns:
    """Read messages by the first rows of their programs, or minus a Reason; the rest is as for `read`.

    `spans` has start, stop and frame stop of each message, which is not before `stop`.
    Bytes of the arena that are `unread` are read as far as they are needed (see `unread_records`).
    """
    room = arena if len(unread) else NO_ARRAY
    arena = np.ascontiguousarray(arena).view()
    arena.flags.writeable = False  # read-only or not are two types to the compiler, and one is enough
    output = _Output(len(entries))
    done, space = 0, scratch()
    while done < len(entries):
        done = walk(
            library().table,
            entries,
            arena,
            spans,
            done,
            output.used,
            output.messages,
            output.rows,
            output.summaries,
            output.nodes,
            unread,
            room,
            *space,
        )
        if done < len(entries) and not output.grow(together):
            entries = entries[:done]
    read_together = output.read_together(len(entries), together)
    entries = entries[:read_together]
    unknown = entries < 0
    output.messages[: len(entries)][unknown, FAULT] = -entries[unknown]
    output.messages[: len(entries)][unknown, FAULT_AT] = -1
    columns = output.columns(len(entries))
    _count_wrapped(arena, columns)
    return columns


class _Output:
    """The arrays that a walk writes to. Rows and nodes grow; what is written stays."""

    def __init__(self, messages: int) -> None:
        self.used = np.zeros(USED_WIDTH, np.int64)  # rows and nodes written, then wanted; bytes of topics
        self.messages = new_columns(messages, VERDICT_WIDTH + MESSAGE_WIDTH)
        self.rows = new_rows(FIRST_ROOM + 2 * messages, OWNER_WIDTH + ROW_WIDTH)
        self.summaries = new_rows(len(self.rows), SUMMARY_WIDTH)  # memory that nobody writes to costs nothing
        self.nodes = new_columns(FIRST_ROOM, OWNER_WIDTH + BROKER_WIDTH)

    def grow(self, most: int) -> bool:
        """Make room for the rows and nodes that are wanted, mostly twice what there is.

        Return False if they are more than `most` and something is read already.
        """
        rows, nodes, wanted_rows, wanted_nodes, *_ = self.used.tolist()
        if max(rows, nodes) > 0 and max(wanted_rows, wanted_nodes) > most:
            return False
        if wanted_rows > len(self.rows):
            room = max(wanted_rows, min(2 * len(self.rows), most))
            self.rows = _copied(self.rows[:rows], new_rows(room, OWNER_WIDTH + ROW_WIDTH))
            summaries = self.summaries[: self.used[SUMMARIES]]
            self.summaries = _copied(summaries, new_rows(room, SUMMARY_WIDTH))
        if wanted_nodes > len(self.nodes):
            room = max(wanted_nodes, min(2 * len(self.nodes), most))
            self.nodes = _copied(self.nodes[:nodes], new_columns(room, self.nodes.shape[1], most))
        return True

    def read_together(self, messages: int, most: int) -> int:
        """Return how many messages fit into the bytes of topics that `most` rows may have.

        The first message with rows always fits. The walk counts no fewer bytes than there are.
        """
        if self.used[TEXT] <= TEXT_OF_ROW * most:
            return messages
        rows = self.rows[: self.used[0]]
        named = rows[:, OWNER_PRESENT] >> ROW_SLOTS["topic"] & 1
        text = np.cumsum(rows[:, OWNER_WIDTH + TOPIC_SIZE] * named)
        if len(text) == 0 or text[-1] <= TEXT_OF_ROW * most:
            return messages
        over = rows[np.searchsorted(text, TEXT_OF_ROW * most, "right"), OWNER]
        return int(max(over, rows[0, OWNER] + 1))

    def columns(self, messages: int) -> Columns:
        rows, nodes = self.rows[: self.used[0]], self.nodes[: self.used[1]]
        rows, nodes = (table[: np.searchsorted(table[:, OWNER], messages)] for table in (rows, nodes))
        summaries = self.summaries[: self.used[SUMMARIES]]
        summaries = summaries[: np.searchsorted(summaries[:, SUMMARY_ROW], len(rows))]
        of_all = self.messages[:messages]
        verdicts, values = of_all[:, :VERDICT_WIDTH], of_all[:, VERDICT_WIDTH:]
        partitions, records = tables_of_rows(rows, summaries)
        return Columns(
            messages=_table(MESSAGE, np.arange(len(verdicts)), verdicts[:, PRESENT], values),
            partitions=partitions,
            nodes=_table(BROKER, nodes[:, OWNER], nodes[:, OWNER_PRESENT], nodes[:, OWNER_WIDTH:]),
            records=records,
            rows=rows,
            error_code=verdicts[:, ERROR_CODE].astype(np.int16),
            error_count=verdicts[:, ERROR_COUNT].astype(np.int32),
            has_error=verdicts[:, ERROR_SEEN] != 0,
            fault_reason=verdicts[:, FAULT].astype(np.int8),
            fault_position=verdicts[:, FAULT_AT].astype(np.int32),
            fault_row=verdicts[:, FAULT_ROW].astype(np.int32),
            paths=library().paths,
        )


def tables_of_rows(rows: Int64s, summaries: Int64s) -> tuple[Table, RecordSummaries]:
    """Return the table of partitions, and that of the headers of their records."""
    partitions = Table(ROW, rows[:, OWNER], rows[:, OWNER_PRESENT], rows[:, OWNER_WIDTH:])
    return partitions, RecordSummaries(summaries, rows[:, OWNER_WIDTH + SUMMARY_AT])


def _table(registers: tuple[Register, ...], message: Int64s, present: Int64s, values: Int64s) -> Table:
    """Return a table. Owner and presence are looked at for every column, so they leave the rows first."""
    return Table(registers, np.ascontiguousarray(message), np.ascontiguousarray(present), values)


def _copied(written: Int64s, larger: Int64s) -> Int64s:
    larger[: len(written)] = written
    return larger


def _count_wrapped(arena: NDArray[np.uint8], columns: Columns) -> None:
    """Count the records in compressed messages of magic 0 and 1, which the walk could not.

    The count is -1 if they cannot be decompressed.
    """
    records = columns.records
    wrapped = np.flatnonzero(records.column(SUMMARY[WRAPPERS]) > 0)
    if not len(wrapped):
        return
    record_set = columns.partitions.spans_at("record_set", records.rows[wrapped])
    for place, summary in enumerate(records.summaries[wrapped]):
        start, length = int(record_set.start[place]), int(record_set.length[place])
        counted = count_records(arena[start : start + length].tobytes())
        if isinstance(counted, RecordFault):
            summary[RECORDS] = -1
            if not summary[SET_FAULT]:
                fault = RecordSetFault.TOO_LARGE if counted.too_large else RecordSetFault.COMPRESSION
                summary[SET_FAULT], summary[FAULT_POSITION] = fault, counted.position
        else:
            summary[RECORDS] = counted
        records.summaries[wrapped[place]] = summary
