"""Plain HTTP between clients and a schema registry, found in a capture beside its Kafka traffic.

In come the pieces of splits (rows of PIECES), out comes a `CapturedRegistry`. A connection is HTTP if one of
its first packets in a split begins a request. It is followed from the split on in which a packet begins a
request to `/schemas/` or `/subjects/`. Its payload is held until the end of the capture: at most
MOST_DIRECTION bytes of a direction and MOST_HELD in all. Then each direction is put in order of sequence
numbers. A request that is there as a whole is paired with the bytes that follow the first packet of the
server which acknowledges all of it, so lost packets cost single messages and never pair the wrong ones.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from kdissect.array_types import Int64s
from kdissect.capture.index.splits import Split
from kdissect.capture.segment_index import ACK, CAPTURED, FLAG_B_TO_A, FLAGS, OFFSET, SEQ, unpack
from kdissect.capture.storage import CaptureStorage, open_storage
from kdissect.payload.captured_registry import INTERESTING, CapturedRegistry
from kdissect.payload.http_messages import METHODS, MOST_LINE, HttpRequest, read_reply, read_request

FIRST_PACKETS = 4  # of a piece, in which a request is looked for
SHORTEST = 16  # bytes of a packet that begins a request
MOST_CONNECTIONS = 1000
MOST_DIRECTION = 8 << 20
MOST_HELD = 64 << 20
MOST_MESSAGES, MOST_FAILURES = 5000, 100  # of a connection
WINDOWS = (64 << 10, 5 << 20)  # bytes that a message is looked for in: most are small
HALF, MODULUS = 1 << 31, 1 << 32

Ends = tuple[bytes, int, bytes, int]
Message = TypeVar("Message")


class HttpSegment(NamedTuple):
    """Payload of one packet, by which end it was sent, and its numbers as on the wire."""

    from_b: bool
    seq: int
    ack: int
    data: bytes


class OrderedStream:
    """The bytes of a direction in order, gaps left out, and the packets that begin in them.

    Positions count from the first packet of the sender (or of its peer) and have gaps; places count bytes
    that are held. Messages cannot reach across a gap: `whole` ends where the next one begins.
    """

    def __init__(self, segments: Iterable[HttpSegment], base: int, peer_base: int) -> None:
        self._data = bytearray()
        self._gaps: list[int] = []  # places behind which bytes are missing
        self.positions: list[int] = []  # of packets
        self._places: list[int] = []
        self._acks: list[int] = []  # the highest so far, of what the peer has sent
        placed = ((_distance(one.seq, base), _distance(one.ack, peer_base), one.data) for one in segments)
        end = None
        for start, ack, data in sorted(placed, key=itemgetter(0)):
            seen = 0 if end is None else max(0, end - start)
            if seen >= len(data):
                continue
            if end is not None and start > end:
                self._gaps.append(len(self._data))
            self.positions.append(start + seen)
            self._places.append(len(self._data))
            self._acks.append(max(ack, self._acks[-1]) if self._acks else ack)
            self._data += data[seen:]
            end = start + len(data)

    def begins_message(self, packet: int) -> bool:
        """Return whether a request begins with a packet, given by its index."""
        return self._data.startswith(METHODS, self._places[packet])

    def whole(self, read: Callable[[bytes], Message | None], packet: int, skipped: int = 0) -> Message | None:
        """Return the message that begins `skipped` bytes behind the begin of a packet, or None."""
        place = self._places[packet] + skipped
        gap = bisect_right(self._gaps, place)
        stop = self._gaps[gap] if gap < len(self._gaps) else len(self._data)
        for window in WINDOWS:
            found = read(bytes(self._data[place : min(stop, place + window)]))
            if found is not None or place + window >= stop:
                return found
        return None

    def packet_after(self, acknowledged: int) -> int | None:
        """Return the index of the first packet that acknowledges a position of the peer."""
        packet = bisect_left(self._acks, acknowledged)
        return packet if packet < len(self._acks) else None


class RegistryTraffic:
    """Connections with a schema registry, split by split."""

    def __init__(self, splits: Sequence[Split]) -> None:
        self._splits = splits
        self._held: dict[Ends, list[HttpSegment]] = {}
        self._bytes: dict[tuple[Ends, bool], int] = {}
        self._total = 0

    def feed(self, pieces: pa.RecordBatch) -> None:
        """Read the pieces of some splits, in their order; rows of counts are skipped."""
        for part in _of_one_split(pieces):
            self._feed(part)

    def watch(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read batches of pieces, and pass them on."""
        for pieces in batches:
            self.feed(pieces)
            yield pieces

    def _feed(self, pieces: pa.RecordBatch) -> None:
        pieces = pieces.filter(pa.array(pieces["piece"].to_numpy() >= 0))
        if pieces.num_rows == 0:
            return
        counts = pieces["count"].to_numpy().astype(np.int64)
        segments = unpack(pieces["segments"], counts)
        edges = np.concatenate(([0], np.cumsum(counts)))
        ends = zip(
            *(pieces[name].to_pylist() for name in ("a_host", "a_port", "b_host", "b_port")), strict=True
        )
        with open_storage(self._splits[pieces["split"][0].as_py()].path) as source:
            for row, key in enumerate(ends):
                rows = segments[:, edges[row] : edges[row + 1]]
                self._take(key, rows[:, rows[CAPTURED] > 0], source)

    def registry(self) -> CapturedRegistry:
        """Return the schemas that all connections have told."""
        found = CapturedRegistry()
        for segments in self._held.values():
            _add_conversation(found, segments)
        return found

    def _take(self, ends: Ends, filled: Int64s, source: CaptureStorage) -> None:
        if ends not in self._held:
            if len(self._held) >= MOST_CONNECTIONS or not _has_request(filled, source):
                return
            self._held[ends] = []
        for column in range(filled.shape[1]):
            offset, size, seq, ack, flags = (
                int(filled[name, column]) for name in (OFFSET, CAPTURED, SEQ, ACK, FLAGS)
            )
            from_b = bool(flags & FLAG_B_TO_A)
            held = self._bytes.get((ends, from_b), 0)
            if held + size > MOST_DIRECTION or self._total + size > MOST_HELD:
                return
            self._bytes[ends, from_b] = held + size
            self._total += size
            self._held[ends].append(HttpSegment(from_b, seq, ack, source.read(size, offset)))


