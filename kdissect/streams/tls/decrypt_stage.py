"""TLS connections on their direction through pass two.

Their records go to sessions, plaintext goes on as if it had been captured.

Plaintext becomes segments of a connection of its own in a second set of conversations, `inner`, where all
that is done for plain traffic is done for it: framing, pairing, loss. A segment has the time and the number
of the packet with the last byte of its record. Segments go in by batches, but always in the order in which
their records became whole, so nothing depends on where batches or splits end. What comes out of `inner` is
given under the row of the TLS connection.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

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
from kdissect.jit.rows import array_of
from kdissect.streams.flow_state import TLS_PASSED, Int64s, State
from kdissect.streams.tls.held_records import held_chunks, let_go
from kdissect.streams.tls.keylog import KeyLog
from kdissect.streams.tls.tls_session import (
    Plain,
    Session,
    TlsFacts,
)

if TYPE_CHECKING:
    from kdissect.streams.processor import (
        Endpoints,
        ExchangeBatch,
        FlowProcessor,
    )

BATCH_BYTES = 1 << 20
BATCH_SEGMENTS = 1 << 14
BEFORE_FIRST = 0xFFFFFFFF  # the sequence number of a SYN whose stream begins with 0


class _Decrypted(NamedTuple):
    """One connection in `inner`: its row there and the sequence numbers that come next."""

    row: int
    following: list[int]


class TlsStage:
    """Sessions by row of their TLS connection, and the plaintext on its direction."""

    def __init__(self, keys: KeyLog, new_conversations: "Callable[[], FlowProcessor]") -> None:
        self._keys = keys
        self._new_conversations = new_conversations
        self._sessions: dict[int, Session] = {}
        self._facts: dict[int, TlsFacts] = {}  # of sessions that are settled
        self._decrypted: dict[int, _Decrypted] = {}
        self._outer_rows: list[int] = []
        self._segments: list[tuple[int, ...]] = []
        self._connection_of: list[int] = []
        self._payload: list[bytes] = []
        self._size = 0
        self.inner: FlowProcessor | None = None

    def take(self, state: State, connection: int, ends: "Endpoints") -> "Iterator[ExchangeBatch]":
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

    def flush(self) -> "Iterator[ExchangeBatch]":
        """Have all plaintext go its direction."""
        if self.inner is None or not self._segments:
            return
        segments = np.ascontiguousarray(np.array(self._segments, np.int64).T)
        connection_of = np.array(self._connection_of, np.int64)
        payload = b"".join(self._payload)
        self._segments, self._connection_of, self._payload, self._size = [], [], [], 0
        for harvest in self.inner.feed_plain(segments, connection_of, payload):
            yield self._outer(harvest)

    def close(self) -> "Iterator[ExchangeBatch]":
        """End all connections; return what they still held."""
        yield from self.flush()
        if self.inner is not None:
            for harvest in self.inner.close():
                yield self._outer(harvest)

    def facts(self) -> dict[int, TlsFacts]:
        """Return what is known of each TLS connection that said anything, by row."""
        return self._facts | {row: session.facts() for row, session in self._sessions.items()}

    def rows(self) -> tuple[Int64s, Int64s]:
        """Return the rows of connections with plaintext: in `inner`, and as TLS connections."""
        return np.arange(len(self._outer_rows)), np.array(self._outer_rows, np.int64)

    def _outer(self, harvest: "ExchangeBatch") -> "ExchangeBatch":
        outer = np.array(self._outer_rows, np.int64)
        harvest.exchanges["connection"] = outer[harvest.exchanges["connection"]]
        return harvest

    def _add(self, connection: int, session: Session, ends: "Endpoints", part: Plain) -> None:
        decrypted = self._decrypted.get(connection)
        if decrypted is None:
            decrypted = self._open(connection, session, ends, part)
        row, following = decrypted
        captured = part.length if part.data is not None else 0
        flags = FLAG_B_TO_A if part.side else 0
        self._segment(row, part, following[part.side], captured, part.length - captured, flags)
        following[part.side] = (following[part.side] + part.length) & 0xFFFFFFFF
        if part.data is not None:
            self._payload.append(part.data)
            self._size += len(part.data)

    def _open(self, connection: int, session: Session, ends: "Endpoints", part: Plain) -> _Decrypted:
        """Begin the connection in `inner` with a handshake: it tells the client and where streams begin."""
        if self.inner is None:
            self.inner = self._new_conversations()
        decrypted = _Decrypted(self.inner.new_connection(ends, part.time_ns), [0, 0])
        self._decrypted[connection] = decrypted
        self._outer_rows.append(connection)
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
