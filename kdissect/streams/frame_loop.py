"""The frames of one direction: recognise the protocol, find each frame, take it, pair it.

`read_frames` takes all frames off a direction that are complete by now. Before each frame it asks for room,
and it stops between two frames when there is none. A direction that has just shown which protocol its
connection speaks makes the other direction worth reading, too: `StateCounters.read_next` keeps that.

Kafka 0.7 has frames and pairing of its own. The predicate `is_kafka07` chooses between the two, here and
nowhere else.
"""

from kdissect.jit.decorators import jit_inline, jit_thin
from kdissect.streams.chunks import skip
from kdissect.streams.detection import forget_what_cannot_be_kafka, recognise
from kdissect.streams.flow_state import (
    DONE,
    TLS,
    TLS_READY,
    UNDECIDED,
    FrameRow,
    State,
    is_kafka,
    is_kafka07,
    other_direction,
)
from kdissect.streams.frame_search import find_frame
from kdissect.streams.framing import (
    FrameVerdict,
    drop_leading_gaps,
    lose_place,
    next_request,
    next_response,
    take_frame,
)
from kdissect.streams.kafka07_framing import (
    SHORTEST_OLD_REQUEST,
    SHORTEST_OLD_RESPONSE,
    find_kafka07_frame,
    next_kafka07_frame,
)
from kdissect.streams.kafka07_pairing import forget_order, on_kafka07_request, on_kafka07_response
from kdissect.streams.pairing import expects_token, on_request, on_response, on_token
from kdissect.streams.request_header import SHORTEST_REQUEST
from kdissect.streams.response_search import SHORTEST_RESPONSE
from kdissect.streams.room import room_for_assembly, room_for_frame
from kdissect.streams.tls.record_layer import tls_is_ready


@jit_thin
def read_frames(state: State, connection: int, direction: int) -> int:
    """Pair all frames of a direction that are complete by now, and consume them.

    Return DONE, FULL_… if there is no room for the next one, or TLS_READY if a record of TLS is to be taken.
    """
    row = state.directions[direction]
    while row.head >= 0:
        if not is_kafka(state, connection):
            code = _read_unrecognised(state, connection, direction)
            if code != DONE or not is_kafka(state, connection):
                return code
        code = room_for_frame(state, connection)
        if code != DONE:
            return code
        client = direction - 2 * connection == state.connections[connection].client_side
        if not _come_into_step(state, connection, direction, client):
            return DONE
        verdict, number = _next_frame(state, connection, direction, client)
        if verdict == FrameVerdict.INCOMPLETE:
            return DONE
        if verdict == FrameVerdict.IMPOSSIBLE:
            lose_place(state, direction, number)
            continue
        code = room_for_assembly(state, direction, number)
        if code != DONE:
            return code
        take_frame(state, direction, number, state.frame)
        if verdict == FrameVerdict.TOKEN:
            on_token(state, connection, state.frame)
        else:
            pair_frame(state, connection, client, state.frame)
    return DONE


@jit_thin
def _read_unrecognised(state: State, connection: int, direction: int) -> int:
    """Look at a direction of a connection that is not known to speak Kafka, and recognise its protocol.

    Frames are left for the caller. Return as `read_frames` does.
    """
    row = state.directions[direction]
    facts = state.connections[connection]
    if facts.protocol == UNDECIDED:
        drop_leading_gaps(state, direction)
        recognise(state, connection, direction)
        if facts.protocol == UNDECIDED:
            forget_what_cannot_be_kafka(state, connection, direction)
        if facts.protocol != UNDECIDED:
            state.counters.read_next = other_direction(direction)
    if facts.protocol == TLS:
        return TLS_READY if tls_is_ready(state, direction) else DONE
    if facts.protocol != UNDECIDED and not is_kafka(state, connection):
        skip(state, direction, row.next)
    return DONE


@jit_inline
def _come_into_step(state: State, connection: int, direction: int, client: bool) -> bool:
    """Return whether a frame begins where a direction goes on, after a search for it if need be."""
    row = state.directions[direction]
    was_in_step = row.in_step != 0
    drop_leading_gaps(state, direction)
    if was_in_step and row.in_step == 0 and is_kafka07(state, connection):
        forget_order(state, connection, direction)
    if row.head < 0:
        return False
    if row.in_step:
        return True
    if row.from_start and row.frame == 0:
        row.in_step = 1  # the SYN came late: only now it is known that this is the beginning
        return True
    if is_kafka07(state, connection):
        return find_kafka07_frame(state, direction, client)
    return find_frame(state, connection, direction, client)


@jit_inline
def _next_frame(state: State, connection: int, direction: int, client: bool) -> tuple[int, int]:
    """Return the verdict on the next frame of a direction that is in step, and its number."""
    if is_kafka07(state, connection):
        verdict, number = next_kafka07_frame(state, direction, client)
        if verdict == FrameVerdict.IMPOSSIBLE:
            forget_order(state, connection, direction)
        return verdict, number
    if client:
        return next_request(state, connection, direction)
    return next_response(state, connection, direction)


@jit_inline
def shortest_frame(state: State, connection: int, client: bool) -> int:
    """Return how many bytes of a frame's body there must be to pair it."""
    if is_kafka07(state, connection):
        return SHORTEST_OLD_REQUEST if client else SHORTEST_OLD_RESPONSE
    return SHORTEST_REQUEST if client else SHORTEST_RESPONSE


@jit_inline
def pair_frame(state: State, connection: int, client: bool, frame: FrameRow) -> None:
    """Pair a request or a response. A frame of which too little is there is left out."""
    too_short = frame.stop - frame.start < shortest_frame(state, connection, client)
    # The response to a raw token has no correlation id, so any size will do.
    if too_short and (client or not expects_token(state, connection)):
        return
    if is_kafka07(state, connection):
        if client:
            on_kafka07_request(state, connection, frame)
        else:
            on_kafka07_response(state, connection, frame)
    elif client:
        on_request(state, connection, frame)
    else:
        on_response(state, connection, frame)


@jit_thin
def read_turn(state: State, connection: int) -> int:
    """Read the direction `counters.reading`. Then that becomes the one that is worth reading now, or -1.

    Return as `read_frames` does. If the code is not DONE, the next call goes on where this one stopped.
    """
    counters = state.counters
    code = read_frames(state, connection, counters.reading)
    if code == DONE:
        counters.reading = counters.read_next
        counters.read_next = -1
    return code
