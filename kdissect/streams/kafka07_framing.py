"""Frames of Kafka 0.7: how its requests and responses are told from everything else, and found again.

A request of 0.7 is an int32 length, an int16 type (0 Produce, 1 Fetch, 2 MultiFetch, 3 MultiProduce, 4
Offsets) and a body; a response is an int32 length, an int16 error code and a body. There is no version, no
correlation id and no client id, and the type looks like the API key of a newer request. So a request is
believed only when its whole structure fits: a printable topic, a partition, and a length that is exactly what
the rest says.

A search looks only where a packet's payload begins, because nothing in the bytes marks a boundary.
"""

from kdissect.array_types import Bytes, Int64s
from kdissect.jit.decorators import jit_inner
from kdissect.protocol.integers import int16_at, int32_at
from kdissect.streams.chunks import skip, view, view_from
from kdissect.streams.flow_state import State
from kdissect.streams.frame_search import begin_frame, search_from
from kdissect.streams.framing import FrameVerdict, read_length
from kdissect.streams.request_header import (
    HEADER_VIEW,
    LENGTH_BYTES,
    MAX_FRAME,
    NO,
    PLAIN_ID,
    UNSURE,
    YES,
    header_evidence,
)

PRODUCE, FETCH, MULTI_FETCH, MULTI_PRODUCE, OFFSETS = range(5)
SHORTEST_OLD_REQUEST = 2
TYPE_BYTES = 2
SHORTEST_SAYING = 9  # up to the first letter of a topic
SHORTEST_OLD_RESPONSE = 2
LONGEST_TOPIC = 240  # of a request that is to be recognised: a longer one does not fit in HEADER_VIEW
HIGHEST_PARTITION = 1 << 20
LOWEST_ERROR, HIGHEST_ERROR = -1, 4
RESPONSE_VIEW = 12  # a length, an error, and what tells messages from offsets
ASKED_BYTES = 12  # offset and size, or time and count


@jit_inner
def old_request_evidence(data: Bytes, offset: int, length: int) -> int:
    """Return whether `length` bytes at an offset begin a request of 0.7, length prefix included.

    UNSURE: what is there fits, up to the first letter of a topic at least, but it is too short to say.
    """
    if length < SHORTEST_SAYING:
        return NO
    size = int32_at(data, offset)
    kind = int16_at(data, offset + 4)
    if size < SHORTEST_OLD_REQUEST or size > MAX_FRAME or kind < PRODUCE or kind > OFFSETS:
        return NO
    at, end = 6, 4 + size
    parts = 1
    if kind == MULTI_FETCH or kind == MULTI_PRODUCE:
        parts = int16_at(data, offset + at)
        at += 2
        if parts < 1:
            return NO
    part = 0
    while part < parts:
        if at + 2 > length:
            break
        topic = int16_at(data, offset + at)
        if topic < 1 or topic > LONGEST_TOPIC:
            return NO
        for index in range(at + 2, min(at + 2 + topic, length)):
            if data[offset + index] <= 0x20 or data[offset + index] >= 0x7F or data[offset + index] == 0x2F:
                return NO
        at += 2 + topic
        if at + 4 > length:
            break
        partition = int32_at(data, offset + at)
        if partition < -1 or partition > HIGHEST_PARTITION:  # -1: the broker chooses
            return NO
        at += 4
        if kind == PRODUCE or kind == MULTI_PRODUCE:
            if at + 4 > length:
                break
            messages = int32_at(data, offset + at)
            at += 4
            if messages < 0 or at + messages > end:
                return NO
            if messages > 0 and at + 5 > length:
                break
            if messages > 0 and not _message_at(data, offset + at, messages):
                return NO
            at += messages
        else:
            at += ASKED_BYTES
        part += 1
        if at > end:
            return NO
    if part == parts:
        return YES if at == end else NO
    return YES if part > 0 and length >= HEADER_VIEW else UNSURE


@jit_inner
def _message_at(data: Bytes, at: int, room: int) -> bool:
    """Return whether a message that is not alone too long for `room` bytes may begin at a position."""
    size = int32_at(data, at)
    return 5 <= size <= room - 4 and data[at + 4] <= 1


