"""Frames of a stream that is in step: where the next one ends, and its bytes.

A frame is an int32 length and that many bytes. A request begins with API key, API version, correlation id and
client id (`request_header`); a response begins with the correlation id alone. While a stream is in step, the
length leads from frame to frame.

`next_request` and `next_response` look at the place where a frame should begin and return a `FrameVerdict`
with a number. `take_frame` then consumes a frame; `lose_place` puts the direction out of step, so that the
next frame is searched (`frame_search`).
"""

from enum import IntEnum

from kdissect.jit.decorators import copy_bytes, jit_inline, jit_inner
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.integers import int16_at, int32_at
from kdissect.streams.chunks import discard, in_one_place, skip, view
from kdissect.streams.flow_state import SCRATCH, FrameRow, State
from kdissect.streams.pairing import expects_token
from kdissect.streams.request_header import (
    HEADER_VIEW,
    KEY_AT,
    LENGTH_BYTES,
    MAX_FRAME,
    NOTHING,
    SHORTEST_REQUEST,
    SHORTEST_SURE,
    can_be_request,
    header_evidence,
)
from kdissect.streams.response_search import RESPONSE_VIEW, SHORTEST_RESPONSE
from kdissect.streams.unread_payload import look_at, look_at_all
from kdissect.streams.waiting_queue import MAX_WAITING, waiting_request

TOKEN_LIMIT = 1 << 20  # bytes: SASL tokens are small; a larger "token" is a lost place
SHORTEST_TOKEN = 0

TLS_ALERT, TLS_ALERT_MASK = 0x15_03_00_00, 0x7FFF_F8FF
"""A TLS alert read as a length: type 21, version 3.0 to 3.7, length below 256 (RFC 8446).

A server that wants TLS answers plaintext with one. It is no size of a frame.
"""


class FrameVerdict(IntEnum):
    """Verdict on the place where the next frame of a direction should begin, with its number."""

    INCOMPLETE = 0  # more bytes must come; the number has no meaning
    IMPOSSIBLE = 1  # no frame; the next one may begin that many bytes further on
    COMPLETE = 2  # a frame with a body of that many bytes
    TOKEN = 3  # a raw SASL token of that many bytes


@jit_inline
def read_length(state: State, direction: int, offset: int, length: int, shortest: int) -> tuple[int, int]:
    """Return the verdict that follows from the length of the next frame alone, and that length.

    The frame begins with `length` bytes at an offset in the arena, as `view` gives them.
    """
    row = state.directions[direction]
    held = row.next - row.frame
    if length < LENGTH_BYTES:
        if held < LENGTH_BYTES:
            return FrameVerdict.INCOMPLETE, 0
        return FrameVerdict.IMPOSSIBLE, length  # a gap lies within the length
    size = int32_at(state.arena, offset)
    if size < shortest or size > MAX_FRAME:
        row.oversized_frames += size > MAX_FRAME and size & TLS_ALERT_MASK != TLS_ALERT
        return FrameVerdict.IMPOSSIBLE, 1
    if held < LENGTH_BYTES + size:
        return FrameVerdict.INCOMPLETE, size
    return FrameVerdict.COMPLETE, size


@jit_inline
def next_request(state: State, connection: int, direction: int) -> tuple[int, int]:
    """Return the verdict on the next frame of the client's direction, and the number that comes with it."""
    row = state.directions[direction]
    raw_sasl = state.connections[connection].raw_sasl != 0
    shortest = SHORTEST_TOKEN if raw_sasl else SHORTEST_REQUEST
    offset, length = view(state, direction, row.frame, HEADER_VIEW)
    verdict, size = read_length(state, direction, offset, length, shortest)
    if verdict == FrameVerdict.IMPOSSIBLE or length < LENGTH_BYTES:
        return verdict, size
    is_token = raw_sasl and size < TOKEN_LIMIT
    if length >= min(LENGTH_BYTES + size, SHORTEST_SURE) and size >= SHORTEST_REQUEST:
        if raw_sasl and header_evidence(state.arena, offset, length, state.max_versions) == NOTHING:
            pass  # a token, since Kafka's own headers would be recognised
        elif can_be_request(state.arena, offset, min(length, LENGTH_BYTES + size)):
            is_token = False
            if raw_sasl and verdict == FrameVerdict.COMPLETE and not _is_handshake(state, offset):
                state.connections[connection].raw_sasl = 0
        elif not is_token:
            return FrameVerdict.IMPOSSIBLE, 1
    if verdict == FrameVerdict.COMPLETE and is_token:
        return FrameVerdict.TOKEN, size
    return verdict, size


