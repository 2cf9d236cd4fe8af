"""The loop that ends connections, or has them give up what they wait for.

    THE_END         the connection is over: holes are given up, and both directions are read three times.
                    CERTAIN: what is certain is read first. LIKELY: what has not shown its protocol yet is
                    searched anew, and likely frames count, too. REST: what is left of each direction is the
                    beginning of a frame, which pairs it.
    HOLES           the connection goes on without what waits behind holes.
    ALL_THAT_WAITS  it goes on without anything that waits: of a frame its beginning stays, and requests have
                    no answer. `memory_budget` says when.

The client's direction always comes first: the server's last frames may answer requests that only now
complete.
"""

from kdissect.array_types import Int64s
from kdissect.jit.decorators import jit_inner, jit_seldom, jit_thin
from kdissect.protocol.integers import int32_at
from kdissect.streams.chunks import leave_gap, skip, view
from kdissect.streams.detection import recognise_lone
from kdissect.streams.flow_state import (
    DONE,
    ENDING_CERTAIN,
    ENDING_LIKELY,
    FULL_ARENA,
    NOT_ENDING,
    TLS,
    UNDECIDED,
    State,
    is_kafka,
    is_kafka07,
)
from kdissect.streams.frame_loop import pair_frame, read_turn, shortest_frame
from kdissect.streams.frame_search import search_anew
from kdissect.streams.framing import has_assembly_room, take_frame
from kdissect.streams.kafka07_pairing import shorten_waiting
from kdissect.streams.reassembly import give_up_hole
from kdissect.streams.request_header import HEADER_VIEW, LENGTH_BYTES
from kdissect.streams.room import room_for_frame, room_for_holes
from kdissect.streams.waiting_queue import give_up_all

THE_END, HOLES, ALL_THAT_WAITS = range(3)
CERTAIN, LIKELY, REST = range(3)  # the passes of THE_END
BEGINNING = 1 << 10  # bytes of a frame that are kept when the rest is let go: more than any header


@jit_seldom
def finish(state: State, connections: Int64s, how: int) -> tuple[int, int]:
    """End connections (THE_END), or have them give up what they wait for (HOLES, ALL_THAT_WAITS).

    Return (DONE or why the loop stopped, index in `connections` of the one to go on with).
    """
    for index in range(len(connections)):
        connection = int(connections[index])
        if how == HOLES:
            code = _release_holes(state, connection)
        elif how == ALL_THAT_WAITS:
            code = _release_all(state, connection)
        else:
            code = _close(state, connection)
        if code != DONE:
            return code, index
    return DONE, len(connections)


@jit_inner
def _ordered_direction(client: int, connection: int, turn: int) -> int:
    """Return the direction of the client in turn 0, that of the server in turn 1."""
    return 2 * connection + (client if turn == 0 else 1 - client)


@jit_inner
def _client_or_likely(state: State, connection: int) -> int:
    """Return the side of the client, or the likely one if it is not known."""
    row = state.connections[connection]
    return row.client_side if row.client_side >= 0 else row.likely_client_side


@jit_inner
def _give_up_holes(state: State, direction: int) -> int:
    """Replace all holes of a direction by gaps. Return DONE, or FULL_CHUNKS if nothing has changed."""
    code = room_for_holes(state, direction)
    if code == DONE:
        while state.directions[direction].ahead >= 0:
            give_up_hole(state, direction)
    return code


@jit_thin
def _read(state: State, connection: int, direction: int) -> int:
    """Read a direction, and the other one if it became worth reading by that.

    Return as `read_frames` does.
    """
    state.counters.reading = direction
    code = DONE
    while code == DONE and state.counters.reading >= 0:
        code = read_turn(state, connection)
    return code


@jit_thin
def _release_holes(state: State, connection: int) -> int:
    """Have a connection go on without what waits behind holes."""
    client = _client_or_likely(state, connection)
    for turn in range(2):
        direction = _ordered_direction(client, connection, turn)
        code = _give_up_holes(state, direction)
        if code == DONE:
            code = _read(state, connection, direction)
        if code != DONE:
            return code
    return DONE


@jit_thin
def _release_all(state: State, connection: int) -> int:
    """Have a connection go on without anything that waits."""
    row = state.connections[connection]
    client = _client_or_likely(state, connection)
    for turn in range(2):
        direction = _ordered_direction(client, connection, turn)
        # The bytes that are there must show which protocol this is, since they are let go.
        row.ending = ENDING_CERTAIN if row.protocol == UNDECIDED else NOT_ENDING
        code = _give_up_holes(state, direction)
        if code == DONE:
            code = _read(state, connection, direction)
        if code != DONE:
            return code
        _give_up_rest(state, direction)
    row.ending = NOT_ENDING
    if is_kafka07(state, connection):
        shorten_waiting(state, connection, BEGINNING)
        return DONE
    return _give_up_all(state, connection)


@jit_thin
def _close(state: State, connection: int) -> int:
    """End a connection: read what is left of it, and finish what waits."""
    client = _client_or_likely(state, connection)
    for reading in range(CERTAIN, REST + 1):
        state.connections[connection].ending = ENDING_CERTAIN if reading == CERTAIN else ENDING_LIKELY
        for turn in range(2):
            direction = _ordered_direction(client, connection, turn)
            code = _give_up_holes(state, direction)
            if code != DONE:
                return code
            if reading != REST and state.connections[connection].protocol == UNDECIDED:
                lone = recognise_lone(state, connection, direction)
                if reading == LIKELY and not lone:
                    search_anew(state, direction)
            code = _read(state, connection, direction)
            if code == DONE and reading == REST:
                code = _take_rest(state, connection, direction)
            if code != DONE:
                return code
    return _give_up_all(state, connection)


@jit_inner
def _give_up_all(state: State, connection: int) -> int:
    """Finish all that waits. Return DONE, or which pool is full if nothing has changed."""
    code = room_for_frame(state, connection)
    if code == DONE:
        give_up_all(state, connection)
    return code


@jit_inner
def _take_rest(state: State, connection: int, direction: int) -> int:
    """Pair the last frame of a direction, of which the capture has only the beginning, and skip the rest.

    Return DONE, or which pool is full if nothing has changed.
    """
    row = state.directions[direction]
    facts = state.connections[connection]
    client = direction - 2 * connection == facts.client_side
    if is_kafka(state, connection) and row.in_step and row.head >= 0 and not facts.raw_sasl:
        offset, length = view(state, direction, row.frame, HEADER_VIEW)
        if length >= LENGTH_BYTES + shortest_frame(state, connection, client):
            code = room_for_frame(state, connection)
            if code != DONE:
                return code
            if not has_assembly_room(state, row.next - row.frame):
                return FULL_ARENA
            take_frame(state, direction, int32_at(state.arena, offset), state.frame)
            pair_frame(state, connection, client, state.frame)
    skip(state, direction, row.next)
    return DONE


@jit_inner
def _give_up_rest(state: State, direction: int) -> None:
    """Keep the beginning of an unfinished frame, which pairs it, and nothing else of a direction.

    Nothing stays of records of TLS, nor of bytes in which no frame was found.
    """
    row = state.directions[direction]
    connection = direction // 2
    if state.connections[connection].protocol == TLS:
        leave_gap(state, direction, 0)
        search_anew(state, direction)
    elif is_kafka(state, connection) and row.in_step:
        leave_gap(state, direction, BEGINNING)
        search_anew(state, direction)
    else:
        skip(state, direction, row.next)