@jit_inner
def old_response_evidence(data: Bytes, offset: int, length: int) -> bool:
    """Return whether bytes look like the start of a response of 0.7.

    An error alone, messages, several of both, or offsets.
    """
    if length < 6:
        return False
    size = int32_at(data, offset)
    error = int16_at(data, offset + 4)
    if size < SHORTEST_OLD_RESPONSE or size > MAX_FRAME or error < LOWEST_ERROR or error > HIGHEST_ERROR:
        return False
    if size == SHORTEST_OLD_RESPONSE:
        return True
    if error != 0 or size < 6 or length < 10:
        return False
    first = int32_at(data, offset + 6)
    if first >= 0 and size == 6 + 8 * first:
        return True
    if length < RESPONSE_VIEW:
        return False
    inner_error = int16_at(data, offset + 10)
    nested = 2 <= first <= size - 6 and LOWEST_ERROR <= inner_error <= HIGHEST_ERROR
    return bool(nested or _message_at(data, offset + 6, size - 2))


@jit_inner
def can_be_old_request(data: Bytes, offset: int) -> bool:
    """Return whether a stream that is in step may go on with these 6 bytes."""
    return PRODUCE <= int16_at(data, offset + 4) <= OFFSETS


@jit_inner
def find_old_request(state: State, direction: int, max_versions: Int64s) -> int:
    """Search a stream for a request of 0.7 where packets begin; if it is found, skip what lies before it.

    UNSURE: the last packets may be the start of one, and more has to come.
    """
    row = state.directions[direction]
    node = search_from(state, direction, row.doubtful)
    while node >= 0:
        chunks = state.chunks
        position = chunks[node].position
        if chunks[node].offset >= 0 and position >= row.frame:
            offset, length = view_from(state, node, position, SHORTEST_SAYING)
            evidence = old_request_evidence(state.arena, offset, length)
            if evidence != NO:
                offset, length = view_from(state, node, position, HEADER_VIEW)
                evidence = old_request_evidence(state.arena, offset, length)
            if evidence != NO and header_evidence(state.arena, offset, length, max_versions) >= PLAIN_ID:
                evidence = NO
            if evidence == YES:
                after = position + 4 + int32_at(state.arena, offset)
                offset, length = view_from(state, node, after, HEADER_VIEW)
                if length < SHORTEST_SAYING or old_request_evidence(state.arena, offset, length) != NO:
                    begin_frame(state, direction, position)
                    return YES
            elif evidence == UNSURE and position + length == row.next:
                return UNSURE
        node = chunks[node].next
    return NO


@jit_inner
def find_old_response(state: State, direction: int) -> bool:
    """Search a stream that is out of step for a response where packets begin; skip what lies before it."""
    row = state.directions[direction]
    node = row.head
    while node >= 0:
        chunks = state.chunks
        position = chunks[node].position
        if chunks[node].offset >= 0 and position >= row.frame:
            offset, length = view_from(state, node, position, RESPONSE_VIEW)
            if old_response_evidence(state.arena, offset, length):
                after = position + 4 + int32_at(state.arena, offset)
                offset, length = view_from(state, node, after, RESPONSE_VIEW)
                if length < 6 or old_response_evidence(state.arena, offset, length):
                    return begin_frame(state, direction, position)
        node = chunks[node].next
    return False


@jit_inner
def find_kafka07_frame(state: State, direction: int, client: bool) -> bool:
    """Search a direction that is out of step for the next frame; skip what lies before it.

    Return whether it was found. If not, keep only the bytes in which a frame may begin.
    """
    row = state.directions[direction]
    if client:
        found = find_old_request(state, direction, state.max_versions) == YES
    else:
        found = find_old_response(state, direction)
    keep = HEADER_VIEW if client else RESPONSE_VIEW
    if not found and row.next - row.frame > keep:
        skip(state, direction, row.next - keep)
    return bool(found)


@jit_inner
def next_kafka07_frame(state: State, direction: int, client: bool) -> tuple[int, int]:
    """Return the `FrameVerdict` on the next frame of a direction that is in step, and its number."""
    row = state.directions[direction]
    offset, length = view(state, direction, row.frame, HEADER_VIEW)
    shortest = SHORTEST_OLD_REQUEST if client else SHORTEST_OLD_RESPONSE
    verdict, size = read_length(state, direction, offset, length, shortest)
    if verdict != FrameVerdict.COMPLETE and verdict != FrameVerdict.INCOMPLETE:
        return verdict, size
    if client and length >= LENGTH_BYTES + TYPE_BYTES and not can_be_old_request(state.arena, offset):
        return FrameVerdict.IMPOSSIBLE, 1
    return verdict, size
