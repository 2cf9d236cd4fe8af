"""What is known of every connection between two segments: integers in arrays, so that compiled code can hold it.

Pass two is one loop over segments in capture order. All that it remembers lies in one `State`:

    connections   one row per connection: who is the client, handshake times, counters
    ways          one row per direction of a connection (2 * connection + way): stream position, gaps, losses
    chunks        stream bytes that were captured but not consumed: a pool of linked nodes, each pointing into the arena
    waiting       requests that wait for their response, and responses that came before their request: a pool again
    exchanges     what is finished: rows that the caller turns into tables
    arena         the bytes themselves: [carried over | read from the capture | assembled frames | scratch]

Because the state is complete, the capture may be handed over in slabs of any size with the same outcome. Pools grow
outside the compiled code: a kernel that finds no room says which one is full and is called again.

Positions in a stream are int64 counts from its first byte; TCP's 32-bit sequence numbers (RFC 9293, section 3.4) are
unwrapped as soon as they come in.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Bytes = NDArray[np.uint8]

# One connection. Times in ns, 0 = not seen. A packet is `split << PACKET_BITS | number in its file`.
(
    CLIENT_WAY,  # 0: A is the client, 1: B is, -1: not known yet
    PROTOCOL,
    HANDSHAKE,  # 1 when a SYN or SYN-ACK was seen
    ENDED,  # how the connection ended first: FIN, RST or neither
    SYN_NS,
    SYN_ACK_NS,
    ACK_NS,
    OPENED_BY,  # the last bare SYN: way << 32 | sequence number, -1 before
    FIRST_NS,
    LAST_NS,
    PACKETS,
    ZERO_WINDOWS,
    DUPLICATES,
    REQUESTS,
    RESPONSES,
    UNANSWERED,
    ORPHANS,
    NEXT_ORDINAL,
    FIRST_WAITING,
    LAST_WAITING,
    WAITING_COUNT,
    FIRST_EARLY,
    EARLY_COUNT,
    RAW_SASL,  # 1 after SaslHandshake 0: frames without a Kafka header may follow
    SERVER_PORT_WAY,  # the way towards the lower port: a hint for connections without handshake
    FAULTS,
    STEPPED_NS,  # by how much its clock was set back, in all
    ENDING,  # 1, then 2, when nothing more will come and what is there must do
    OVERHELD,  # how often it gave up what it waited for because all connections together held too much
    CONNECTION_FIELDS,
) = range(30)

# One direction of a connection.
(
    STARTED,  # 1, or 2 while only an acknowledgment has told where it begins
    WHOLE,  # 1 when the stream's first byte is position 0: its SYN was seen
    FOREIGN,  # 1 when it began with something that is no request
    BASE,  # sequence number of position 0
    NEXT,  # position after the last byte in order
    FRAME,  # position of the first byte that is not consumed
    HEAD,
    TAIL,  # chunks from FRAME to NEXT
    AHEAD,
    AHEAD_COUNT,  # chunks beyond a hole, sorted by position
    HIGH,  # highest position ever seen
    SYNCED,  # 1 while FRAME is known to be a frame boundary
    LOST,
    SKIPPED,  # captured bytes that belong to no frame
    RETRANSMITTED,
    REORDERED,
    PAYLOAD,  # payload bytes on the wire, retransmissions included
    CUT,  # of these, bytes that the capture cut off
    HOLE_NS,  # when the present hole was first seen
    HOLE_ACKED_NS,  # when the receiver was first seen to have what the capture has not
    SCANNED,  # no frame begins before this position: what a search has found out
    SCAN_CHUNK,  # a chunk at or before SCANNED, -1: begin with HEAD
    SEEN,  # between SCANNED and this position a frame may begin, but more must come to say so
    SEEN_CHUNK,
    HELD_NS,  # when a direction without SYN was first seen, while earlier bytes may still come; else 0
    OVERSIZED,  # lengths beyond what a frame may have, where a frame should begin
    OVERFULL,  # holes that were given up because too much waited behind them
    LATEST_AHEAD,  # the chunk that was put into AHEAD last, -1: it is gone
    CLOCK_NS,  # of the last segment
    ACKED,  # the last acknowledgment number that came with it, -1 before
    SKIPPED_BEFORE,  # of SKIPPED what earlier connections on the same ports had
    FIRST_SENT,  # sequence number of the payload that was captured first, -1 before
    FIRST_AGREED,  # the one that the other direction expects with its first captured SYN-ACK or payload, -1 before
    CONFLICTS,  # segments with other bytes than were seen before: see `conflicts`
    WAY_FIELDS,
) = range(35)

# Columns of a direction that stay when another connection uses the same ports: what was counted, and how it was opened first.
COUNTED = [LOST, SKIPPED, RETRANSMITTED, REORDERED, PAYLOAD, CUT, OVERSIZED, OVERFULL, FIRST_SENT, FIRST_AGREED, CONFLICTS]  # fmt: skip

# Columns in which nothing is -1.
ABSENT_IN_CONNECTION = [CLIENT_WAY, OPENED_BY, FIRST_WAITING, LAST_WAITING, FIRST_EARLY]
ABSENT_IN_WAY = [HEAD, TAIL, AHEAD, SCAN_CHUNK, SEEN_CHUNK, LATEST_AHEAD, ACKED, FIRST_SENT, FIRST_AGREED]

# A chunk: bytes POSITION..+LENGTH of a stream lie at arena[AT:]; AT = -1 is a gap. Of a lost gap time and packet are -1.
POSITION, AT, LENGTH, TIME, PACKET, NEXT_CHUNK, CHUNK_FIELDS = range(7)

# One side of an exchange. Bytes are arena[START:STOP], after the length prefix; a complete frame ends at FRAME_STOP.
START, STOP, FRAME_STOP, FIRST_BYTE_NS, LAST_BYTE_NS, BYTE_PACKET, SIDE_FIELDS = range(7)

# An exchange: its request side, its response side, and what the headers say. `waiting` has the same columns and a link.
REQUEST_SIDE = 0
RESPONSE_SIDE = SIDE_FIELDS
(
    CONNECTION,
    ORDINAL,
    STATUS,
    API_KEY,
    API_VERSION,
    CORRELATION_ID,
    IN_FLIGHT,
    EXCHANGE_FIELDS,
) = range(2 * SIDE_FIELDS, 2 * SIDE_FIELDS + 8)
NEXT_WAITING = EXCHANGE_FIELDS
WAITING_FIELDS = EXCHANGE_FIELDS + 1

# What `advance` adds to the flags of a segment: some of its bytes were there before, or it is a keep-alive probe; `conflicts`
# adds that they were others.
REPEATS, PROBES, DIFFERS = 64, 128, 256

# Values of STATUS; SASL_TOKEN is a raw token with its answer: no exchange of Kafka, given only to those who ask for it.
ANSWERED, NO_RESPONSE_EXPECTED, NO_ANSWER, ORPHAN_RESPONSE, SASL_TOKEN = range(5)
STATUS_NAMES = ("answered", "no_response_expected", "unanswered", "orphan_response", "sasl_token")

# Stands as API_VERSION of every exchange of Kafka 0.7, which has no versions; its API_KEY is the type of the request.
BEFORE_VERSIONS = -7

# Values of PROTOCOL and ENDED.
# TLS_PASSED: nobody looks at its records any more.
UNDECIDED, KAFKA, TLS, OTHER, KAFKA_0_7, TLS_PASSED = range(6)
PROTOCOL_NAMES = ("unknown", "kafka", "tls", "unknown", "kafka-0.7", "tls")
OPEN, FIN_SEEN, RST_SEEN = range(3)
ENDED_NAMES = ("open", "fin", "rst")

# Where the next free node or byte is, and how far `advance` got with the segment at which it stopped.
(
    FREE_CHUNK,
    FREE_CHUNK_COUNT,
    FREE_WAITING,
    FREE_WAITING_COUNT,
    EXCHANGE_COUNT,
    ASSEMBLY,
    STEP,
    RECOGNISED,  # 1 while a connection was recognised by one direction, and the other one is still to be looked at
    HELD,  # what all chunks and all that waits take, in bytes
    MOST_HELD,  # so much may be held
    COUNTERS,
) = range(11)

# Values of STEP: what is to be done next with the segment.
TAKE_IN, CONSUME_OTHER, CONSUME = range(3)

# What a kernel says when it stops; TLS_READY: a record of TLS is there to be taken; PORTS_REUSED: a segment belongs to another
# connection on the same ports; TOO_MUCH_HELD: see `relief`.
DONE, FULL_CHUNKS, FULL_WAITING, FULL_EXCHANGES, FULL_ARENA, TLS_READY, PORTS_REUSED, TOO_MUCH_HELD = range(8)

PACKET_BITS = 40
SCRATCH = 512  # bytes at the end of the arena where a header that is spread over chunks is put together


class State(NamedTuple):
    """The arrays described above, all int64 but the arena (uint8). `max_versions` has -1 where there is no such API key."""

    connections: Int64s
    ways: Int64s
    chunks: Int64s
    waiting: Int64s
    exchanges: Int64s
    counters: Int64s
    arena: Bytes
    max_versions: Int64s
    side: Int64s  # one side of an exchange in the making


def new_state(max_versions: Int64s) -> State:
    """Make an empty state. `max_versions[key]` is the highest version of an API key that ever existed."""
    state = State(
        connections=np.zeros((0, CONNECTION_FIELDS), np.int64),
        ways=np.zeros((0, WAY_FIELDS), np.int64),
        chunks=np.zeros((0, CHUNK_FIELDS), np.int64),
        waiting=np.zeros((0, WAITING_FIELDS), np.int64),
        exchanges=np.zeros((0, EXCHANGE_FIELDS), np.int64),
        counters=np.zeros(COUNTERS, np.int64),
        arena=np.zeros(SCRATCH, np.uint8),
        max_versions=max_versions,
        side=np.zeros(SIDE_FIELDS, np.int64),
    )
    state.counters[FREE_CHUNK] = state.counters[FREE_WAITING] = -1
    state = with_more_chunks(state, 1 << 10)
    state = with_more_waiting(state, 1 << 8)
    return with_more_exchanges(state, 1 << 10)


def with_more_connections(state: State, count: int) -> State:
    """Give room for `count` connections in all, fresh rows ready for use."""
    have = len(state.connections)
    if count <= have:
        return state
    room = max(count, 2 * have, 64)
    connections = np.zeros((room, CONNECTION_FIELDS), np.int64)
    connections[:have] = state.connections
    connections[have:, ABSENT_IN_CONNECTION] = -1
    ways = np.zeros((2 * room, WAY_FIELDS), np.int64)
    ways[: 2 * have] = state.ways
    ways[2 * have :, ABSENT_IN_WAY] = -1
    return state._replace(connections=connections, ways=ways)


def begin_anew(state: State, connection: int) -> None:
    """Make a row ready for another connection on the same ports, after the one before has ended; what was counted stays.

    One server has one port, so whether that speaks Kafka stays known, too. Under TLS nothing can be read of a connection
    whose opening is not there.
    """
    facts = state.connections[connection]
    facts[PROTOCOL] = {OTHER: UNDECIDED, TLS: TLS_PASSED}.get(int(facts[PROTOCOL]), facts[PROTOCOL])
    facts[[RAW_SASL, STEPPED_NS, ENDING]] = 0
    if facts[ACK_NS] == 0:
        facts[ACK_NS] = -1  # it will not come any more
    ways = state.ways[2 * connection : 2 * connection + 2]
    counted = ways[:, COUNTED]
    ways[:] = 0
    ways[:, ABSENT_IN_WAY] = -1
    ways[:, COUNTED] = counted
    ways[:, SKIPPED_BEFORE] = ways[:, SKIPPED]


def _with_more_nodes(pool: Int64s, counters: Int64s, link: int, free: int, room: int) -> Int64s:
    have = len(pool)
    grown = np.zeros((room, pool.shape[1]), np.int64)
    grown[:have] = pool
    grown[have:, link] = np.arange(have + 1, room + 1)
    grown[room - 1, link] = counters[free]
    counters[free] = have
    counters[free + 1] += room - have
    return grown


def with_more_chunks(state: State, least: int) -> State:
    """Grow the chunk pool so that `least` nodes are free."""
    room = len(state.chunks) + max(least, len(state.chunks))
    return state._replace(chunks=_with_more_nodes(state.chunks, state.counters, NEXT_CHUNK, FREE_CHUNK, room))


def with_more_waiting(state: State, least: int) -> State:
    """Grow the pool of waiting requests so that `least` nodes are free."""
    room = len(state.waiting) + max(least, len(state.waiting))
    return state._replace(
        waiting=_with_more_nodes(state.waiting, state.counters, NEXT_WAITING, FREE_WAITING, room)
    )


def with_more_exchanges(state: State, least: int) -> State:
    """Give room for `least` more finished exchanges."""
    have = len(state.exchanges)
    exchanges = np.zeros((have + max(least, have), EXCHANGE_FIELDS), np.int64)
    exchanges[:have] = state.exchanges
    return state._replace(exchanges=exchanges)


def with_more_arena(state: State, least: int) -> State:
    """Give room for `least` more assembled bytes; every offset stays as it is, only the scratch moves."""
    arena = np.empty(len(state.arena) + max(least, len(state.arena) // 2), np.uint8)
    used = int(state.counters[ASSEMBLY])
    arena[:used] = state.arena[:used]
    return state._replace(arena=arena)
