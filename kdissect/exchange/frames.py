"""Frames in a byte stream: what a Kafka header must look like, and how to find the next one when the place is lost.

A frame is an int32 length and that many bytes. A request begins with API key, API version (int16 each), correlation id
(int32) and client id (int16 length and text, also in header version 2: KIP-482); a response begins with the correlation
id alone. Once a stream is in step the length leads from frame to frame. It is out of step at a start in the
middle of a connection, behind a gap that swallowed a length, and when a header is impossible; then the next boundary is
searched byte by byte: a request by its header and the header behind it, a response by the correlation id of a waiting
request or by a chain of lengths that ends exactly where a packet ends.
"""

import numpy as np

from kdissect import limits
from kdissect.exchange.state import (
    AT,
    CLIENT_WAY,
    CORRELATION_ID,
    FIRST_WAITING,
    FRAME,
    HEAD,
    LENGTH,
    NEXT,
    NEXT_CHUNK,
    NEXT_WAITING,
    POSITION,
    SCANNED,
    SERVER_PORT_WAY,
    SYNCED,
    Bytes,
    Int64s,
    State,
)
from kdissect.exchange.streams import skip, view
from kdissect.kernel import jit_inner
from kdissect.protocol.integers import int16_at, int32_at, uvarint_at

MAX_FRAME = limits.FRAME_BYTES
RESPONSE_VIEW = 8  # a length and a correlation id
HEADER_VIEW = 270  # a length, a request header and a client id of the usual longest size
SHORTEST_REQUEST = 8  # ControlledShutdown 0 has no client id in its header
SHORTEST_RESPONSE = 4
CONTROLLED_SHUTDOWN = 7
LAST_PLAIN_PRODUCE = 8  # from version 9 on tagged fields come first and lengths are variable
MOST_TAGGED = 4
MOST_ACKS = 16  # before Kafka 0.9 a number of brokers could be asked for
LONGEST_TRANSACTIONAL_ID = 512  # far beyond what clients make up
LONGEST_TOPIC = 249  # org.apache.kafka.common.internals.Topic
LONE_REQUEST = 1 << 17  # bytes: a request up to this size waits for the next one to confirm it
LONE_RESPONSE = 1 << 17  # bytes: so does a response that begins within a packet; larger ones must begin one
LONE_CHAIN = 4  # frames in a row, with ids that count upwards by at most CHAIN_STEP, are no accident
CHAIN_STEP = 16
NEWER_VERSIONS = 2  # a search accepts versions that much newer than the newest known


@jit_inner
def header_evidence(data: Bytes, offset: int, length: int, max_versions: Int64s) -> int:
    """Say how much `length` bytes at an offset look like a length prefix and a request header of a known API.

    0: they cannot be one, or are too few to say; 1: they can; 2: they can, and carry a whole client id in plain ASCII.
    """
    if length < 12:
        return 0
    size = int32_at(data, offset)
    if size < SHORTEST_REQUEST or size > MAX_FRAME:
        return 0
    key = int16_at(data, offset + 4)
    if key < 0 or key >= len(max_versions) or max_versions[key] < 0:
        return 0
    version = int16_at(data, offset + 6)
    if version < 0 or version > max_versions[key] + NEWER_VERSIONS:
        return 0
    if int32_at(data, offset + 8) < 0:
        return 0
    if key == CONTROLLED_SHUTDOWN and version == 0:
        return 1 if size == 12 else 0
    if length < 14:
        return 0
    text = int16_at(data, offset + 12)
    if text < -1 or text > min(size - 10, HEADER_VIEW - 14):
        return 0
    plain = True
    for index in range(min(text, length - 14)):
        if data[offset + 14 + index] < 0x20 or data[offset + 14 + index] == 0x7F:
            return 0
        plain = plain and data[offset + 14 + index] < 0x7F
    if key == 0:
        body = offset + 14 + max(text, 0)
        if not _can_be_produce(data, body, offset + length, offset + 4 + size, version):
            return 0
    return 2 if plain and 0 < text <= length - 14 else 1


