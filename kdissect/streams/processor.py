"""Pass two without meaning: pieces in, paired exchanges out, as spans of bytes.

A `FlowProcessor` object follows a set of connections through the splits of a capture, one split after the
other. It knows which 4-tuple is which connection (a port pair that is used again is a new one), reads
payload, and drives the compiled loop of `advance`, making room where that asks for it. What it gives is a
`ExchangeBatch`: finished exchanges and the arena in which their bytes lie, valid until the next one is asked
for.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kdissect import limits
from kdissect.capture.index.splits import Split
from kdissect.capture.segment_index import (
    ACK,
    CAPTURED,
    FLAG_ACK,
    FLAG_B_TO_A,
    FLAG_RST,
    FLAG_SYN,
    FLAGS,
    MISSING,
    OFFSET,
    PACKET,
    SEQ,
    unpack,
)
from kdissect.jit.rows import Records, array_of
from kdissect.streams.engine import (
    ALL_THAT_WAITS,
    HOLES,
    THE_END,
    advance,
    carry_over,
    finish,
)
from kdissect.streams.flow_state import (
    DONE,
    FULL_ARENA,
    FULL_CHUNKS,
    FULL_EXCHANGES,
    FULL_WAITING,
    PACKET_BITS,
    PORTS_REUSED,
    SASL_TOKEN,
    SCRATCH,
    TLS_READY,
    TOO_MUCH_HELD,
    Bytes,
    Int64s,
    State,
    begin_anew,
    new_state,
    with_more_arena,
    with_more_chunks,
    with_more_connections,
    with_more_exchanges,
    with_more_waiting,
)
from kdissect.streams.memory_budget import heaviest, held_by_each
from kdissect.streams.overlaps import Conflicts
from kdissect.streams.payload_reader import plan, read_ranges
from kdissect.streams.tls.decrypt_stage import TlsStage
from kdissect.streams.tls.keylog import NO_KEYS, KeyLog

# A SYN may be captured later than what it opens, by another queue: not much has been sent by then.
LATE_SYN_BYTES = 1 << 20
# Finished exchanges that are handed on together: their columns stay in the processor's cache.
FLUSH_AT = 1 << 14


class Endpoints(NamedTuple):
    """The canonical 4-tuple of a connection: A is the lower end; addresses as 16 bytes."""

    a_host: bytes
    a_port: int
    b_host: bytes
    b_port: int


class ExchangeBatch(NamedTuple):
    """Finished exchanges, rows of `flow_state.Exchange`, and the arena that they point into."""

    exchanges: Records
    arena: Bytes


def connection_identity(ends: Endpoints, first_time_ns: int) -> int:
    """Name a connection.

    52 bits (exact in any JSON reader) that depend on nothing but who spoke and since when.
    """
    text = b"%b %d %b %d %d" % (*ends, first_time_ns)
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) >> 12


class FlowProcessor:
    """Connections in the making; see the module's text for the rules.

    With `keys` those under TLS are read as well; with `tokens` raw SASL tokens are given as rows too. They
    hold at most `most_held` bytes of what waits, together (see `relief`), and what is decrypted as many
    again.
    """

    def __init__(
        self,
        splits: Sequence[Split],
        max_versions: Int64s,
        keys: KeyLog = NO_KEYS,
        tokens: bool = False,
        most_held: int = limits.HELD_BYTES,
    ) -> None:
        self._tokens = tokens
        self._most_held = most_held
        self._splits = splits
        self._current: dict[Endpoints, int] = {}
        self.state = new_state(max_versions)
        self.state.counters.most_held = most_held
        self._other_arena = self.state.arena[:0]  # used in turn: memory that was touched before is cheap
        self._conflicts = Conflicts()
        self.endpoints: list[Endpoints] = []
        self.identities: list[int] = []
        self.tls = TlsStage(keys, lambda: FlowProcessor((), max_versions, tokens=tokens, most_held=most_held))

    def feed(self, pieces: pa.RecordBatch) -> Iterator[ExchangeBatch]:
        """Process the pieces of one split (rows of PIECES in order of `piece`).

        Return what was finished by them.
        """
        if pieces.num_rows == 0:
            return
        split = self._splits[pieces["split"][0].as_py()]
        counts = pieces["count"].to_numpy().astype(np.int64)
        segments = unpack(pieces["segments"], counts)
        rows = self._connections_of(pieces, segments, counts)
        connection_of = np.repeat(rows, counts)
        segments[PACKET] |= split.index << PACKET_BITS
        streams = 2 * connection_of + (segments[FLAGS] & FLAG_B_TO_A)
        at_of = self._load(split, segments, streams)
        yield from self._advance(segments, connection_of, at_of)
        self._conflicts.count(split.path, segments, streams, at_of, self.state)
        yield from self.tls.flush()
        yield from self._flush()

    def feed_plain(self, segments: Int64s, connection_of: Int64s, payload: bytes) -> Iterator[ExchangeBatch]:
        """Process segments, described as in pieces, whose payload was not read from a capture.

        It lies one behind another.
        """
        captured = segments[CAPTURED]
        carried = self._renew_arena(len(payload))
        self.state.arena[carried : carried + len(payload)] = np.frombuffer(payload, np.uint8)
        yield from self._advance(segments, connection_of, np.cumsum(captured) - captured + carried)
        yield from self._flush()

    def _advance(self, segments: Int64s, connection_of: Int64s, at_of: Int64s) -> Iterator[ExchangeBatch]:
        code, following = advance(self.state, segments, connection_of, at_of, 0)
        while code != DONE:
            if code == TLS_READY:
                yield from self._take_tls(int(connection_of[following]))
            elif code == PORTS_REUSED:
                yield from self._finish(connection_of[following : following + 1], THE_END)
                begin_anew(self.state, int(connection_of[following]))
            elif code == TOO_MUCH_HELD:
                yield from self._relieve()
            else:
                yield from self._make_room(code)
            code, following = advance(self.state, segments, connection_of, at_of, following)

    def _take_tls(self, connection: int) -> Iterator[ExchangeBatch]:
        yield from self.tls.take(self.state, connection, self.endpoints[connection])

    def close(self) -> Iterator[ExchangeBatch]:
        """End all connections; return what they still held."""
        yield from self._finish(np.arange(len(self.endpoints), dtype=np.int64), THE_END)
        yield from self.tls.close()
        yield from self._flush()

    def _finish(self, rows: Int64s, how: int) -> Iterator[ExchangeBatch]:
        while len(rows):
            code, done = finish(self.state, rows, how)
            rows = rows[done:]
            if code == TLS_READY:
                yield from self._take_tls(int(rows[0]))
            elif code != DONE:
                yield from self._make_room(code)

    def _relieve(self) -> Iterator[ExchangeBatch]:
        """Release what the largest holders wait for, holes first, until half of what may be held is free."""
        count = len(self.endpoints)
        how, held = HOLES, held_by_each(self.state, count)
        while len(rows := heaviest(held, int(held.sum()) - self._most_held // 2)):
            yield from self._finish(rows, how)
            before, held = held, held_by_each(self.state, count)
            array_of(self.state.connections)["overheld"][:count][held < before] += 1
            if how == ALL_THAT_WAITS and (held == before).all():
                break
            how = ALL_THAT_WAITS
        # A great many connections may hold more than that, a little each.
        self.state.counters.most_held = max(self._most_held, 2 * int(self.state.counters.held))

    def states(self) -> list[tuple[State, int]]:
        """Return all that is held at present: states, each with its number of connections."""
        inner = self.tls.inner
        return [(self.state, len(self.endpoints)), *(inner.states() if inner is not None else [])]

    def _connections_of(self, pieces: pa.RecordBatch, segments: Int64s, counts: Int64s) -> Int64s:
        """Return the row of each piece's connection, and add up what pass one counted."""
        first_segment = np.cumsum(counts) - counts
        rows = np.empty(pieces.num_rows, np.int64)
        columns = [pieces[name].to_pylist() for name in (*Endpoints._fields, "first_time_ns")]
        of_row: dict[int, list[Int64s]] = {}  # its segments in this split so far
        for piece, (a_host, a_port, b_host, b_port, first_ns) in enumerate(zip(*columns, strict=True)):
            ends = Endpoints(a_host, a_port, b_host, b_port)
            row = self._current.get(ends)
            part = segments[:, first_segment[piece] : first_segment[piece] + counts[piece]]
            opening = _opening(part)
            used_again = (
                row is not None and opening >= 0 and self._is_used_again(row, opening, of_row.get(row, []))
            )
            if row is None or used_again:
                row = self.new_connection(ends, first_ns)
            of_row.setdefault(row, []).append(part)
            if opening >= 0:
                opened_by = array_of(self.state.connections)["opened_by"]
                opened_by[row] = opening if opened_by[row] < 0 else opened_by[row]
            rows[piece] = row
        connections = array_of(self.state.connections)
        packets = pieces["packets_ab"].to_numpy() + pieces["packets_ba"].to_numpy()
        np.add.at(connections["packets"], rows, packets)
        np.add.at(connections["zero_windows"], rows, pieces["zero_windows"].to_numpy())
        np.add.at(connections["duplicates"], rows, pieces["duplicates"].to_numpy())
        np.maximum.at(connections["last_ns"], rows, pieces["last_time_ns"].to_numpy())
        return rows

    def _is_used_again(self, row: int, opening: int, parts: list[Int64s]) -> bool:
        """Return whether a SYN (as in `opened_by`) opens another connection on these ports.

        `parts` are segments of that one which were not advanced over yet. If it has no SYN, this one may be
        captured late: then it comes shortly before what its sender was captured to send first, or what the
        other end first expects.
        """
        opened_by = int(array_of(self.state.connections)["opened_by"][row])
        if opened_by >= 0:
            return opened_by != opening
        side = opening >> 32
        direction = array_of(self.state.directions)[2 * row + side]
        begins = [int(direction[field]) for field in ("first_sent", "first_expected")]
        for part in parts:
            for which, find in enumerate((_first_sent, _first_agreed)):
                begins[which] = find(part, side) if begins[which] < 0 else begins[which]
        return not any(
            number >= 0 and (number - opening - 1) & 0xFFFFFFFF <= LATE_SYN_BYTES for number in begins
        )

    def new_connection(self, ends: Endpoints, first_ns: int) -> int:
        """Begin a connection; return its row."""
        row = len(self.endpoints)
        self.state = with_more_connections(self.state, row + 1)
        connections = array_of(self.state.connections)
        connections["likely_client_side"][row] = 0 if ends.b_port < ends.a_port else 1
        connections["first_ns"][row] = connections["last_ns"][row] = first_ns
        self.endpoints.append(ends)
        self.identities.append(connection_identity(ends, first_ns))
        self._current[ends] = row
        return row

    def _load(self, split: Split, segments: Int64s, streams: Int64s) -> Int64s:
        """Fill the other arena with what is still needed of this one and the payload of these segments."""
        starts, stops, positions = plan(segments[OFFSET], segments[CAPTURED], streams)
        size = int((stops - starts).sum())
        carried = self._renew_arena(size)
        read_ranges(split.path, starts, stops, self.state.arena[carried : carried + size])
        return positions + carried

    def _renew_arena(self, size: int) -> int:
        """Turn to the other arena, with what is still needed of this one.

        Return where `size` bytes more belong in it.
        """
        count = len(self.endpoints)
        carried = carry_over(self.state, count, self.state.arena, False)
        arena, needed = self._other_arena, carried + size + SCRATCH
        if len(arena) < needed:
            arena = np.empty(needed + needed // 2, np.uint8)
        carry_over(self.state, count, arena, True)
        self.state, self._other_arena = self.state._replace(arena=arena), self.state.arena
        self.state.counters.assembly = carried + size
        return carried

    def _make_room(self, code: int) -> Iterator[ExchangeBatch]:
        if code == FULL_CHUNKS:
            self.state = with_more_chunks(self.state, len(self.state.chunks))
        elif code == FULL_WAITING:
            self.state = with_more_waiting(self.state, len(self.state.waiting))
        elif code == FULL_ARENA:
            self.state = with_more_arena(self.state, 1 << 20)
        elif code == FULL_EXCHANGES:
            if len(self.state.exchanges) >= FLUSH_AT:
                yield from self._flush()
            else:
                self.state = with_more_exchanges(self.state, len(self.state.exchanges))

    def _flush(self) -> Iterator[ExchangeBatch]:
        count = int(self.state.counters.exchange_count)
        if count:
            exchanges = array_of(self.state.exchanges)[:count]
            if not self._tokens:
                exchanges = exchanges[exchanges["status"] != SASL_TOKEN]
            yield ExchangeBatch(exchanges, self.state.arena)
            self.state.counters.exchange_count = 0


def _opening(part: Int64s) -> int:
    """Return a piece's first segment as in OPENED_BY if that is a bare SYN, else -1."""
    if part.shape[1] == 0 or part[FLAGS, 0] & (FLAG_SYN | FLAG_ACK) != FLAG_SYN:
        return -1
    return int((part[FLAGS, 0] & FLAG_B_TO_A) << 32 | part[SEQ, 0])


def _first_sent(part: Int64s, side: int) -> int:
    """Return the sequence number of the first payload of a direction, -1 if there is none."""
    found = np.flatnonzero(
        (part[FLAGS] & (FLAG_B_TO_A | FLAG_RST) == side) & (part[CAPTURED] + part[MISSING] > 0)
    )
    if len(found) == 0:
        return -1
    return int(part[SEQ, found[0]] + (part[FLAGS, found[0]] & FLAG_SYN != 0)) & 0xFFFFFFFF


def _first_agreed(part: Int64s, side: int) -> int:
    """Return the number that the other direction's first SYN-ACK or payload acknowledges, -1 without one."""
    flags = part[FLAGS]
    talks = (part[CAPTURED] + part[MISSING] > 0) | (flags & FLAG_SYN != 0)
    found = np.flatnonzero(
        talks & (flags & (FLAG_B_TO_A | FLAG_ACK | FLAG_RST) == FLAG_B_TO_A - side | FLAG_ACK)
    )
    return int(part[ACK, found[0]]) if len(found) else -1
