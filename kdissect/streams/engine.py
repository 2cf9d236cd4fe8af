"""The engine of pass two: segments in, finished exchanges out, one state in between.

    segment ──► receive ──► read the other direction ──► read its direction ──► next segment
                   │          if an acknowledgment           │      │
                   │          settled its holes              │      └─► read the other direction,
                   │                 │                       │          if this one has shown
                   ▼                 ▼                       ▼          the protocol
              no room for       between two frames: no room for the next
              its chunks        one, or a record of TLS is there
                   │                 │
                   └────► stop ◄─────┘     the caller handles it, and the loop goes on at the same place

    a connection    UNDECIDED ─► KAFKA, KAFKA_0_7     its frames are paired
                              ─► TLS ─► TLS_PASSED    its records are decrypted, until nothing can be read
                              ─► OTHER                its bytes are skipped
    a direction     in step ◄─► out of step           the next frame is searched (`frame_search`)

`segment_loop.advance` runs this for segments, `finish_loop.finish` reads what is left at the end. Both are
compiled, and both return why they stopped:

    FULL_…          a pool has no room for the next step (`room`)        make room
    TLS_READY       a connection has a whole record of TLS               hand it to the decrypt stage
    PORTS_REUSED    a segment belongs to a new connection                finish the one before it
    TOO_MUCH_HELD   all connections together hold too much               relieve (`memory_budget`)

`StreamEngine` owns the state and handles the stops. The place where a loop stops depends on the sizes of the
pools, the outcome does not: a step that cannot be done has changed nothing.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from kdissect.array_types import Bytes, Int64s
from kdissect.capture.segment_index import FLAGS
from kdissect.jit.rows import Records, array_of
from kdissect.jit.unread_bytes import DESCRIPTOR
from kdissect.streams.arena import renew_arena
from kdissect.streams.carry.split_numbers import SplitNumbers
from kdissect.streams.carry.state_value import both_directions, resumed_state, state_value
from kdissect.streams.carry.value_bytes import Value
from kdissect.streams.finish_loop import ALL_THAT_WAITS, HOLES, THE_END, finish
from kdissect.streams.flow_state import (
    DONE,
    FULL_ARENA,
    FULL_CHUNKS,
    FULL_EXCHANGES,
    FULL_WAITING,
    PORTS_REUSED,
    SASL_TOKEN,
    SCRATCH,
    TLS_READY,
    TOO_MUCH_HELD,
    State,
)
from kdissect.streams.memory_budget import heaviest, held_by_each
from kdissect.streams.overlaps import Conflicts
from kdissect.streams.payload_reader import Later, read_payload
from kdissect.streams.segment_loop import advance
from kdissect.streams.split_segments import SplitSegments
from kdissect.streams.state_pools import (
    begin_anew,
    forget_connections,
    new_state,
    with_more_arena,
    with_more_chunks,
    with_more_connections,
    with_more_exchanges,
    with_more_waiting,
)
from kdissect.streams.unread_payload import UnreadPayload, may_stay_unread

# Finished exchanges that are handed on together: their columns stay in the processor's cache.
FLUSH_AT = 1 << 14
MOST_CONNECTIONS = 2048  # of a task that lets exchanges wait: the state of more takes the memory for it
ARENA_STEP = 1 << 20  # bytes that an arena grows by at least


class ExchangeBatch(NamedTuple):
    """Finished exchanges, rows of `flow_state.ExchangeRow`, and the arena that they point into."""

    exchanges: Records
    arena: Bytes
    unread: UnreadPayload | None = None
    """Bytes of the arena that stand in files; None if all are there."""


TakeRecords = Callable[[State, int], Iterator[ExchangeBatch]]
"""Consume the whole records of a TLS connection, given by its row, and return what was finished meanwhile."""


class StreamEngine:
    """The state of a set of connections, and the loops over it.

    Exchanges of slabs that lie in `batch_bytes` of the arena may come in one batch: see `end_slab`.

    Connections are rows, counted from 0. All of them together hold at most `most_held` bytes of what waits.
    With `tokens` raw SASL tokens are returned as exchanges, too. Large records stay unread unless the engine
    `reads_all`. The methods that may meet whole records of TLS are given `take_records` each time: an engine
    that kept it would be part of a circle of references, and its memory would stay until the garbage
    collector runs.

    A batch of exchanges is valid until the next one is asked for.
    """

    def __init__(
        self,
        max_versions: Int64s,
        most_held: int,
        tokens: bool = False,
        batch_bytes: int = 0,
        reads_all: bool = True,
    ) -> None:
        self.state = new_state(max_versions)
        self.state.counters.most_held = most_held
        self.connection_count = 0
        self._most_held = most_held
        self._tokens = tokens
        self._batch_bytes = batch_bytes
        self._slab_begins = 0  # offset in the arena
        self._flushed_in_slab = False
        self._conflicts = Conflicts()
        self._unread = None if reads_all else UnreadPayload()
        self._free: list[int] = []  # rows of connections that were forgotten

    def add_connections(self, likely_client_sides: Int64s, first_ns: Int64s) -> Int64s:
        """Begin connections whose first packets have these times; return their rows."""
        free = [self._free.pop() for _ in range(min(len(self._free), len(first_ns)))]
        new = len(first_ns) - len(free)
        rows = np.concatenate(
            [np.array(free, np.int64), np.arange(self.connection_count, self.connection_count + new)]
        )
        self.connection_count += new
        self.state = with_more_connections(self.state, self.connection_count)
        connections = array_of(self.state.connections)
        connections["likely_client_side"][rows] = likely_client_sides
        connections["first_ns"][rows] = connections["last_ns"][rows] = first_ns
        return rows

    def read(self, path: str, segments: SplitSegments) -> Int64s:
        """Read the payload of a split into the arena; return the offset of each segment's.

        Raise CaptureChanged when the file is shorter by now. Payload that may stay unread is read when a loop
        looks at it.
        """
        if self._unread is None:
            return read_payload(path, segments, self.room_for_payload)
        later = Later(self._unread, lambda: may_stay_unread(self.state))
        offset_of = read_payload(path, segments, self.room_for_payload, later)
        self.state = self.state._replace(unread=self._unread.rows)
        self.state.counters.unread = int((self._unread.rows[:, DESCRIPTOR] >= 0).sum())
        return offset_of

    def room_for_payload(self, size: int) -> tuple[Bytes, int]:
        """Return `size` bytes of the arena for the next slab, and their offset.

        The slab before is let go, unless exchanges of it wait for their batch.
        """
        if self.state.counters.exchange_count:
            offset = int(self.state.counters.assembly)
            short = offset + size + SCRATCH - len(self.state.arena)
            if short > 0:
                self.state = with_more_arena(self.state, short)
            self.state.counters.assembly = offset + size
        else:
            least = self._most_waiting()
            self.state, offset = renew_arena(self.state, self.connection_count, size, least)
            self._forget_unread()
        self._slab_begins, self._flushed_in_slab = offset, False
        return self.state.arena[offset : offset + size], offset

    def advance(
        self, segments: Int64s, connection_of: Int64s, offset_of: Int64s, take_records: TakeRecords
    ) -> Iterator[ExchangeBatch]:
        """Process segments in order; the arguments are those of `segment_loop.advance`."""
        laid_out = _in_one_layout(segments)
        code, following = advance(self.state, laid_out, connection_of, offset_of, 0)
        while code != DONE:
            connection = int(connection_of[following])
            if code == PORTS_REUSED:
                yield from self._finish(connection_of[following : following + 1], THE_END, take_records)
                yield from self.flush()  # while the state of their connection is there
                begin_anew(self.state, connection)
            elif code == TOO_MUCH_HELD:
                yield from self._relieve(take_records)
            else:
                yield from self._go_on(code, connection, take_records)
            code, following = advance(self.state, laid_out, connection_of, offset_of, following)
        if laid_out is not segments:
            segments[FLAGS] = laid_out[FLAGS, : segments.shape[1]]
        self._check_unread()

    def count_conflicts(self, path: str, segments: SplitSegments, offset_of: Int64s) -> None:
        """Count the segments of a split of the file `path` that brought other bytes than those before."""
        repeats = self.state.counters.repeats > 0
        self.state.counters.repeats = 0
        self._conflicts.count(path, segments, repeats, offset_of, self.state)
        self._check_unread()

    def close(self, take_records: TakeRecords) -> Iterator[ExchangeBatch]:
        """End all connections; return what they still held, apart from what `flush` returns."""
        yield from self._finish(np.arange(self.connection_count, dtype=np.int64), THE_END, take_records)

    def let_go_of_payload(self) -> None:
        """Return the memory of the arena to the system, when nothing of it is wanted any more."""
        self._forget_unread()
        self.state = self.state._replace(arena=np.zeros(1, np.uint8))

    def end(self, rows: Int64s, take_records: TakeRecords) -> Iterator[ExchangeBatch]:
        """End some connections, as `close` does with all."""
        yield from self._finish(rows, THE_END, take_records)

    def forget(self, rows: Int64s) -> None:
        """Forget connections that `end` has ended; later ones get their rows."""
        forget_connections(self.state, rows)
        self._conflicts.forget(both_directions(rows))
        self._free += rows.tolist()

    def carried(self, rows: Int64s, numbers: SplitNumbers) -> Value:
        """Return what is known of the connections in `rows`, between two slabs; all others have ended."""
        self.room_for_payload(0)
        stop = int(self.state.counters.assembly)
        return {
            "state": state_value(self.state, rows, stop, numbers),
            "conflicts": self._conflicts.carried(both_directions(rows)),
        }

    def resume(self, value: Value, first_split: int) -> None:
        """Go on with what `carried` returned; splits of that time have numbers from `first_split` on."""
        self.state = resumed_state(self.state.max_versions, value["state"], first_split)
        self.connection_count = len(value["state"]["connections"])
        self._conflicts.resume(value["conflicts"])

    def end_slab(self) -> Iterator[ExchangeBatch]:
        """Return the exchanges that are finished by now, unless they are few, and the next slab has room too.

        A batch costs milliseconds of calls, whatever its size. A slab that filled a batch has small messages.
        After one, nothing waits, so the arena does not grow with such traffic.
        """
        used = int(self.state.counters.assembly)
        expected = (used - self._slab_begins) * 5 // 4
        are_few = not self._flushed_in_slab and self.state.counters.exchange_count < FLUSH_AT // 2
        if not are_few or used + expected + SCRATCH > self._most_waiting():
            yield from self.flush()

    def _most_waiting(self) -> int:
        """Return how many bytes of the arena may hold exchanges that wait for their batch."""
        return self._batch_bytes if self.connection_count <= MOST_CONNECTIONS else 0

    def flush(self) -> Iterator[ExchangeBatch]:
        """Return the exchanges that are finished by now."""
        self._flushed_in_slab = True
        count = int(self.state.counters.exchange_count)
        if count:
            exchanges = array_of(self.state.exchanges)[:count]
            if not self._tokens:
                exchanges = exchanges[exchanges["status"] != SASL_TOKEN]
            yield ExchangeBatch(exchanges, self.state.arena, self._unread)
            self.state.counters.exchange_count = 0

    def _finish(self, rows: Int64s, how: int, take_records: TakeRecords) -> Iterator[ExchangeBatch]:
        while len(rows):
            code, done = finish(self.state, rows, how)
            rows = rows[done:]
            self._check_unread()
            if code != DONE:
                yield from self._go_on(code, int(rows[0]), take_records)

    def _relieve(self, take_records: TakeRecords) -> Iterator[ExchangeBatch]:
        """Release what the largest holders wait for, holes first, until half of what may be held is free."""
        count = self.connection_count
        how, held = HOLES, held_by_each(self.state, count)
        while len(rows := heaviest(held, int(held.sum()) - self._most_held // 2)):
            yield from self._finish(rows, how, take_records)
            before, held = held, held_by_each(self.state, count)
            array_of(self.state.connections)["overheld"][:count][held < before] += 1
            if how == ALL_THAT_WAITS and (held == before).all():
                break
            how = ALL_THAT_WAITS
        # A great many connections may hold more than that, a little each.
        self.state.counters.most_held = max(self._most_held, 2 * int(self.state.counters.held))

    def _check_unread(self) -> None:
        if self._unread is not None:
            self._unread.check()

    def _forget_unread(self) -> None:
        """Close the files of payload that is unread: nobody will look at it any more."""
        if self._unread is not None:
            self._unread.clear()
            self.state = self.state._replace(unread=self._unread.rows)
            self.state.counters.unread = 0

    def _go_on(self, code: int, connection: int, take_records: TakeRecords) -> Iterator[ExchangeBatch]:
        """Do what a loop has stopped for at a connection."""
        if code == TLS_READY:
            yield from take_records(self.state, connection)
        elif code == FULL_CHUNKS:
            self.state = with_more_chunks(self.state, len(self.state.chunks))
        elif code == FULL_WAITING:
            self.state = with_more_waiting(self.state, len(self.state.waiting))
        elif code == FULL_ARENA:
            self.state = with_more_arena(self.state, ARENA_STEP)
        elif code == FULL_EXCHANGES:
            if len(self.state.exchanges) >= FLUSH_AT:
                yield from self.flush()
            else:
                self.state = with_more_exchanges(self.state, len(self.state.exchanges))


def _in_one_layout(segments: Int64s) -> Int64s:
    """Return descriptors in the layout of `FlowProcessor.feed`; for another one, compiling takes a minute.

    An array of fewer than two columns has several layouts at once, so unused columns are added to it.
    """
    if segments.shape[1] > 1:
        return np.asfortranarray(segments)
    wide = np.zeros((len(segments), 2), np.int64, order="F")
    wide[:, : segments.shape[1]] = segments
    return wide
