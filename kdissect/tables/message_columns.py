"""The two sides of exchanges, read into columns: what requests and responses say, aligned with the exchanges.

Requests and responses are read by the columnar reader in batches; here a message-level column of either is given per
exchange, whether or not that exchange has that side.
"""

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kdissect.protocol.columnar import batch_reader
from kdissect.protocol.records.batch_summary import FAULT_TEXTS, RecordSetFault
from kdissect.streams.flow_state import (
    ANSWERED,
    ORPHAN_RESPONSE,
    REQUEST_SIDE,
    RESPONSE_SIDE,
    Int64s,
)
from kdissect.streams.processor import ExchangeBatch

Bools = NDArray[np.bool_]
TOGETHER = 1 << 17  # rows of partitions: a quarter of a kilobyte each, in every table that is made of them
Number = TypeVar("Number", bound=np.generic)


class MessageColumns:
    """One side of a batch of exchanges."""

    def __init__(self, harvest: ExchangeBatch, side: str, rows: Int64s) -> None:
        """Read side `side` (REQUEST_SIDE or RESPONSE_SIDE) of the exchanges `rows`, as many as can be read together."""
        exchanges = harvest.exchanges[rows]
        self.rows = rows
        self.count = len(harvest.exchanges)
        self.columns = batch_reader.read(
            harvest.arena,
            exchanges[side]["start"],
            exchanges[side]["stop"],
            exchanges[side]["frame_stop"],
            exchanges["api_key"].astype(np.int16),
            exchanges["api_version"].astype(np.int16),
            np.full(len(rows), side == RESPONSE_SIDE),
            TOGETHER,
        )
        read = len(self.columns.messages)
        # Exchanges whose side was read, or is not there.
        self.reach = int(rows[read]) if read < len(rows) else self.count

    def integers(self, name: str) -> tuple[Int64s, Bools]:
        """Give a column of numbers per exchange, and where it is present."""
        read = self.columns.messages.integers(name)
        return self.spread(read.values, 0), self.spread(read.present, False)

    def spans(self, name: str) -> tuple[Int64s, Int64s]:
        """Give a column of spans per exchange: start (-1: none) and length."""
        read = self.columns.messages.spans(name)
        return self.spread(read.start, -1), self.spread(read.length, 0)

    def spread(self, values: NDArray[Number], absent: int | bool) -> NDArray[Number]:
        """Give a value per message as a value per exchange."""
        out = np.full(self.count, absent, values.dtype)
        out[self.rows] = values
        return out

    def per_exchange(self, values: Int64s, combine: np.ufunc, start: int) -> Int64s:
        """Combine a value per partition row into one per exchange, by a ufunc such as np.add."""
        out = np.full(self.count, start, np.int64)
        combine.at(out, self.rows[self.columns.partitions.message], values)
        return out

    def faults(self) -> dict[int, str]:
        """Give what is wrong with this side, by exchange; exchanges without fault are not in it."""
        texts = {}
        partitions = self.columns.partitions
        for row in np.flatnonzero(self.columns.records["fault"] > 0)[::-1].tolist():
            reason = FAULT_TEXTS[RecordSetFault(int(self.columns.records["fault"][row]))]
            place = f"at byte {self.columns.records['fault_position'][row]} of the records"
            partition = partitions.integers("partition")
            where = f" of partition {partition.values[row]}" if partition.present[row] else ""
            texts[int(self.rows[partitions.message[row]])] = f"{reason} {place}{where}"
        for message in np.flatnonzero(self.columns.fault_reason).tolist():
            text = self.columns.fault_text(message)
            if text is not None:
                texts[int(self.rows[message])] = text
        return texts


def read_messages(harvest: ExchangeBatch) -> Iterator[tuple[ExchangeBatch, MessageColumns, MessageColumns]]:
    """Read the requests and the responses of a harvest: all of it, or one part after the other if it asks for very many rows."""
    exchanges = harvest.exchanges
    while len(exchanges):
        reach, done = len(exchanges), -1
        while reach != done:  # the second time, if there is one, reads no more than both sides can
            done, part = reach, harvest._replace(exchanges=exchanges[:reach])
            status = part.exchanges["status"]
            request = MessageColumns(part, REQUEST_SIDE, np.flatnonzero(status != ORPHAN_RESPONSE))
            response = MessageColumns(part, RESPONSE_SIDE, np.flatnonzero(status == ANSWERED))
            reach = min(request.reach, response.reach)
        yield part, request, response
        exchanges = exchanges[done:]
