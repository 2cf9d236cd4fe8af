"""What is known of every connection between two segments.

Rows of integers, so that compiled code can hold it.

Pass two is one loop over segments in capture order. All that it remembers lies in one `State`:

    connections   one row per connection: who is the client, handshake times, counters directions    one row
    per direction of a connection (2 * connection + side): stream position, gaps, losses chunks        stream
    bytes that were captured but not consumed: a pool of linked nodes, each pointing into the arena waiting
    requests that wait for their response, and responses that came before their request: a pool again
    exchanges     what is finished: rows that the caller turns into tables counters      how much of the pools
    is used, and how far the segment at hand has been processed arena         the bytes themselves: [carried
    over | read from the capture | assembled frames | scratch]

The row types below name every field and its unit; `jit.rows` says how compiled code reads them.

Because the state is complete, the capture may be handed over in slabs of any size with the same outcome.
Pools grow outside the compiled code: a kernel that finds no room says which one is full and is called again.

Positions in a stream are int64 counts from its first byte; TCP's 32-bit sequence numbers (RFC 9293, section
3.4) are unwrapped as soon as they come in. Times are in ns, 0 = not seen. A packet is `split << PACKET_BITS |
number in its file`. A node is the row number of a chunk or of a waiting exchange, -1 = none.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdissect.jit.decorators import jit_inner
from kdissect.jit.rows import Row, RowTable, array_of, grown_table, integers_of, new_table, row_type

Int64s = NDArray[np.int64]
Bytes = NDArray[np.uint8]


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
    ending: int  # 1, then 2, when nothing more will come and what is there must do
    overheld: int  # how often it gave up what it waited for because all connections together held too much


@row_type
class SearchMark(Row):
    """How far a search for frames has come in one direction."""

    position: int
    chunk: int  # node at or before the position, -1: begin with the head


@row_type
class DirectionRow(Row):
    """One direction of a connection."""

    started: int  # 1, or 2 while only an acknowledgment has told where it begins
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


@row_type
class ChunkRow(Row):
    """Bytes of one packet in a stream, or a gap. Of a lost gap time and packet are -1."""

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
class StateCounters(Row):
    """Where the next free node or byte is, and how far `advance` got with the segment at which it stopped."""

    free_chunk: int  # node
    free_chunk_count: int
    free_waiting: int  # node
    free_waiting_count: int
    exchange_count: int  # finished exchanges
    assembly: int  # offset in the arena of the first byte behind assembled frames
    step: int  # TAKE_IN, ...: what is to be done next with the segment
    # 1 while a connection was recognised by one direction, and the other one is still to be looked at.
    recognised: int
    held: int  # what all chunks and all that waits take, in bytes
    most_held: int  # so much may be held, in bytes


REQUEST_SIDE, RESPONSE_SIDE = "request", "response"  # the fields of an exchange that are a FrameRow

GAP = -1  # offset of a chunk whose bytes are not there

# What `advance` adds to the flags of a segment: some of its bytes were there before, or it is a keep-alive
# probe; `overlaps` adds that they were others.
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

# Values of `StateCounters.step`: what is to be done next with the segment.
TAKE_IN, CONSUME_OTHER, CONSUME = range(3)

# What a kernel says when it stops; TLS_READY: a record of TLS is there to be taken; PORTS_REUSED: a segment
# belongs to another connection on the same ports; TOO_MUCH_HELD: see `memory_budget`.
DONE, FULL_CHUNKS, FULL_WAITING, FULL_EXCHANGES, FULL_ARENA, TLS_READY, PORTS_REUSED, TOO_MUCH_HELD = range(8)

PACKET_BITS = 40
SCRATCH = 512  # bytes at the end of the arena where a header that is spread over chunks is put together

# Fields in which nothing is -1.
ABSENT_IN_CONNECTION = ("client_side", "opened_by", "first_waiting", "last_waiting", "first_early")
ABSENT_IN_DIRECTION = ("head", "tail", "ahead", "latest_ahead", "acked", "first_sent", "first_expected")

# Fields of a direction that stay when another connection uses the same ports: what was counted, and how it
# was opened first.
COUNTED = (
    "lost_bytes", "skipped_bytes", "retransmitted", "reordered", "payload_bytes", "cut_bytes",
    "oversized_frames", "overfull_holes", "first_sent", "first_expected", "conflicts",
)  # fmt: skip


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
    frame: FrameRow  # one message in the making
    blank: ExchangeRow  # zeros


@jit_inner
def other_direction(direction: int) -> int:
    """Return the number of the direction that runs against this one.

    The numbers are `2 * connection + side`.
    """
    return direction ^ 1


def new_state(max_versions: Int64s) -> State:
    """Return an empty state. `max_versions[key]` is the highest version of an API key that ever existed."""
    state = State(
        connections=new_table(ConnectionRow, 0),
        directions=new_table(DirectionRow, 0),
        chunks=new_table(ChunkRow, 0),
        waiting=new_table(ExchangeRow, 0),
        exchanges=new_table(ExchangeRow, 0),
        counters=new_table(StateCounters, 1)[0],
        arena=np.zeros(SCRATCH, np.uint8),
        max_versions=max_versions,
        frame=new_table(FrameRow, 1)[0],
        blank=new_table(ExchangeRow, 1)[0],
    )
    state.counters.free_chunk = state.counters.free_waiting = -1
    state = with_more_chunks(state, 1 << 10)
    state = with_more_waiting(state, 1 << 8)
    return with_more_exchanges(state, 1 << 10)


def with_more_connections(state: State, count: int) -> State:
    """Return the state with room for `count` connections in all, fresh rows ready for use."""
    have = len(state.connections)
    if count <= have:
        return state
    room = max(count, 2 * have, 64)
    connections = grown_table(ConnectionRow, state.connections, room)
    directions = grown_table(DirectionRow, state.directions, 2 * room)
    for name in ABSENT_IN_CONNECTION:
        array_of(connections)[name][have:] = -1
    _blank_directions(array_of(directions)[2 * have :])
    return state._replace(connections=connections, directions=directions)


def _blank_directions(rows: NDArray[np.void]) -> None:
    """Fill rows of zeros with what they hold before their first segment."""
    for name in ABSENT_IN_DIRECTION:
        rows[name] = -1
    for mark in ("scanned", "doubtful"):
        rows[mark]["chunk"] = -1


def begin_anew(state: State, connection: int) -> None:
    """Make a row ready for another connection on the same ports, after the one before has ended.

    What was counted stays.

    One server has one port, so whether that speaks Kafka stays known, too. Under TLS nothing can be read of a
    connection whose opening is not there.
    """
    row = array_of(state.connections)[connection : connection + 1]
    protocol = int(row["protocol"][0])
    row["protocol"] = {OTHER: UNDECIDED, TLS: TLS_PASSED}.get(protocol, protocol)
    row["raw_sasl"] = row["clock_stepped_ns"] = row["ending"] = 0
    row["ack_ns"][row["ack_ns"] == 0] = -1  # it will not come any more
    directions = array_of(state.directions)[2 * connection : 2 * connection + 2]
    counted = {name: directions[name].copy() for name in COUNTED}
    integers_of(directions)[:] = 0
    _blank_directions(directions)
    for name, values in counted.items():
        directions[name] = values
    directions["skipped_before"] = directions["skipped_bytes"]


def _link_new_nodes(links: Int64s, have: int, free: int) -> int:
    """Chain the nodes from number `have` on, with the free ones so far behind them.

    Return how many they are.
    """
    room = len(links)
    links[have:] = np.arange(have + 1, room + 1)
    links[room - 1] = free
    return room - have


def with_more_chunks(state: State, least: int) -> State:
    """Return the state with `least` more free nodes in the chunk pool, or more."""
    have = len(state.chunks)
    chunks = grown_table(ChunkRow, state.chunks, have + max(least, have))
    counters = state.counters
    counters.free_chunk_count += _link_new_nodes(array_of(chunks)["next"], have, counters.free_chunk)
    counters.free_chunk = have
    return state._replace(chunks=chunks)


def with_more_waiting(state: State, least: int) -> State:
    """Return the state with `least` more free nodes in the pool of waiting requests, or more."""
    have = len(state.waiting)
    waiting = grown_table(ExchangeRow, state.waiting, have + max(least, have))
    counters = state.counters
    counters.free_waiting_count += _link_new_nodes(array_of(waiting)["next"], have, counters.free_waiting)
    counters.free_waiting = have
    return state._replace(waiting=waiting)


def with_more_exchanges(state: State, least: int) -> State:
    """Return the state with room for `least` more finished exchanges, or more."""
    have = len(state.exchanges)
    return state._replace(exchanges=grown_table(ExchangeRow, state.exchanges, have + max(least, have)))


def with_more_arena(state: State, least: int) -> State:
    """Return the state with room for `least` more assembled bytes.

    Offsets stay as they are, only the scratch moves.
    """
    arena = np.empty(len(state.arena) + max(least, len(state.arena) // 2), np.uint8)
    used = int(state.counters.assembly)
    arena[:used] = state.arena[:used]
    return state._replace(arena=arena)
