"""Pass two without meaning: segments of captured connections in, paired exchanges out.

A `FlowProcessor` follows a set of connections through the splits of a capture, one split after the other. It
knows which 4-tuple is which connection (a port pair that is used again is a new one), reads the payload of
the segments, and drives the engine. It returns `ExchangeBatch`: finished exchanges and the arena in which
their bytes lie, valid until the next one is asked for.

Records of TLS go to a `DecryptStage`. `tls.decrypt_stage.new_flow_processor` puts the two together.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from kdissect import limits
from kdissect.array_types import Int64s
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
    SEQ,
    UnpackedPieces,
    unpack_pieces,
)
from kdissect.jit.rows import Records, array_of
from kdissect.streams.carry.split_numbers import SplitNumbers
from kdissect.streams.carry.value_bytes import Value
from kdissect.streams.endpoints import KEY, Endpoints, EndpointTable, connection_identity, keys_of
from kdissect.streams.engine import ExchangeBatch, StreamEngine
from kdissect.streams.flow_state import PACKET_BITS, State
from kdissect.streams.newest_rows import NewestRows
from kdissect.streams.split_segments import segments_of_split
from kdissect.streams.tcp.tcp_tracker import STEP_NS, TcpTracker
from kdissect.streams.tls.tls_state import Plain, TlsFacts

# A SYN may be captured later than what it opens, by another queue: not much has been sent by then.
LATE_SYN_BYTES = 1 << 20

# A connection is over when it is silent for so long after its FIN or RST: twice the longest life of a segment
# (RFC 9293).
CLOSED_NS = 240 * 10**9


class DecryptStage(Protocol):
    """Destination of the records of TLS connections; what it decrypts comes back as exchanges."""

    on_plain: Callable[[int, Plain], None] | None

    @property
    def inner(self) -> "FlowProcessor | None":
        """The processor of what was decrypted; None before there is any."""

    def take(self, state: State, connection: int, ends: Endpoints) -> Iterator[ExchangeBatch]:
        """Consume the whole records of a TLS connection off its streams."""

    def flush(self) -> Iterator[ExchangeBatch]:
        """Process what was decrypted so far."""

    def close(self) -> Iterator[ExchangeBatch]:
        """End all connections."""

    def end(self, rows: Int64s) -> Iterator[ExchangeBatch]:
        """End some connections, given by their TLS rows."""

    def forget(self, rows: Int64s) -> None:
        """Forget connections that `end` has ended; later ones get their rows."""

    def carried(self, rows: Int64s, numbers: SplitNumbers) -> Value:
        """Return what is known of some connections."""

    def resume(self, value: Value, first_split: int) -> None:
        """Go on with what `carried` returned."""

    def facts(self) -> dict[int, TlsFacts]:
        """Return what is known of each TLS connection, by row."""

    def rows(self) -> tuple[Int64s, Int64s]:
        """Return the rows of connections with plaintext: in `inner`, and as TLS connections."""


class FlowProcessor:
    """Connections in the making; see the module's text for the rules.

    `tls` gets the records of connections under TLS. With `tokens` raw SASL tokens are returned as rows, too.
    `tcp` sees all packets, those without payload too, and counts by steps of `tcp_step_ns`, if the caller
    `follows_tcp`. All connections together hold at most `most_held` bytes of what waits (see
    `memory_budget`), and what is decrypted as many again.

    Connections are rows, and `endpoints` and `numbers` have an entry for each row. Their
    numbers count them as they begin: `row_of` a number is the row, unless the connection is forgotten. Nobody
    who follows TCP may `forget`.
    """

    def __init__(
        self,
        splits: Sequence[Split],
        max_versions: Int64s,
        tls: DecryptStage,
        tokens: bool = False,
        most_held: int = limits.HELD_BYTES,
        tcp_step_ns: int = STEP_NS,
        follows_tcp: bool = True,
        batch_bytes: int = 0,
        reads_all: bool = True,
    ) -> None:
        self._follows_tcp = follows_tcp
        self.tcp = TcpTracker(tcp_step_ns)
        self._splits = splits
        self._newest = NewestRows()
        self._engine = StreamEngine(max_versions, most_held, tokens, batch_bytes, reads_all)
        self.endpoints = EndpointTable()
        self.numbers: list[int] = []
        self.row_of: dict[int, int] = {}
        self.begun = 0
        self.tls = tls

    @property
    def state(self) -> State:
        """Return the present state of the connections."""
        return self._engine.state

    @property
    def identities(self) -> Int64s:
        """The identity of each connection, by row."""
        return self.endpoints.identities

    def feed(self, pieces: pa.RecordBatch) -> Iterator[ExchangeBatch]:
        """Process the pieces of one split (rows of PIECES in order of `piece`).

        Return the exchanges that were finished by them. With `batch_bytes`, some of them may come later.
        """
        if pieces.num_rows == 0:
            return
        split = self._splits[pieces["split"][0].as_py()]
        counts = pieces["count"].to_numpy().astype(np.int64)
        first_packet = (split.index << PACKET_BITS) + split.first_packet
        unpacked = unpack_pieces(pieces["segments"], counts, first_packet)
        rows = self._connections_of(pieces, unpacked, counts)
        if self._follows_tcp:
            self.tcp.feed(unpacked.packets, np.repeat(rows, counts), len(self.endpoints))
        segments = segments_of_split(unpacked.packets, counts, rows)
        offset_of = self._engine.read(split.path, segments)
        yield from self._engine.advance(segments.table, segments.connection_of, offset_of, self._take_records)
        self._engine.count_conflicts(split.path, segments, offset_of)
        yield from self.tls.flush()
        yield from self._engine.end_slab()

    def feed_plain(self, segments: Int64s, connection_of: Int64s, payload: bytes) -> Iterator[ExchangeBatch]:
        """Process segments, described as in pieces, whose payload was not read from a capture.

        The payload of each segment lies behind that of the one before.
        """
        captured = segments[CAPTURED]
        room, offset = self._engine.room_for_payload(len(payload))
        room[:] = np.frombuffer(payload, np.uint8)
        offset_of = np.cumsum(captured) - captured + offset
        yield from self._engine.advance(segments, connection_of, offset_of, self._take_records)
        yield from self._engine.flush()

    def close(self) -> Iterator[ExchangeBatch]:
        """End all connections; return what they still held."""
        yield from self._engine.close(self._take_records)
        self.tcp.close()
        yield from self.tls.close()
        yield from self._engine.flush()
        self._engine.let_go_of_payload()

    def end(self, rows: Int64s) -> Iterator[ExchangeBatch]:
        """End some connections, as `close` does with all; return what they still held."""
        yield from self._engine.end(rows, self._take_records)
        self.tcp.end(rows)
        yield from self.tls.end(rows)
        yield from self._engine.flush()

    def forget(self, rows: Int64s) -> None:
        """Forget connections that `end` has ended; later ones get their rows."""
        for row in rows.tolist():
            del self.row_of[self.numbers[row]]
        self._newest.remove(self.endpoints.keys(rows), rows)
        self._engine.forget(rows)
        self.tls.forget(rows)

    def replaced(self) -> Int64s:
        """Return the rows of connections whose ports another connection uses by now."""
        newest = np.zeros(len(self.endpoints), np.bool_)
        newest[self._newest.rows()] = True
        return np.flatnonzero(~newest)

    def carried(self, rows: Int64s, numbers: SplitNumbers) -> Value:
        """Return what is known of the connections in `rows`, between two splits: see `streams.carry`.

        All others must have ended. Their rows are left out, so the rows are counted anew.
        """
        ends = [self.endpoints[row] for row in rows.tolist()]
        return {
            "endpoints": [list(one) for one in ends],
            "identities": self.identities[rows].tolist(),
            "newest": np.isin(rows, self.replaced(), invert=True).astype(np.uint8),
            "engine": self._engine.carried(rows, numbers),
            "tcp": self.tcp.carried(rows, numbers),
            "tls": self.tls.carried(rows, numbers),
        }

    def resume(self, value: Value, first_split: int) -> None:
        """Go on with what `carried` returned, before anything is fed.

        The splits that its packets refer to have numbers from `first_split` on.
        """
        keys = np.array([tuple(ends) for ends in value["endpoints"]], KEY)
        if len(keys):
            self.endpoints.put(np.arange(len(keys)), keys, np.array(value["identities"], np.int64))
        self.begun = len(self.endpoints)
        self.numbers = list(range(self.begun))
        self.row_of = dict(zip(self.numbers, self.numbers, strict=True))
        newest = np.flatnonzero(value["newest"])
        self._newest.put(keys[newest], newest)
        self._engine.resume(value["engine"], first_split)
        self.tcp.resume(value["tcp"], first_split)
        self.tls.resume(value["tls"], first_split)

    def states(self) -> list[tuple[State, int]]:
        """Return all that is held at present: states, each with its number of connections."""
        inner = self.tls.inner
        return [(self.state, len(self.endpoints)), *(inner.states() if inner is not None else [])]

    def _take_records(self, state: State, connection: int) -> Iterator[ExchangeBatch]:
        yield from self.tls.take(state, connection, self.endpoints[connection])

    def _connections_of(self, pieces: pa.RecordBatch, unpacked: UnpackedPieces, counts: Int64s) -> Int64s:
        """Return the row of each piece's connection, and add up what pass one counted."""
        openings = _Openings.of(pieces, unpacked, counts)
        rows = self._newest.find(openings.keys)
        unclear = np.flatnonzero((rows < 0) | (openings.opened_by >= 0))
        if len(unclear):
            self._begin_connections(openings, unclear, rows)
        connections = array_of(self.state.connections)
        packets = pieces["packets_ab"].to_numpy() + pieces["packets_ba"].to_numpy()
        np.add.at(connections["packets"], rows, packets)
        np.add.at(connections["zero_windows"], rows, pieces["zero_windows"].to_numpy())
        np.add.at(connections["duplicates"], rows, pieces["duplicates"].to_numpy())
        np.maximum.at(connections["last_ns"], rows, pieces["last_time_ns"].to_numpy())
        return rows

    def _begin_connections(self, openings: "_Openings", unclear: Int64s, rows: Int64s) -> None:
        """Put the rows of pieces that begin a connection, or may do so, and of others of their 4-tuples.

        New 4-tuples with one piece begin together, in runs between pieces for which that is not clear.
        """
        among = NewestRows()
        among.put(openings.keys[unclear], unclear)
        last = among.find(openings.keys)
        chosen = np.flatnonzero(last >= 0)  # all pieces of their 4-tuples
        is_new = (rows[chosen] < 0) & (np.bincount(last[chosen])[last[chosen]] == 1)
        so_far: dict[int, list[Int64s]] = {}
        starts = np.append(0, np.flatnonzero(np.diff(is_new)) + 1)
        for some, are_new in zip(np.split(chosen, starts[1:]), is_new[starts], strict=True):
            if are_new:
                rows[some] = self._begin(*openings.at(some))
                continue
            for piece in some.tolist():
                rows[piece] = self._begin_or_go_on(openings, piece, so_far)

    def _begin_or_go_on(self, openings: "_Openings", piece: int, so_far: dict[int, list[Int64s]]) -> int:
        """Return the row of a piece whose 4-tuple may be used again.

        `so_far` has the packets of each row in this split that came before, and is added to.
        """
        row, opening = int(self._newest.find(openings.keys[[piece]])[0]), int(openings.opened_by[piece])
        if row < 0 or (opening >= 0 and self._is_used_again(row, opening, so_far.get(row, []))):
            row = int(self._begin(*openings.at(np.array([piece])))[0])
        so_far.setdefault(row, []).append(openings.part(piece))
        opened_by = array_of(self.state.connections)["opened_by"]
        opened_by[row] = opening if opened_by[row] < 0 else opened_by[row]
        return row

    def _is_used_again(self, row: int, opening: int, parts: list[Int64s]) -> bool:
        """Return whether a SYN (as in `opened_by`) opens another connection on these ports.

        `parts` are packets of that one which were not advanced over yet. If it has no SYN, this one may be
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
        return int(self._begin(ends.key, np.array([first_ns]), np.array([-1]))[0])

    def _begin(self, keys: Records, first_ns: Int64s, opened_by: Int64s) -> Int64s:
        """Begin a connection for each key, which all differ; return their rows.

        All of a split at once take a quarter of the time that they take one by one.
        """
        rows = self._engine.add_connections(np.where(keys["b_port"] < keys["a_port"], 0, 1), first_ns)
        ends = zip(keys.tolist(), first_ns.tolist(), strict=True)
        identities = np.array([connection_identity(four, first) for four, first in ends], np.int64)
        self.endpoints.put(rows, keys, identities)
        for row in rows.tolist():
            self.numbers[row : row + 1] = [self.begun]
            self.row_of[self.begun] = row
            self.begun += 1
        self._newest.put(keys, rows)
        array_of(self.state.connections)["opened_by"][rows] = opened_by
        return rows


class _Openings(NamedTuple):
    """The pieces of a split as they may open connections; `opened_by` is that of a connection.

    `first` and `counts` say which of `packets` are those of a piece.
    """

    keys: Records
    first_ns: Int64s
    opened_by: Int64s
    packets: Int64s
    first: Int64s
    counts: Int64s

    @classmethod
    def of(cls, pieces: pa.RecordBatch, unpacked: UnpackedPieces, counts: Int64s) -> "_Openings":
        """Return the openings of pieces, each of which has so many packets."""
        first, first_ns = np.cumsum(counts) - counts, pieces["first_time_ns"].to_numpy()
        return cls(keys_of(pieces), first_ns, _opened_by(unpacked), unpacked.packets, first, counts)

    def at(self, pieces: Int64s) -> tuple[Records, Int64s, Int64s]:
        """Return what connections that some pieces open begin with: keys, first times, `opened_by`."""
        return self.keys[pieces], self.first_ns[pieces], self.opened_by[pieces]

    def part(self, piece: int) -> Int64s:
        """Return the packets of a piece."""
        first = int(self.first[piece])
        return self.packets[:, first : first + int(self.counts[piece])]


def _opened_by(unpacked: UnpackedPieces) -> Int64s:
    """Return each piece's first segment as in OPENED_BY if that is a bare SYN, else -1."""
    opened_by = np.full(len(unpacked.heads), -1, np.int64)
    pieces = np.flatnonzero(unpacked.heads >= 0)
    heads = unpacked.heads[pieces]
    flags = unpacked.packets[FLAGS, heads]
    is_syn = flags & (FLAG_SYN | FLAG_ACK) == FLAG_SYN
    sequence = unpacked.packets[SEQ, heads]
    opened_by[pieces] = np.where(is_syn, (flags & FLAG_B_TO_A) << 32 | sequence, -1)
    return opened_by


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
