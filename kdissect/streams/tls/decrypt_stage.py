"""TLS connections on their way through pass two: records to sessions, plaintext to a second processor.

Plaintext becomes segments of a connection of its own in a second flow processor, `inner`, as if it had been
captured: framing, pairing and losses are the same there. A segment has the time and the number of the packet
with the last byte of its record. Segments go in by batches, but always in the order in which their records
became whole, so the outcome does not depend on where batches or splits end. Exchanges that come out of
`inner` get the row of their TLS connection.

`new_flow_processor` returns a processor with such a stage.

The compiled loop of `advance` stops when a record of TLS is whole. Then `held_chunks` shows a session, which
is written in Python, what lies there, in order, and `let_go` forgets what the session is done with. The loop
stops for a direction again when more has come in than was looked at.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kdissect import limits
from kdissect.array_types import Int64s
from kdissect.capture.index.splits import Split
from kdissect.capture.segment_index import (
    ACK,
    CAPTURED,
    FLAG_ACK,
    FLAG_B_TO_A,
    FLAG_SYN,
    FLAGS,
    MISSING,
    PACKET,
    SEGMENT_COLUMNS,
    SEQ,
    TIME,
)
from kdissect.jit.decorators import jit_flat
from kdissect.jit.rows import array_of
from kdissect.streams.carry.object_values import object_of, object_value
from kdissect.streams.carry.split_numbers import SplitNumbers
from kdissect.streams.carry.value_bytes import Value
from kdissect.streams.chunks import discard
from kdissect.streams.endpoints import Endpoints
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import TLS_PASSED, State
from kdissect.streams.processor import FlowProcessor
from kdissect.streams.tcp.tcp_tracker import STEP_NS
from kdissect.streams.tls.keylog import NO_KEYS, KeyLog
from kdissect.streams.tls.record_layer import Chunk
from kdissect.streams.tls.tls_session import MOST_HELD, Session
from kdissect.streams.tls.tls_state import Plain, TlsFacts

BATCH_BYTES = 1 << 20
BATCH_SEGMENTS = 1 << 14
BEFORE_FIRST = 0xFFFFFFFF  # the sequence number of a SYN whose stream begins with 0
CHUNK_COLUMNS = 4
FEW = 64  # chunks that are shown at a time, unless more lie there


class _Decrypted(NamedTuple):
    """One connection in `inner`: its row there and the sequence numbers that come next."""

    row: int
    following: list[int]


def new_flow_processor(
    splits: Sequence[Split],
    max_versions: Int64s,
    keys: KeyLog = NO_KEYS,
    tokens: bool = False,
    most_held: int = limits.HELD_BYTES,
    tcp_step_ns: int = STEP_NS,
    follows_tcp: bool = True,
    batch_bytes: int = 0,
    reads_all: bool = True,
) -> FlowProcessor:
    """Return a processor that decrypts TLS connections with `keys`; the other arguments are its own."""
    stage = TlsStage(keys, lambda: new_flow_processor((), max_versions, NO_KEYS, tokens, most_held))
    return FlowProcessor(
        splits, max_versions, stage, tokens, most_held, tcp_step_ns, follows_tcp, batch_bytes, reads_all
    )


class TlsStage:
    """Sessions by row of their TLS connection, and the plaintext that waits for the next batch.

    `on_plain` is called with each part of plaintext and the row of its TLS connection.
    """

    def __init__(self, keys: KeyLog, new_processor: Callable[[], FlowProcessor]) -> None:
        self._keys = keys
        self._new_processor = new_processor
        self._sessions: dict[int, Session] = {}
        self._facts: dict[int, TlsFacts] = {}  # of sessions that are settled
        self._decrypted: dict[int, _Decrypted] = {}
        self._outer_rows: list[int] = []
        self._segments: list[tuple[int, ...]] = []
        self._connection_of: list[int] = []
        self._payload: list[bytes] = []
        self._size = 0
        self.inner: FlowProcessor | None = None
        self.on_plain: Callable[[int, Plain], None] | None = None

    def take(self, state: State, connection: int, ends: Endpoints) -> Iterator[ExchangeBatch]:
        """Consume the whole records of a TLS connection off its streams.

        Return what was finished meanwhile.
        """
        session = self._sessions.get(connection)
        if session is None:
            session = self._sessions[connection] = Session(self._keys)
        going = True
        while going:
            going = False
            for side in (0, 1):
                direction = 2 * connection + side
                chunks = held_chunks(state, direction)
                if chunks:
                    done, held, plain = session.take(side, chunks)
                    let_go(state, direction, done, held)
                    going = going or done > 0
                    for part in plain:
                        self._add(connection, session, ends, part)
        connections = array_of(state.connections)
        if session.client is not None:
            connections["client_side"][connection] = session.client
        if session.settled:
            connections["protocol"][connection] = TLS_PASSED
            self._facts[connection] = self._sessions.pop(connection).facts()
        if self._size >= BATCH_BYTES or len(self._segments) >= BATCH_SEGMENTS:
            yield from self.flush()

    def flush(self) -> Iterator[ExchangeBatch]:
        """Process all plaintext that was decrypted so far; return the exchanges that it finished."""
        if self.inner is None or not self._segments:
            return
        segments = np.array(self._segments, np.int64).T
        connection_of = np.array(self._connection_of, np.int64)
        payload = b"".join(self._payload)
        self._segments, self._connection_of, self._payload, self._size = [], [], [], 0
        for batch in self.inner.feed_plain(segments, connection_of, payload):
            yield self._outer(batch)

    def close(self) -> Iterator[ExchangeBatch]:
        """End all connections; return what they still held."""
        yield from self.flush()
        if self.inner is not None:
            for batch in self.inner.close():
                yield self._outer(batch)

    def end(self, rows: Int64s) -> Iterator[ExchangeBatch]:
        """End some connections, given by their TLS rows; return what they still held."""
        yield from self.flush()
        if self.inner is not None:
            inner_rows = np.flatnonzero(np.isin(self._outer_rows, rows))
            for batch in self.inner.end(inner_rows):
                yield self._outer(batch)

    def forget(self, rows: Int64s) -> None:
        """Forget connections that `end` has ended; later ones get their rows."""
        inner_rows = []
        for row in rows.tolist():
            self._sessions.pop(row, None)
            self._facts.pop(row, None)
            decrypted = self._decrypted.pop(row, None)
            if decrypted is not None:
                inner_rows.append(decrypted.row)
                self._outer_rows[decrypted.row] = -1
        if self.inner is not None:
            self.inner.forget(np.array(inner_rows, np.int64))

    def carried(self, rows: Int64s, numbers: SplitNumbers) -> Value:
        """Return what is known of some connections, secrets included. All plaintext must be flushed."""
        number_of = {row: number for number, row in enumerate(rows.tolist())}
        kept = [row for row, outer in enumerate(self._outer_rows) if outer in number_of]
        decrypted = [(outer, self._decrypted[outer]) for outer in (self._outer_rows[row] for row in kept)]
        return {
            "sessions": [
                [number_of[row], object_value(item)]
                for known in (self._sessions, self._facts)
                for row, item in known.items()
                if row in number_of
            ],
            "decrypted": [[number_of[outer], list(one.following)] for outer, one in decrypted],
            "inner": self.inner and self.inner.carried(np.array(kept, np.int64), numbers),
        }

    def resume(self, value: Value, first_split: int) -> None:
        """Go on with what `carried` returned."""
        for row, packed in value["sessions"]:
            item = object_of(packed)
            if isinstance(item, Session):
                item.use_keys(self._keys)
                self._sessions[row] = item
            else:
                self._facts[row] = item
        self._outer_rows = [outer for outer, _ in value["decrypted"]]
        for inner_row, (outer, following) in enumerate(value["decrypted"]):
            self._decrypted[outer] = _Decrypted(inner_row, following)
        if value["inner"] is not None:
            self.inner = self._new_processor()
            self.inner.resume(value["inner"], first_split)

    def facts(self) -> dict[int, TlsFacts]:
        """Return what is known of each TLS connection that said anything, by row."""
        return self._facts | {row: session.facts() for row, session in self._sessions.items()}

    def rows(self) -> tuple[Int64s, Int64s]:
        """Return the rows of connections with plaintext: in `inner`, and as TLS connections."""
        return np.arange(len(self._outer_rows)), np.array(self._outer_rows, np.int64)

    def _outer(self, batch: ExchangeBatch) -> ExchangeBatch:
        outer = np.array(self._outer_rows, np.int64)
        batch.exchanges["connection"] = outer[batch.exchanges["connection"]]
        return batch

    def _add(self, connection: int, session: Session, ends: Endpoints, part: Plain) -> None:
        decrypted = self._decrypted.get(connection)
        if decrypted is None:
            decrypted = self._open(connection, session, ends, part)
        if self.on_plain is not None:
            self.on_plain(connection, part)
        row, following = decrypted
        captured = part.length if part.data is not None else 0
        flags = FLAG_B_TO_A if part.side else 0
        self._segment(row, part, following[part.side], captured, part.length - captured, flags)
        following[part.side] = (following[part.side] + part.length) & 0xFFFFFFFF
        if part.data is not None:
            self._payload.append(part.data)
            self._size += len(part.data)

    def _open(self, connection: int, session: Session, ends: Endpoints, part: Plain) -> _Decrypted:
        """Begin the connection in `inner` with a handshake: it tells the client and where streams begin."""
        if self.inner is None:
            self.inner = self._new_processor()
        decrypted = _Decrypted(self.inner.new_connection(ends, part.time_ns), [0, 0])
        self._decrypted[connection] = decrypted
        self._outer_rows[decrypted.row : decrypted.row + 1] = [connection]
        client = session.client or 0
        for side, flags in ((client, FLAG_SYN), (1 - client, FLAG_SYN | FLAG_ACK)):
            self._segment(decrypted.row, part, BEFORE_FIRST, 0, 0, flags | (FLAG_B_TO_A if side else 0))
        return decrypted

    def _segment(self, row: int, part: Plain, sequence: int, captured: int, missing: int, flags: int) -> None:
        segment = [0] * SEGMENT_COLUMNS
        segment[TIME], segment[PACKET], segment[FLAGS] = part.time_ns, part.packet, flags
        segment[CAPTURED], segment[MISSING] = captured, missing
        segment[SEQ], segment[ACK] = sequence, 0
        self._segments.append(tuple(segment))
        self._connection_of.append(row)


@jit_flat
def _list_chunks(state: State, direction: int, rows: Int64s) -> int:
    """Fill rows (at, length, time, packet); return how many were filled."""
    row = state.directions[direction]
    count = 0
    node = row.head
    while node >= 0 and count < len(rows):
        chunks = state.chunks
        inside = max(0, row.frame - chunks[node].position)
        rows[count, 0] = chunks[node].offset + inside if chunks[node].offset >= 0 else -1
        rows[count, 1] = chunks[node].length - inside
        rows[count, 2] = chunks[node].time_ns
        rows[count, 3] = chunks[node].packet
        count += 1
        node = chunks[node].next
    return count


@jit_flat
def _let_go(state: State, direction: int, count: int, wait_for: int) -> None:
    row = state.directions[direction]
    if count > 0:
        discard(state, direction, row.frame + count)
    row.scanned.position = row.next + wait_for


def held_chunks(state: State, direction: int) -> list[Chunk]:
    """Return the bytes of a direction that nobody has taken yet, as chunks in order."""
    rows = np.empty((FEW, CHUNK_COLUMNS), np.int64)
    while (count := _list_chunks(state, direction, rows)) == len(rows):
        rows = np.empty((4 * len(rows), CHUNK_COLUMNS), np.int64)
    arena = state.arena
    return [
        Chunk(arena[at : at + length].tobytes() if at >= 0 else None, length, time, packet)
        for at, length, time, packet in rows[:count].tolist()
    ]


def let_go(state: State, direction: int, count: int, held: bool) -> None:
    """Forget `count` bytes of a direction. Held data is not looked at again unless it becomes too much."""
    _let_go(state, direction, count, MOST_HELD if held else 0)
