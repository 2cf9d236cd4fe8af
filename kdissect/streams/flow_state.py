"""State of every connection between two segments, as rows of integers for compiled code.

Pass two is one loop over segments in capture order. All that it remembers lies in one `State`:

    connections   one row per connection: who is the client, handshake times, counters
    directions    one row per direction of a connection (2 * connection + side): stream position, gaps, losses
    chunks        stream bytes that were captured but not consumed: a pool of linked nodes, each pointing into
                  the arena
    waiting       requests that wait for their response, and responses that came before their request: a pool
                  of linked nodes
    exchanges     what is finished: rows that the caller turns into tables
    counters      how much of the pools is used, and which directions are still to be read
    segment       the segment at hand
    arena         the bytes themselves: [carried over | read from the capture | assembled frames | scratch]

The row types below name every field and its unit; `jit.rows` says how compiled code reads them.

Because the state is complete, the capture may be handed over in slabs of any size with the same outcome.
Pools grow outside the compiled code: see `room`.

Positions in a stream are int64 counts from its first byte; TCP's 32-bit sequence numbers (RFC 9293, section
3.4) are unwrapped as soon as they come in. Times are in ns, 0 = not seen. A packet is `split << PACKET_BITS |
number in its file`. A node is the row number of a chunk or of a waiting exchange, -1 = none.
"""

from typing import NamedTuple

from kdissect.array_types import Bytes, Int64s
from kdissect.jit.decorators import jit_inline, jit_inner
from kdissect.jit.rows import Row, RowTable, row_type


@row_type
class ConnectionRow(Row):
    """One connection."""

    client_side: int  # 0: A is the client, 1: B is, -1: not known yet
    likely_client_side: int  # the sender towards the lower port: a hint for connections without handshake
    protocol: int  # UNDECIDED, KAFKA, ...
    handshake: int  # 1 when a SYN or SYN-ACK was seen
    ended: int  # how the connection ended first: OPEN, FIN_SEEN or RST_SEEN
    syn_ns: int  # time of the last SYN before the SYN-ACK
    syn_ack_ns: int  # time of the first SYN-ACK
    ack_ns: int  # time of the client's first ACK behind it; -1: it will not come any more
    opened_by: int  # the last bare SYN: side << 32 | sequence number, -1 before
    first_ns: int  # time of the first packet
    last_ns: int  # time of the last packet
    packets: int
    zero_windows: int  # packets that closed the receive window
    duplicates: int  # packets that were captured more than once
    requests: int
    responses: int
    unanswered: int  # requests that got no response
    orphans: int  # responses without a request
    next_ordinal: int  # number of the next request
    first_waiting: int  # node of the oldest request that waits for its response
    last_waiting: int  # node of the newest one
    waiting_count: int
    first_early: int  # node of the oldest response that waits for its request
    early_count: int
    raw_sasl: int  # 1 after SaslHandshake 0: frames without a Kafka header may follow
    clock_stepped_ns: int  # by how much its clock was set back, in all
    ending: int  # NOT_ENDING, ...: nothing more will come, and what is there must do
    overheld: int  # how often it gave up what it waited for because all connections together held too much


@row_type
class SearchMark(Row):
    """How far a search for frames has come in one direction."""

    position: int
    chunk: int  # node at or before the position, -1: begin with the head


@row_type
class LoneChain(Row):
    """Responses whose lengths lead from one to the next, in a direction whose other one was not captured."""

    frames: int  # whose beginnings were seen, 0: there is no chain
    position: int  # where the next one must begin
    correlation_id: int  # of the last one
    looked: int  # no chain is looked for before this position