@jit_inner
def _is_topic_letter(byte: int) -> bool:
    letter = 0x61 <= byte | 0x20 <= 0x7A
    return letter or 0x30 <= byte <= 0x39 or byte == 0x2D or byte == 0x2E or byte == 0x5F


@jit_inner
def _can_be_produce(data: Bytes, at: int, stop: int, end: int, version: int) -> bool:
    """Say whether a Produce body lies at data[at:end], as far as the bytes before `stop` tell.

    Produce has the key 0 and low versions, so a header of zeros and small numbers reads as one, and other protocols are full
    of those. Its body says more: acks, a time, and topics whose names have letters of their own.
    """
    if version > LAST_PLAIN_PRODUCE:
        if at + 2 > stop:
            return True
        if data[at] != 0:  # tagged fields, of which no client has many
            return bool(data[at] <= MOST_TAGGED)
        size_byte = int(data[at + 1])  # one more than the bytes of the transactional id
        at += 2 + max(size_byte - 1, 0)
        if size_byte > 127:
            return True
    elif version >= 3:
        if at + 2 > stop:
            return True
        transactional_id = int16_at(data, at)
        at += 2 + max(transactional_id, 0)
        if transactional_id < -1 or transactional_id > LONGEST_TRANSACTIONAL_ID:
            return False
    if at + 7 > end:
        return False
    if at + 10 > stop:
        return True
    if abs(int16_at(data, at)) > MOST_ACKS or int32_at(data, at + 2) < 0:
        return False
    topics = int32_at(data, at + 6)
    at += 10
    if version > LAST_PLAIN_PRODUCE:
        return True
    if topics <= 0 or topics > end - at:
        return topics == 0 and at == end
    if at + 2 > stop:
        return True
    size = int16_at(data, at)
    at += 2
    if size < 1 or size > LONGEST_TOPIC or at + size > end:
        return False
    legal = True
    for place in range(at, min(at + size, stop)):
        legal = legal and _is_topic_letter(np.int64(data[place]))
    return legal


@jit_inner
def can_be_request(data: Bytes, offset: int, length: int) -> bool:
    """Say whether a stream that is in step may go on with this header: any API, any version, nothing impossible."""
    key = int16_at(data, offset + 4)
    version = int16_at(data, offset + 6)
    if key < 0 or key > 1000 or version < 0 or version > 100:
        return False
    if length < 14:
        return True
    text = int16_at(data, offset + 12)
    return -1 <= text <= int32_at(data, offset) - 10 or key == CONTROLLED_SHUTDOWN


@jit_inner
def is_tls_record(data: Bytes, offset: int, length: int) -> bool:
    """Say whether bytes look like a TLS record header (RFC 8446, section 5.1): type, version 3.x, length up to 2^14 + 2048."""
    if length < 6:
        return False
    if data[offset] < 20 or data[offset] > 23 or data[offset + 1] != 3 or data[offset + 2] > 4:
        return False
    size = (np.int64(data[offset + 3]) << 8) | np.int64(data[offset + 4])
    if size == 0 or size > (1 << 14) + 2048:
        return False
    return bool(data[offset] != 22 or data[offset + 5] <= 24)


@jit_inner
def tls_is_ready(state: State, way: int) -> bool:
    """Say whether a direction under TLS holds, since it was last looked at, a whole record, a gap, or no record at all."""
    ways = state.ways
    node = ways[way, HEAD]
    if node < 0 or ways[way, NEXT] <= ways[way, SCANNED]:
        return False
    offset, length = view(state, way, ways[way, FRAME], 5)
    if length < 5:
        return bool(state.chunks[node, AT] < 0 or ways[way, NEXT] - ways[way, FRAME] >= 5)
    arena = state.arena
    size = (np.int64(arena[offset + 3]) << 8) | np.int64(arena[offset + 4])
    if arena[offset] < 20 or arena[offset] > 23 or arena[offset + 1] != 3 or size > (1 << 14) + 2048:
        return True
    return bool(ways[way, NEXT] - ways[way, FRAME] >= 5 + size)


@jit_inner
def _request_follows(state: State, way: int, position: int) -> int:
    """Say whether what lies at a position may be the next request: 2 it does, 1 nothing lies there yet, 0 it does not."""
    offset, length = view(state, way, position, HEADER_VIEW)
    if length < 14:
        return 1
    return 2 if header_evidence(state.arena, offset, length, state.max_versions) > 0 else 0


