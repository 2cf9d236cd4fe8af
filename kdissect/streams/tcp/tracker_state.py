"""State of TCP in each connection between two packets, and the rows that come of it.

Reassembly wants the bytes of a stream; this wants to know how well they travelled. Both read the same
descriptors, and share nothing else. Positions are sequence numbers unwrapped to int64, from `FIRST_POSITION`
up, so that 0 means unknown. Times are in ns, 0: not seen.

    connections   one row per connection: how it was opened and closed
    directions    one row per direction (2 * connection + side): what is sent, acknowledged and timed
    current       one StepRow per direction: the figures of its present step of time
    steps         finished StepRows
    spans         finished SpanRows

A direction is that of data. The receiver's acknowledgments count with the data; its receive
window counts in the direction of the data that the receiver sends.
"""

from typing import NamedTuple

from kdissect.jit.rows import Row, RowTable, grown_table, new_table, row_type

FIRST_POSITION = 1 << 33

# Values of `SpanRow.kind`.
UNACKNOWLEDGED, WINDOW_CLOSED = range(2)
SPAN_NAMES = ("unacknowledged", "window_closed")

# Values of `SpanRow.outcome`: what ended it.
STILL_OPEN, ACKNOWLEDGED, RESET = range(3)
OUTCOME_NAMES = ("open", "acknowledged", "reset")


@row_type
class TcpConnectionRow(Row):
    """One connection."""

    last_ns: int  # time of the last packet that was looked at
    syn: int  # side << 32 | sequence number of the last SYN without ACK, plus FIRST_POSITION
    syn_ns: int  # time of the first packet of that SYN
    syn_last_ns: int  # time of the last one
    answered: int  # 1 when it was accepted or refused
    closed_ns: int  # time of the first FIN or RST
    closed_by: int  # the side that sent it


@row_type
class TcpDirectionRow(Row):
    """One direction of a connection."""

    sent: int  # position behind the last byte that was sent
    acked: int  # highest position that the receiver acknowledged
    timed_stop: int  # the acknowledgment of this position ends the measurement that is running, 0: none is
    timed_ns: int
    waiting_ns: int  # since when bytes are in flight and the acknowledgment stands still
    waiting_packet: int  # that began it
    idle_ns: int  # how long the connection had been silent before
    largest: int  # bytes of the largest segment in flight
    repeats: int  # retransmitted segments while the acknowledgment stands still
    repeat_at: int  # position of the segment that was sent again last
    repeat_bytes: int  # its bytes
    repeat_run: int  # how often it was sent again, one time after the other
    most_repeats: int  # the highest number of these
    hole_start: int  # positions of a range that was not captured when later bytes came
    hole_stop: int
    hole_ns: int
    window_ns: int  # since when the window of this direction's sender is closed
    window_packet: int  # the last packet that said so
    window_packets: int
    step: int  # number of the present step of time, 0: none
    ack_count: int  # round trips by bare acknowledgments in the whole connection
    ack_ns: int
    ack_min_ns: int
    ack_max_ns: int


@row_type
class StepRow(Row):
    """One direction of a connection in one step of time."""

    direction: int  # 2 * connection + side
    step: int  # time / length of a step
    first_ns: int  # of the packets that the sender sent
    last_ns: int
    segments: int  # with data
    bytes: int
    ack_count: int  # round trips that end with an acknowledgment without data
    ack_ns: int  # their sum
    ack_min_ns: int
    ack_max_ns: int
    reply_count: int  # round trips that end with data of the receiver, which may have taken its time
    reply_ns: int
    reply_min_ns: int
    reply_max_ns: int
    repeated: int  # segments that were sent again
    repeated_bytes: int
    repeated_first_ns: int
    repeated_last_ns: int
    largest_acked: int  # bytes of the largest segment that was acknowledged
    attempts: int  # to open the connection
    attempt_repeats: int
    refused: int
    unanswered: int


@row_type
class SpanRow(Row):
    """A range of time in which a direction stood still."""

    kind: int  # UNACKNOWLEDGED or WINDOW_CLOSED
    direction: int
    begin_ns: int
    end_ns: int
    outcome: int  # STILL_OPEN, ...
    packets: int  # segments sent again, or packets that keep the window closed
    most_repeats: int  # the most times that one segment was sent again
    segment_bytes: int  # size of the segment that was sent again last
    bytes: int  # in flight
    idle_ns: int  # how long the connection had been silent before
    packet: int  # the first one


@row_type
class TcpCounters(Row):
    """How many rows of the results are used."""

    steps: int
    spans: int


class TcpState(NamedTuple):
    """All tables; `length_ns` is the length of a step of time."""

    connections: RowTable[TcpConnectionRow]
    directions: RowTable[TcpDirectionRow]
    current: RowTable[StepRow]
    steps: RowTable[StepRow]
    spans: RowTable[SpanRow]
    counters: TcpCounters
    blank: StepRow
    length_ns: int


def new_tcp_state(length_ns: int, room: int = 1 << 12) -> TcpState:
    """Return an empty state with steps of `length_ns`, and room for `room` results."""
    return TcpState(
        connections=new_table(TcpConnectionRow, 0),
        directions=new_table(TcpDirectionRow, 0),
        current=new_table(StepRow, 0),
        steps=new_table(StepRow, room),
        spans=new_table(SpanRow, room),
        counters=new_table(TcpCounters, 1)[0],
        blank=new_table(StepRow, 1)[0],
        length_ns=length_ns,
    )


def with_tcp_connections(state: TcpState, count: int) -> TcpState:
    """Return the state with room for `count` connections in all."""
    have = len(state.connections)
    if count <= have:
        return state
    room = max(count, 2 * have, 64)
    return state._replace(
        connections=grown_table(TcpConnectionRow, state.connections, room),
        directions=grown_table(TcpDirectionRow, state.directions, 2 * room),
        current=grown_table(StepRow, state.current, 2 * room),
    )