@row_type
class DirectionRow(Row):
    """One direction of a connection."""

    begun: int  # NOT_BEGUN, BEGAN or BEGIN_ACKNOWLEDGED
    from_start: int  # 1 when the stream's first byte is position 0: its SYN was seen
    foreign: int  # 1 when it began with something that is no request
    first_sequence: int  # sequence number of position 0
    next: int  # position after the last byte in order
    frame: int  # position of the first byte that is not consumed
    head: int  # node of the first chunk from `frame` to `next`
    tail: int  # node of the last one
    ahead: int  # node of the first chunk beyond a hole; they are sorted by position
    ahead_count: int
    latest_ahead: int  # node of the chunk that was put beyond a hole last, -1: it is gone
    highest: int  # highest position ever seen
    in_step: int  # 1 while `frame` is known to be a frame boundary
    lost_bytes: int
    skipped_bytes: int  # captured bytes that belong to no frame
    skipped_before: int  # of these, bytes of earlier connections on the same ports
    retransmitted: int  # segments
    reordered: int  # segments
    payload_bytes: int  # on the wire, retransmissions included
    cut_bytes: int  # of these, bytes that the capture cut off
    oversized_frames: int  # lengths beyond what a frame may have, where a frame should begin
    overfull_holes: int  # holes that were given up because too much waited behind them
    conflicts: int  # segments with other bytes than were seen before: see `overlaps`
    hole_ns: int  # when the present hole was first seen
    hole_acked_ns: int  # when the receiver was first seen to have what the capture has not
    held_ns: int  # when a direction without SYN was first seen, while earlier bytes may still come; else 0
    clock_ns: int  # time of the last segment
    acked: int  # acknowledgment number that came with the last payload, -1 before
    first_sent: int  # sequence number of the payload that was captured first, -1 before
    first_expected: (
        int  # the one that the other direction acknowledges with its first SYN-ACK or payload, -1 before
    )
    scanned: SearchMark  # no frame begins before this: what a search has found out
    doubtful: SearchMark  # between `scanned` and this a frame may begin, but more must come to say so
    chain: LoneChain  # of large responses, in a direction that is not known to be Kafka's


@row_type
class ChunkRow(Row):
    """Bytes of one packet in a stream, or a gap. Time and packet of a lost gap are -1."""

    position: int  # of its first byte in the stream
    offset: int  # of that byte in the arena, GAP: there is none
    length: int  # bytes
    time_ns: int
    packet: int
    next: int  # node of the chunk behind it, or of the next free one


@row_type
class FrameRow(Row):
    """One message of an exchange: arena[start:stop], without the length prefix."""

    start: int  # offset in the arena, 0: there is no such message
    stop: int  # offset behind the last byte that is there
    frame_stop: int  # offset behind the last byte of the complete frame
    first_byte_ns: int
    last_byte_ns: int  # -1: the last byte is not there
    packet: int  # that brought the first byte
    position: int  # of the first byte of its length prefix in the stream


@row_type
class ExchangeRow(Row):
    """A request and its response, and what their headers say."""

    request: FrameRow
    response: FrameRow
    connection: int  # row number
    ordinal: int  # number of the request in its connection, -1: there is none
    status: int  # ANSWERED, ...
    api_key: int
    api_version: int
    correlation_id: int
    in_flight: int  # requests that waited when this one was sent, itself included
    next: int  # node of the one that waits behind it, or of the next free one


@row_type
class SegmentRow(Row):
    """The segment at hand."""

    time_ns: int
    packet: int
    offset: int  # of its payload in the arena
    captured: int  # bytes of payload that are there
    missing: int  # bytes of payload behind them that the capture cut off
    sequence: int  # sequence number of its first payload byte, that is, the one behind a SYN
    acknowledgment: int
    flags: int  # FLAG_SYN, ... of `segment_index`


@row_type
class StateCounters(Row):
    """How much of the pools is used, how much is held, and which directions are still to be read."""

    free_chunk: int  # node
    free_chunk_count: int
    free_waiting: int  # node
    free_waiting_count: int
    exchange_count: int  # finished exchanges
    assembly: int  # offset in the arena of the first byte behind assembled frames
    reading: int  # direction whose frames are being taken, -1: the next segment is to be received
    read_next: int  # direction that is to be read after that one, -1 = none
    held: int  # what all chunks and all that waits take, in bytes
    most_held: int  # so much may be held, in bytes
    repeats: int  # segments that brought bytes again, since the last comparison of such segments
    unread: int  # rows of `State.unread` whose bytes were not read


