"""All connections of a capture by number, those that are over in a few bytes each.

In come the pieces of splits, out go batches of exchanges, as from a `FlowProcessor`; but the connection of an
exchange is its number, counted from 0 as connections begin. The number leads to all
that a reader asks about a connection, also when it is over.

A connection is over when another one uses its ports, or when it was closed and nothing that is still to be
read comes within CLOSED_NS of its last packet. `forget_over` ends it, notes a row of SETTLED, and gives its
row in the tables of pass two to a later one. So these tables have the size of what is open at one time.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from kdissect.array_types import Int64s
from kdissect.jit.rows import array_of
from kdissect.streams.endpoints import Endpoints
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import OPEN, TLS, TLS_PASSED, State
from kdissect.streams.processor import CLOSED_NS, FlowProcessor
from kdissect.streams.tls.tls_state import Plain

FACTS = ("client_side", "protocol", "handshake")
SETTLED = np.dtype(
    [("a_host", "V16"), ("a_port", "u2"), ("b_host", "V16"), ("b_port", "u2"), ("identity", "i8"),
     ("first_ns", "i8"), ("first_sequence", "i8", 2), *((name, "i1") for name in FACTS)]
)  # fmt: skip


class ConnectionLog:
    """The connections that a processor follows; it must not follow TCP."""

    def __init__(self, processor: FlowProcessor) -> None:
        self._processor = processor
        self._settled = np.zeros(0, SETTLED)  # by number; zeros while a connection is not over
        self._has_forgotten = False

    def __len__(self) -> int:
        """Return how many connections have begun."""
        return self._processor.begun

    def feed(self, pieces: pa.RecordBatch) -> Iterator[ExchangeBatch]:
        """Process the pieces of one split; return the exchanges that were finished by them."""
        return map(self._numbered, self._processor.feed(pieces))

    def close(self) -> Iterator[ExchangeBatch]:
        """End all connections; return what they still held."""
        return map(self._numbered, self._processor.close())

    def forget_over(self, earliest_ns: int) -> Iterator[ExchangeBatch]:
        """End the connections that are over, and forget all but a few facts; return what they still held.

        No packet that is still to be read is earlier than `earliest_ns`.
        """
        processor = self._processor
        known = array_of(processor.state.connections)[: len(processor.endpoints)]
        over = (known["ended"] != OPEN) & (known["last_ns"] < earliest_ns - CLOSED_NS)
        over[processor.replaced()] = True
        is_followed = np.zeros(len(known), np.bool_)
        is_followed[list(processor.row_of.values())] = True
        rows = np.flatnonzero(over & is_followed)
        if not len(rows):
            return
        yield from map(self._numbered, processor.end(rows))
        self._settle(rows)
        processor.forget(rows)
        self._has_forgotten = True

    def states(self) -> list[tuple[State, int]]:
        """Return all that is held at present: states, each with its number of rows."""
        return self._processor.states()

    def identity(self, number: int) -> int:
        """Return the public number of a connection."""
        row = self._processor.row_of.get(number)
        return (
            int(self._settled["identity"][number]) if row is None else self._processor.endpoints.identity(row)
        )

    def endpoints(self, number: int) -> Endpoints:
        """Return the 4-tuple of a connection."""
        row = self._processor.row_of.get(number)
        if row is not None:
            return self._processor.endpoints[row]
        settled = self._settled[number]
        a_host, b_host = settled["a_host"].tobytes(), settled["b_host"].tobytes()
        return Endpoints(a_host, int(settled["a_port"]), b_host, int(settled["b_port"]))

    def fact(self, name: str, number: int) -> int:
        """Return a field of `ConnectionRow`, one of FACTS or `first_ns`."""
        row = self._processor.row_of.get(number)
        if row is None:
            return int(self._settled[name][number])
        return int(array_of(self._processor.state.connections)[name][row])

    def first_sequences(self, number: int) -> tuple[int, int]:
        """Return the sequence numbers of the first bytes of both streams of a connection, A to B first."""
        row = self._processor.row_of.get(number)
        if row is None:
            first = self._settled["first_sequence"][number]
        else:
            first = array_of(self._processor.state.directions)["first_sequence"][2 * row : 2 * row + 2]
        return int(first[0]), int(first[1])

    def under_tls(self) -> Iterable[int]:
        """Return the numbers of the connections that speak TLS."""
        return (number for number in range(len(self)) if self.fact("protocol", number) in (TLS, TLS_PASSED))

    def observe_plaintext(self, observe: Callable[[int, Plain], None]) -> None:
        """Have a function called with each part of plaintext of TLS and the number of its connection."""
        processor = self._processor
        processor.tls.on_plain = lambda row, part: observe(processor.numbers[row], part)

    def _numbered(self, batch: ExchangeBatch) -> ExchangeBatch:
        if self._has_forgotten:  # until then a number is a row
            numbers = np.array(self._processor.numbers, np.int64)
            batch.exchanges["connection"] = numbers[batch.exchanges["connection"]]
        return batch

    def _settle(self, rows: Int64s) -> None:
        processor = self._processor
        if len(self) > len(self._settled):
            grown = np.zeros(len(self) + len(self) // 4, SETTLED)
            grown[: len(self._settled)] = self._settled
            self._settled = grown
        state = processor.state
        connections, first = array_of(state.connections), array_of(state.directions)["first_sequence"]
        numbers = np.array([processor.numbers[row] for row in rows.tolist()], np.int64)
        columns: dict[str, Any] = {name: connections[name][rows] for name in (*FACTS, "first_ns")}
        columns["identity"] = processor.identities[rows]
        columns["first_sequence"] = np.column_stack((first[2 * rows], first[2 * rows + 1]))
        for name in Endpoints._fields:
            columns[name] = processor.endpoints.column(name, rows)
        for name, values in columns.items():
            self._settled[name][numbers] = values
