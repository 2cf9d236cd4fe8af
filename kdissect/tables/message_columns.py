"""The requests and the responses of a batch of exchanges as columns, aligned with the exchanges.

In comes a batch of exchanges, out go the columns that the columnar reader reads from its requests or its
responses. A column of whole messages has a value for each exchange, and a mask where an exchange has no such
message or field.
"""

from collections.abc import Iterator
from typing import NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from kdissect.array_types import Bools, Int64s
from kdissect.protocol.columnar import batch_reader, carried_columns
from kdissect.protocol.columnar.batch_reader import Columns
from kdissect.protocol.columnar.carried_columns import CarriedColumns
from kdissect.protocol.columnar.vm_state import Reason
from kdissect.protocol.records.batch_summary import FAULT_TEXTS, RecordSetFault
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import ANSWERED, ORPHAN_RESPONSE, REQUEST_SIDE, RESPONSE_SIDE
from kdissect.streams.request_header import (
    CLIENT_AT,
    CLIENT_SIZE_AT,
    LEAST_OF_A_CLIENT_ID,
    LENGTH_BYTES,
)
from kdissect.tables.message_list import list_messages

MOST_ROWS = 1 << 17  # rows of partitions: a quarter of a kilobyte each, in every table that is made of them
Number = TypeVar("Number", bound=np.generic)


class CarriedMessages(NamedTuple):
    """The arrays that `MessageColumns` are made of."""

    side: str
    exchanges: int
    rows: Int64s
    columns: CarriedColumns


class MessageColumns:
    """The columns of all requests or of all responses of a batch."""

    def __init__(self, side: str, count: int, rows: Int64s, columns: Columns) -> None:
        """Align what was read on a side of the exchanges `rows`, which are `count` in all."""
        self.side, self.count, self.rows, self.columns = side, count, rows, columns
        read = len(columns.messages)
        # The exchanges before this one were read, or have no such side.
        self.reach = int(rows[read]) if read < len(rows) else count
        self.message_of = np.full(count, -1, np.int64)  # of each exchange
        self.message_of[rows[:read]] = np.arange(read)
        self.derived: dict[str, tuple[Int64s, ...]] = {}  # what several tables need, made once

    @classmethod
    def read(cls, batch: ExchangeBatch, side: str, rows: Int64s) -> Self:
        """Read REQUEST_SIDE or RESPONSE_SIDE of the exchanges `rows`, as many as fit into MOST_ROWS."""
        messages = list_messages(batch.exchanges, side, rows)
        if batch.unread is None:
            columns = batch_reader.read_listed(batch.arena, *messages, MOST_ROWS)
        else:
            columns = batch_reader.read_listed(batch.arena, *messages, MOST_ROWS, batch.unread.rows)
            batch.unread.check()
        if side == REQUEST_SIDE:
            keep_cut_client_ids(columns, messages.spans)
        return cls(side, len(batch.exchanges), rows, columns)

    def carried(self) -> CarriedMessages:
        """Return the columns for another process."""
        return CarriedMessages(self.side, self.count, self.rows, carried_columns.carried(self.columns))

    @classmethod
    def resumed(cls, found: CarriedMessages) -> Self:
        """Return columns that another process has read."""
        return cls(found.side, found.exchanges, found.rows, carried_columns.resumed(found.columns))

    def integers(self, name: str) -> tuple[Int64s, Bools]:
        """Return a column of numbers for each exchange, and where it is present."""
        return self.columns.messages.integers_at(name, self.message_of)

    def spans(self, name: str) -> tuple[Int64s, Int64s]:
        """Return a column of spans for each exchange: start in the arena (-1: none) and length."""
        return self.columns.messages.spans_at(name, self.message_of)

    def spread(self, values: NDArray[Number], absent: int | bool) -> NDArray[Number]:
        """Return values of messages as values of exchanges, `absent` for those without a message."""
        if len(self.rows) == self.count:
            return values.copy()
        out = np.full(self.count, absent, values.dtype)
        out[self.rows] = values
        return out

    def per_exchange(self, values: Int64s, combine: np.ufunc, start: int) -> Int64s:
        """Return the values of partition rows combined by exchange, by a ufunc such as np.add."""
        out = np.full(self.count, start, np.int64)
        combine.at(out, self.rows[self.columns.partitions.message], values)
        return out

    def faults(self, ended: Bools) -> dict[int, str]:
        """Return the fault of each exchange that has one on this side, by row.

        It is the first fault if there are several. A message that its sender did not end is not wrong for
        that: `ended` marks them by exchange, see `unfinished`.
        """
        texts = {}
        partitions = self.columns.partitions
        fault, position = (self.columns.records.column(name) for name in ("fault", "fault_position"))
        for summary in np.flatnonzero(fault > 0)[::-1].tolist():
            row = int(self.columns.records.rows[summary])
            reason = FAULT_TEXTS[RecordSetFault(int(fault[summary]))]
            place = f"at byte {position[summary]} of the records"
            partition = partitions.integers("partition")
            suffix = f" of partition {partition.values[row]}" if partition.present[row] else ""
            texts[int(self.rows[partitions.message[row]])] = f"{reason} {place}{suffix}"
        reasons = self.columns.fault_reason
        for message in np.flatnonzero(reasons != Reason.NONE).tolist():
            row = int(self.rows[message])
            text = self.columns.fault_text(message)
            if text is not None and not (reasons[message] == Reason.CUT and ended[row]):
                texts[row] = text
        return texts


def keep_cut_client_ids(columns: Columns, spans: Int64s) -> None:
    """Keep the first bytes of client ids in which the capture cut their packets.

    Many captures have 96 bytes of each packet: then these are 16 bytes or more of a client id. `spans` has
    where each message starts and stops.
    """
    rows = np.flatnonzero(columns.fault_reason == Reason.CUT)
    rows = rows[columns.fault_position[rows] == CLIENT_SIZE_AT - LENGTH_BYTES]
    text = spans[rows, 0] + CLIENT_AT - LENGTH_BYTES
    known = spans[rows, 1] - text
    rows, text, known = (values[known >= LEAST_OF_A_CLIENT_ID] for values in (rows, text, known))
    if len(rows):
        columns.messages.put_spans("client_id", rows, text, known)


def read_messages(batch: ExchangeBatch) -> Iterator[tuple[ExchangeBatch, MessageColumns, MessageColumns]]:
    """Yield the batch with its requests and its responses, in parts if they have very many partitions."""
    exchanges = batch.exchanges
    while len(exchanges):
        reach, done = len(exchanges), -1
        while reach != done:  # the second time, if there is one, reads no more than both sides can
            done, part = reach, batch._replace(exchanges=exchanges[:reach])
            status = part.exchanges["status"]
            request = MessageColumns.read(part, REQUEST_SIDE, np.flatnonzero(status != ORPHAN_RESPONSE))
            response = MessageColumns.read(part, RESPONSE_SIDE, np.flatnonzero(status == ANSWERED))
            reach = min(request.reach, response.reach)
        read = [(part, request, response)]
        del request, response  # or they would stay until the next ones are wanted
        yield read.pop()
        exchanges = exchanges[done:]