REQUEST_SIDE, RESPONSE_SIDE = "request", "response"  # the fields of an exchange that are a FrameRow

GAP = -1  # offset of a chunk whose bytes are not there

# Flags that reassembly adds to those of a segment. REPEATS: some of its bytes were there before. PROBES: it
# is a keep-alive probe. DIFFERS is added by `overlaps`: the bytes before were others.
REPEATS, PROBES, DIFFERS = 64, 128, 256

# Values of `ExchangeRow.status`; SASL_TOKEN is a raw token with its answer: no exchange of Kafka, given only
# to those who ask.
ANSWERED, NO_RESPONSE_EXPECTED, NO_ANSWER, ORPHAN_RESPONSE, SASL_TOKEN = range(5)
STATUS_NAMES = ("answered", "no_response_expected", "unanswered", "orphan_response", "sasl_token")

# Stands as API version of every exchange of Kafka 0.7, which has no versions; its API key is the type of the
# request.
BEFORE_VERSIONS = -7

# Values of `ConnectionRow.protocol` and `ConnectionRow.ended`.
# TLS_PASSED: nobody looks at its records any more.
UNDECIDED, KAFKA, TLS, OTHER, KAFKA_0_7, TLS_PASSED = range(6)
PROTOCOL_NAMES = ("unknown", "kafka", "tls", "unknown", "kafka-0.7", "tls")
OPEN, FIN_SEEN, RST_SEEN = range(3)
ENDED_NAMES = ("open", "fin", "rst")

# Values of `DirectionRow.begun`. BEGIN_ACKNOWLEDGED: a SYN-ACK has acknowledged the SYN of this direction, so
# its beginning is known, but nothing of it was captured yet.
NOT_BEGUN, BEGAN, BEGIN_ACKNOWLEDGED = range(3)

# The reasons for which a loop stops. DONE: it has come to the end. FULL_…: this pool has no room for the next
# step. TLS_READY: a record of TLS is there to be taken. PORTS_REUSED: a segment belongs to another connection
# on the same ports. TOO_MUCH_HELD: see `memory_budget`.
DONE, FULL_CHUNKS, FULL_WAITING, FULL_EXCHANGES, FULL_ARENA, TLS_READY, PORTS_REUSED, TOO_MUCH_HELD = range(8)

# Values of `ConnectionRow.ending`. At the end of a connection certain frames count first, then likely ones.
NOT_ENDING, ENDING_CERTAIN, ENDING_LIKELY = range(3)

PACKET_BITS = 40
SCRATCH = 512  # bytes at the end of the arena where a header that is spread over chunks is put together


class State(NamedTuple):
    """The tables above, the arena (uint8) and `max_versions` (int64): -1 where there is no such API key."""

    connections: RowTable[ConnectionRow]
    directions: RowTable[DirectionRow]
    chunks: RowTable[ChunkRow]
    waiting: RowTable[ExchangeRow]
    exchanges: RowTable[ExchangeRow]
    counters: StateCounters
    arena: Bytes
    max_versions: Int64s
    segment: SegmentRow  # the one at hand
    frame: FrameRow  # one message in the making
    blank: ExchangeRow  # zeros
    unread: Int64s  # payload in the arena that may be unread: see `unread_payload`


@jit_inner
def other_direction(direction: int) -> int:
    """Return the number of the direction that runs against this one.

    The numbers are `2 * connection + side`.
    """
    return direction ^ 1


@jit_inline
def is_kafka07(state: State, connection: int) -> bool:
    """Return whether a connection speaks Kafka 0.7, which has frames and pairing rules of its own."""
    return bool(state.connections[connection].protocol == KAFKA_0_7)


@jit_inline
def is_kafka(state: State, connection: int) -> bool:
    """Return whether a connection speaks Kafka, of any version."""
    protocol = state.connections[connection].protocol
    return bool(protocol == KAFKA or protocol == KAFKA_0_7)