@jit_inner
def _ids_rise(state: State, way: int, position: int, following: int) -> bool:
    """Say whether the header at a position has a lower correlation id than the following one."""
    offset, _ = view(state, way, position, 12)
    first = int32_at(state.arena, offset + 8)
    offset, _ = view(state, way, following, 12)
    return bool(first < int32_at(state.arena, offset + 8))


@jit_inner
def find_request(state: State, connection: int, way: int) -> bool:
    """Search a stream that is out of step for a request header; skip what lies before it and say whether it was found."""
    ways = state.ways
    arena = state.arena
    hinted = state.connections[connection, CLIENT_WAY] >= 0 or (
        way - 2 * connection == state.connections[connection, SERVER_PORT_WAY]
    )
    node = ways[way, HEAD]
    while node >= 0:
        chunks = state.chunks
        if chunks[node, AT] >= 0:
            begin = max(ways[way, FRAME], ways[way, SCANNED], chunks[node, POSITION])
            stop = chunks[node, POSITION] + chunks[node, LENGTH]
            for position in range(begin, stop):
                if arena[chunks[node, AT] + position - chunks[node, POSITION]] > MAX_FRAME >> 24:
                    continue
                offset, length = view(state, way, position, HEADER_VIEW)
                evidence = header_evidence(arena, offset, length, state.max_versions)
                if evidence == 0:
                    continue
                end = position + 4 + int32_at(arena, offset)
                # A Produce header is told by its body: without that it must wait, or begin a packet.
                bare = int16_at(arena, offset + 4) == 0 and length < min(end - position, HEADER_VIEW)
                follows = _request_follows(state, way, end)
                # A header without a client id is weak: zeros look like one. It must be confirmed by its surroundings.
                begins = position == chunks[node, POSITION]
                if bare and follows == 1 and not begins:
                    if position + length < ways[way, NEXT]:
                        continue
                    ways[way, SCANNED] = position
                    return False
                if hinted:
                    confirmed = follows == 2 or (follows == 1 and (evidence == 2 or begins))
                else:
                    # Where no client is expected a response looks like a request by chance: [size, id below 14, count,
                    # topic] is a Produce response and reads as a Produce request. The ids of two requests tell.
                    if evidence == 2 and follows == 1 and end - position <= LONE_REQUEST:
                        ways[way, SCANNED] = position
                        return False
                    confirmed = (
                        evidence == 2 and follows == 2 and begins and _ids_rise(state, way, position, end)
                    )
                if confirmed:
                    skip(state, way, position)
                    ways[way, SYNCED] = 1
                    return True
        node = chunks[node, NEXT_CHUNK]
    ways[way, SCANNED] = ways[way, NEXT] - HEADER_VIEW
    return False


@jit_inner
def find_chain(state: State, way: int) -> bool:
    """Say whether responses begin where a direction does of which the other one was not captured.

    Lengths must lead from the beginning of a packet through LONE_CHAIN frames whose correlation ids count upwards; what
    lies before it is skipped.
    """
    ways = state.ways
    node = ways[way, HEAD]
    while node >= 0:
        chunks = state.chunks
        position = max(ways[way, FRAME], chunks[node, POSITION])
        begin, count, last = position, 0, np.int64(-1)
        while chunks[node, AT] >= 0 and count < LONE_CHAIN:
            offset, length = view(state, way, position, 8)
            if length < 8:
                break
            size, correlation_id = int32_at(state.arena, offset), int32_at(state.arena, offset + 4)
            if size < SHORTEST_RESPONSE or size > MAX_FRAME or correlation_id < 0:
                break
            if count > 0 and not 0 < correlation_id - last <= CHAIN_STEP:
                break
            position, last, count = position + 4 + size, correlation_id, count + 1
        if count == LONE_CHAIN:
            skip(state, way, begin)
            ways[way, SYNCED] = 1
            return True
        node = chunks[node, NEXT_CHUNK]
    return False