@jit_inner
def _is_handshake(state: State, offset: int) -> bool:
    """Return whether a request is a SaslHandshake, behind which raw tokens go on."""
    return int16_at(state.arena, offset + KEY_AT) == ApiKey.SASL_HANDSHAKE


@jit_inline
def next_response(state: State, connection: int, direction: int) -> tuple[int, int]:
    """Return the verdict on the next frame of the server's direction, and the number that comes with it."""
    row = state.directions[direction]
    offset, length = view(state, direction, row.frame, RESPONSE_VIEW)
    answers_token = expects_token(state, connection)
    shortest = SHORTEST_TOKEN if answers_token else SHORTEST_RESPONSE
    verdict, size = read_length(state, direction, offset, length, shortest)
    if verdict == FrameVerdict.IMPOSSIBLE:
        return verdict, size
    if length == RESPONSE_VIEW and not answers_token:
        correlation_id = int32_at(state.arena, offset + LENGTH_BYTES)
        if correlation_id < 0 and waiting_request(state, connection, correlation_id, MAX_WAITING) < 0:
            return FrameVerdict.IMPOSSIBLE, 1  # clients count from 0, and rarely so far that ids overflow
    return verdict, size


@jit_inner
def lies_apart(state: State, direction: int, size: int) -> bool:
    """Return whether the next frame, with a body of `size` bytes, is spread over the arena or has a gap."""
    row = state.directions[direction]
    end = row.frame + LENGTH_BYTES + size
    reaches, _ = in_one_place(state, row.head, row.frame, end)
    return bool(reaches < end)


@jit_inner
def take_frame(state: State, direction: int, size: int, frame: FrameRow) -> None:
    """Consume the next frame, with a body of `size` bytes, off a direction, and fill `frame`.

    A frame that lies in one place of the arena stays there; another one is assembled. After a gap the rest of
    a frame is of no use, so `frame.stop` is where the first gap begins.
    """
    row = state.directions[direction]
    begin = row.frame
    end = min(begin + LENGTH_BYTES + size, row.next)
    first = state.chunks[row.head]
    frame.first_byte_ns = first.time_ns
    frame.packet = first.packet
    frame.position = begin
    reaches, last_ns = in_one_place(state, row.head, begin, end)
    if reaches == begin + LENGTH_BYTES + size:
        frame.start = first.offset + begin - first.position + LENGTH_BYTES
        frame.stop = frame.start + size
        frame.last_byte_ns = last_ns
    else:
        _assemble(state, direction, end, frame)
        if end < begin + LENGTH_BYTES + size:
            frame.last_byte_ns = -1
    frame.frame_stop = frame.start + size
    discard(state, direction, end)


@jit_inner
def _assemble(state: State, direction: int, end: int, frame: FrameRow) -> None:
    """Copy the bytes up to `end`, or up to the first gap, behind the assembled frames in the arena."""
    row = state.directions[direction]
    arena = state.arena
    begin = state.counters.assembly
    filled = begin
    contiguous = True
    position = row.frame
    node = row.head
    while node >= 0 and position < end:
        chunks = state.chunks
        inside = position - chunks[node].position
        take = min(end - position, chunks[node].length - inside)
        contiguous = contiguous and chunks[node].offset >= 0
        if contiguous:
            look_at(state, chunks[node].offset + inside, chunks[node].offset + inside + take)
            copy_bytes(arena, chunks[node].offset + inside, arena, filled, take)
            filled += take
        frame.last_byte_ns = chunks[node].time_ns
        position += take
        node = chunks[node].next
    frame.start = begin + LENGTH_BYTES
    frame.stop = max(filled, begin + LENGTH_BYTES)
    state.counters.assembly = filled


@jit_inline
def has_assembly_room(state: State, size: int) -> bool:
    """Return whether the arena has room to assemble a frame with a body of `size` bytes."""
    return state.counters.assembly + LENGTH_BYTES + size + SCRATCH <= len(state.arena)


@jit_inner
def lose_place(state: State, direction: int, bytes_on: int) -> None:
    """Put a direction out of step: the next frame is searched from `bytes_on` bytes further on."""
    row = state.directions[direction]
    row.in_step = 0
    look_at_all(state)
    skip(state, direction, min(row.frame + bytes_on, row.next))


@jit_inner
def drop_leading_gaps(state: State, direction: int) -> None:
    """Leave gaps behind where a frame should begin; the direction is out of step then."""
    row = state.directions[direction]
    while row.head >= 0 and state.chunks[row.head].offset < 0:
        row.in_step = 0
        look_at_all(state)
        gap = row.head
        discard(state, direction, state.chunks[gap].position + state.chunks[gap].length)