def _of_one_split(pieces: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    edges = np.flatnonzero(np.diff(pieces["split"].to_numpy())) + 1
    for begin, end in zip([0, *edges.tolist()], [*edges.tolist(), pieces.num_rows], strict=True):
        yield pieces.slice(begin, end - begin)


def _has_request(filled: Int64s, source: CaptureStorage) -> bool:
    """Return whether packets are HTTP, and one begins a request to a registry."""
    is_http = False
    for column in range(filled.shape[1]):
        if not is_http and column == FIRST_PACKETS:
            return False
        offset, size = int(filled[OFFSET, column]), int(filled[CAPTURED, column])
        if size < SHORTEST or not source.read(SHORTEST, offset).startswith(METHODS):
            continue
        is_http = True
        line = source.read(min(MOST_LINE, size), offset).partition(b"\r\n")[0]
        if INTERESTING.search(line.decode("latin-1")):
            return True
    return False


def _add_conversation(registry: CapturedRegistry, segments: Sequence[HttpSegment]) -> None:
    """Add the pairs of request and response of a connection to a registry."""
    client = next((one for one in segments if one.data.startswith(METHODS)), None)
    server = next((one for one in segments if client and one.from_b != client.from_b), None)
    if client is None or server is None:
        return
    requests, replies = (
        OrderedStream((one for one in segments if one.from_b == first.from_b), first.seq, second.seq)
        for first, second in ((client, server), (server, client))
    )
    for request, end in islice(_requests(requests), MOST_MESSAGES):
        packet = replies.packet_after(end)
        if packet is not None:
            reply = replies.whole(partial(read_reply, method=request.method), packet)
            if reply is not None:
                registry.add(request, reply)


def _requests(stream: OrderedStream) -> Iterator[tuple[HttpRequest, int]]:
    """Yield the whole requests of a stream, each with the position behind it."""
    end, failures = None, 0
    for packet, position in enumerate(stream.positions):
        if (end is not None and position < end) or not stream.begins_message(packet):
            continue
        skipped = 0
        while request := stream.whole(read_request, packet, skipped):
            skipped += request.size
            end = position + skipped
            yield request, end
        failures += skipped == 0
        if failures > MOST_FAILURES:
            return


def _distance(number: int, base: int) -> int:
    return (number - base + HALF) % MODULUS - HALF