@jit_inner
def _is_waiting(state: State, connection: int, correlation_id: int) -> bool:
    node = state.connections[connection, FIRST_WAITING]
    while node >= 0:
        if state.waiting[node, CORRELATION_ID] == correlation_id:
            return True
        node = state.waiting[node, NEXT_WAITING]
    return False


@jit_inner
def _response_may_follow(state: State, way: int, position: int, correlation_id: int) -> bool:
    """Say whether what lies at a position, if anything does yet, may be a response with another id."""
    offset, length = view(state, way, position, 8)
    if length < 8:
        return True
    size = int32_at(state.arena, offset)
    following = int32_at(state.arena, offset + 4)
    return bool(SHORTEST_RESPONSE <= size <= MAX_FRAME and following >= 0 and following != correlation_id)


@jit_inner
def _chain_ends_with_chunk(state: State, way: int, position: int, stop: int) -> bool:
    """Say whether lengths lead from a position exactly to where a packet's payload ends."""
    while position < stop:
        offset, length = view(state, way, position, 8)
        if length < 8:
            return False
        size = int32_at(state.arena, offset)
        if size < SHORTEST_RESPONSE or size > MAX_FRAME or int32_at(state.arena, offset + 4) < 0:
            return False
        position += 4 + size
    return position == stop


@jit_inner
def find_response(state: State, connection: int, way: int) -> bool:
    """Search a stream that is out of step for a response; skip what lies before it and say whether it was found."""
    ways = state.ways
    arena = state.arena
    node = ways[way, HEAD]
    pending = ways[way, NEXT]
    while node >= 0:
        chunks = state.chunks
        if chunks[node, AT] >= 0:
            begin = max(ways[way, FRAME], ways[way, SCANNED], chunks[node, POSITION])
            stop = chunks[node, POSITION] + chunks[node, LENGTH]
            for position in range(begin, stop):
                if arena[chunks[node, AT] + position - chunks[node, POSITION]] > MAX_FRAME >> 24:
                    continue
                offset, length = view(state, way, position, 8)
                if length < 8:
                    continue
                size = int32_at(arena, offset)
                if size < SHORTEST_RESPONSE or size > MAX_FRAME:
                    continue
                begins = position == chunks[node, POSITION]
                correlation_id = int32_at(arena, offset + 4)
                known = (begins or size <= LONE_RESPONSE) and _is_waiting(state, connection, correlation_id)
                end = position + 4 + size
                if known:
                    known = _response_may_follow(state, way, end, correlation_id)
                if known and not begins and ways[way, NEXT] < end + 8 and ways[way, NEXT] != end:
                    # Small ids stand everywhere: within a packet one must be confirmed by what comes behind its frame.
                    pending = min(pending, position)
                elif known or (begins and _chain_ends_with_chunk(state, way, position, stop)):
                    skip(state, way, position)
                    ways[way, SYNCED] = 1
                    return True
        node = chunks[node, NEXT_CHUNK]
    ways[way, SCANNED] = min(pending, ways[way, NEXT] - RESPONSE_VIEW)
    return False


@jit_inner
def produce_acks(data: Bytes, start: int, stop: int, version: int) -> int:
    """Read the acks field of a Produce request (frame body at start..stop); 1 when the bytes end before it.

    acks stands first in versions 0-2; from 3 on the nullable transactional id comes before it, compact from 9 on, where
    the tagged fields of the header (KIP-482) come first of all.
    """
    at = start + 8
    if at + 2 > stop:
        return 1
    at += 2 + max(0, int16_at(data, at))
    if version >= 9:
        fields, at = uvarint_at(data, at, stop)
        while fields > 0 and at >= 0:
            _, at = uvarint_at(data, at, stop)
            size, at = uvarint_at(data, at, stop) if at >= 0 else (0, at)
            at = at + size if at >= 0 else at
            fields -= 1
        size, at = uvarint_at(data, at, stop) if at >= 0 else (0, at)
        at = at + max(0, size - 1) if at >= 0 else stop
    elif version >= 3:
        if at + 2 > stop:
            return 1
        at += 2 + max(0, int16_at(data, at))
    return int16_at(data, at) if at + 2 <= stop else 1
