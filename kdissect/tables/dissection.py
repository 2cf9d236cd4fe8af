"""Pass two over captures that go on: some connections, batch by batch, from process to process.

A `Dissection` takes the pieces of a batch of splits, as `build.dissect_batches` does, and returns the same
batches of tables. Then connections that are over are ended, and what the others have not finished is carried
on as a value (`streams.carry`), from which the dissection of the next batch begins. All rows together are
those of one dissection of all splits, wherever the batches were cut. Two bounds may change that:

- A connection is over when another one uses its ports, when it was closed and silent for `closed_ns`, or
  silent for `idle_ns`. Later packets on the same ports begin another connection.
- All connections together hold at most limits.HELD_BYTES: see `streams.memory_budget`.

Time is that of the captures, never of a clock.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.array_types import Int64s
from kdissect.capture.index.splits import Split
from kdissect.jit.rows import array_of
from kdissect.streams.carry.split_numbers import SplitNumbers, past_splits
from kdissect.streams.carry.value_bytes import Value
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import OPEN
from kdissect.streams.processor import CLOSED_NS
from kdissect.streams.tcp.tcp_tracker import STEP_NS
from kdissect.streams.tls.keylog import NO_KEYS, KeyLog
from kdissect.tables.build import (
    Batches,
    TableMaker,
    by_split,
    new_table_processor,
    with_facts,
)

NS_PER_S = 1_000_000_000


class AgeLimits(NamedTuple):
    """How long a connection may be silent before it is over."""

    idle_ns: int = (
        3600 * NS_PER_S
    )  # Kafka's brokers close a connection after 10 minutes, unless set otherwise
    closed_ns: int = CLOSED_NS  # after its FIN or RST


class Aged(NamedTuple):
    """Rows of connections that are over, and how many of them were idle, yet not closed."""

    rows: Int64s
    idle: int


class Dissection:
    """Pass two over some connections; `carried` is what the batch before has returned.

    The other arguments are those of `dissect_batches`. `splits` are those of this batch, numbered from 0.
    """

    def __init__(
        self,
        splits: Sequence[Split],
        keys: KeyLog = NO_KEYS,
        wanted: Collection[str] = (),
        tcp_step_ns: int = STEP_NS,
        carried: Value = None,
    ) -> None:
        past = past_splits(carried["splits"], len(splits)) if carried is not None else ()
        self._splits = (*splits, *past)
        self._wanted = wanted
        self._processor = new_table_processor(self._splits, keys, tcp_step_ns, batch_bytes=0)
        self._maker = TableMaker(self._splits, wanted)
        if carried is not None:
            self._processor.resume(carried["flows"], len(splits))
            self._maker.details.resume(carried["details"])

    @property
    def connections(self) -> int:
        """Return how many connections are known at present."""
        return len(self._processor.endpoints)

    def feed(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[Batches]:
        """Yield batches of tables for the pieces of some splits (rows of PIECES)."""
        for split_pieces in by_split(pieces):
            yield from self._tables(self._processor.feed(split_pieces))

    def aged(self, now_ns: int, age_limits: AgeLimits) -> Aged:
        """Return the connections that are over at a time of the captures (ns since the epoch)."""
        known = array_of(self._processor.state.connections)[: self.connections]
        silent_ns = now_ns - known["last_ns"]
        over = (known["ended"] != OPEN) & (silent_ns >= age_limits.closed_ns)
        over[self._processor.replaced()] = True
        idle = ~over & (silent_ns >= age_limits.idle_ns)
        return Aged(np.flatnonzero(over | idle), int(idle.sum()))

    def every_row(self) -> Int64s:
        """Return the rows of all connections."""
        return np.arange(self.connections)

    def end(self, rows: Int64s) -> Iterator[Batches]:
        """End connections. Yield what they still held, their rows of `connections`, and TCP's figures so far.

        It is called once for a batch, after all its splits.
        """
        yield from self._tables(self._processor.end(rows))
        yield from self._maker.connections(self._processor, rows)
        self._processor.tcp.drain()

    def carried(self, ended: Int64s) -> Value:
        """Return what all connections have not finished, except those in `ended`, which `end` has ended."""
        rows = np.setdiff1d(self.every_row(), ended)
        numbers = SplitNumbers()
        flows = self._processor.carried(rows, numbers)
        return {
            "flows": flows,
            "details": self._maker.details.carried(rows),
            "splits": numbers.names(self._splits),
        }

    def _tables(self, batches: Iterable[ExchangeBatch]) -> Iterator[Batches]:
        return self._maker.exchanges(with_facts(batches, self._processor, self._wanted))
