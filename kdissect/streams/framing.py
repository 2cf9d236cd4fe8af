"""Frames in a byte stream.

What a Kafka header must look like, and how to find the next one when the place is lost.

A frame is an int32 length and that many bytes. A request begins with API key, API version (int16 each),
correlation id (int32) and client id (int16 length and text, also in header version 2: KIP-482); a response
begins with the correlation id alone. Once a stream is in step the length leads from frame to frame. It is out
of step at a start in the middle of a connection, behind a gap that swallowed a length, and when a header is
impossible; then the next boundary is searched byte by byte: a request by its header and the header behind it,
a response by the correlation id of a waiting request or by a chain of lengths that ends exactly where a
packet ends.

A search looks at every byte once. Only what is doubtful is kept, from the first such place on (`SCANNED`),
until something certain is found behind it (`SEEN`) or enough has come to say: at most LONE_REQUEST or
LONE_RESPONSE.

A response alone may begin as a request does: if its id is `key << 16 | version`. Of the ids below 6 million
one in 17,600 is like that, none above. Up to three such responses in a row, with nothing else of either
direction, are taken for requests: five of six if the server has the higher port, one in sixteen otherwise.
Four are told by their lengths and ids.
"""

import numpy as np

from kdissect import limits
from kdissect.jit.decorators import jit_inner
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.integers import int16_at, int32_at, uvarint_at
from kdissect.streams.flow_state import (
    UNDECIDED,
    Bytes,
    Int64s,
    SearchMark,
    State,
)
from kdissect.streams.reassembly import (
    skip,
    view_from,
)

MAX_FRAME = limits.FRAME_BYTES
NO, UNSURE, MAYBE, YES = range(4)  # UNSURE: the next bytes will tell; MAYBE: others may, some time
FAINT, WEAK, PLAIN_ID, PLAIN_BODY = range(1, 5)  # what a header says: see `header_evidence`

RESPONSE_VIEW = 8  # a length and a correlation id
HEADER_VIEW = 270  # a length, a request header and a client id of the usual longest size
SHORTEST_SURE = 14  # a length and a request header without client id
SHORTEST_REQUEST = 8  # ControlledShutdown 0 has no client id in its header
SHORTEST_RESPONSE = 4
FIRST_OF_SASL = -1  # id with which Java clients of 0.10 to 2.2 begin to authenticate; all others begin with 0
LAST_PLAIN_PRODUCE = 8  # from version 9 on tagged fields come first and lengths are variable
MOST_TAGGED = 4
MOST_ACKS = 16  # before Kafka 0.9 a number of brokers could be asked for
LONGEST_TRANSACTIONAL_ID = 512  # far beyond what clients make up
LONGEST_TOPIC = 249  # org.apache.kafka.common.internals.Topic
LARGEST_WITHOUT_RECORDS = 1 << 24  # bytes: no other request than a Produce comes near
LONE_REQUEST = 1 << 17  # bytes: a request up to this size waits for the next one to confirm it
LONE_RESPONSE = 1 << 17  # bytes: so does a response that begins within a packet; larger ones must begin one
MAX_HELD = 1 << 18  # bytes of a direction that are kept until the other one tells more about them
EARLY_NS = 50_000_000  # a response captured more than 50 ms before its request is not its response
LONGEST_VERSIONS = 1 << 14  # of ApiVersions, whose response is full of what looks like a length and an id
LONE_CHAIN = 4  # frames in a row, with ids that count upwards by at most CHAIN_STEP, are no accident
CHAIN_STEP = 16
FAR_STEP = 1 << 16  # between ids of one connection: clients have one count for all of theirs
CHAIN_CHUNKS = 1 << 10  # lengths are followed so far, whatever the sizes of its packets
LAST_NAMED_PRODUCE = 12  # from version 13 on topics have ids
NEWER_VERSIONS = 2  # a search accepts versions that much newer than the newest known


@jit_inner
def header_evidence(data: Bytes, offset: int, length: int, max_versions: Int64s) -> int:
    """Return how much `length` bytes at an offset look like a length and a request header of a known API.

    0: they cannot be one, or are too few to say; FAINT: a Produce, as zeros are, and its body is not to be
    seen; WEAK: they can be one; PLAIN_ID: and have a whole client id in plain ASCII; PLAIN_BODY: and a
    Produce has its body, too.
    """
    if length < 12:
        return 0
    size = int32_at(data, offset)
    if size < SHORTEST_REQUEST or size > MAX_FRAME:
        return 0
    key = int16_at(data, offset + 4)
    if key < 0 or key >= len(max_versions) or max_versions[key] < 0:
        return 0
    if size > LARGEST_WITHOUT_RECORDS and key != ApiKey.PRODUCE:
        return 0
    version = int16_at(data, offset + 6)
    if version < 0 or version > max_versions[key] + NEWER_VERSIONS:
        return 0
    correlation_id = int32_at(data, offset + 8)
    if correlation_id < 0 and not (
        correlation_id == FIRST_OF_SASL and (key == ApiKey.SASL_HANDSHAKE or key == ApiKey.API_VERSIONS)
    ):
        return 0
    if key == ApiKey.CONTROLLED_SHUTDOWN and version == 0:
        return WEAK if size == 12 else 0
    if length < 14:
        return 0
    text = int16_at(data, offset + 12)
    if text < -1 or text > min(size - 10, HEADER_VIEW - 14):
        return 0
    plain = True
    for index in range(min(text, length - 14)):
        letter = data[offset + 14 + index]
        if letter == 0:
            # Of all that a client may call itself, this is never seen, and elsewhere it ends every string.
            return 0
        plain = plain and 0x20 <= letter < 0x7F
    body = YES
    if key == ApiKey.PRODUCE:
        at = offset + 14 + max(text, 0)
        body = _produce_begins(data, at, offset + length, offset + 4 + size, version)
        if body == NO:
            return 0
    if not plain or not 0 < text <= length - 14:
        return WEAK if body == YES else FAINT
    return PLAIN_BODY if body == YES else PLAIN_ID


@jit_inner
def _is_topic_letter(byte: int) -> bool:
    letter = 0x61 <= byte | 0x20 <= 0x7A
    return letter or 0x30 <= byte <= 0x39 or byte == 0x2D or byte == 0x2E or byte == 0x5F


@jit_inner
def _produce_begins(data: Bytes, at: int, stop: int, end: int, version: int) -> int:
    """Return whether a Produce body lies at data[at:end]; UNSURE: the bytes before `stop` are too few.

    Produce has the key 0 and low versions, so a header of zeros and small numbers reads as one, and other
    protocols are full of those. Its body says more: acks, a time, and topics whose names have letters of
    their own.
    """
    if version > LAST_PLAIN_PRODUCE:
        if at + 2 > stop:
            return UNSURE
        if data[at] != 0:  # tagged fields, of which no client has many
            return UNSURE if data[at] <= MOST_TAGGED else NO
        size_byte = int(data[at + 1])  # one more than the bytes of the transactional id
        at += 2 + max(size_byte - 1, 0)
        if size_byte > 127:
            return UNSURE
    elif version >= 3:
        if at + 2 > stop:
            return UNSURE
        transactional_id = int16_at(data, at)
        at += 2 + max(transactional_id, 0)
        if transactional_id < -1 or transactional_id > LONGEST_TRANSACTIONAL_ID:
            return NO
    if at + 7 > end:
        return NO
    if at + 10 > stop:
        return UNSURE
    if abs(int16_at(data, at)) > MOST_ACKS or int32_at(data, at + 2) < 0:
        return NO
    if version > LAST_PLAIN_PRODUCE:
        topics = int(data[at + 6])  # one more than there are, if it is below 128
        if topics <= 1 or version > LAST_NAMED_PRODUCE:
            return YES if topics > 1 or (topics == 1 and at + 8 == end) else NO
        size, at = uvarint_at(data, at + 7, stop) if topics <= 127 else (-1, -1)
        if at < 0:
            return UNSURE
        size -= 1
    else:
        topics = int32_at(data, at + 6)
        at += 10
        if topics <= 0 or topics > end - at:
            return YES if topics == 0 and at == end else NO
        if at + 2 > stop:
            return UNSURE
        size = int16_at(data, at)
        at += 2
    if size < 1 or size > LONGEST_TOPIC or at + size > end:
        return NO
    for place in range(at, min(at + size, stop)):
        if not _is_topic_letter(np.int64(data[place])):
            return NO
    return YES


@jit_inner
def can_be_request(data: Bytes, offset: int, length: int) -> bool:
    """Return whether a stream that is in step may go on with this header.

    Any API, any version, nothing impossible.
    """
    key = int16_at(data, offset + 4)
    version = int16_at(data, offset + 6)
    if key < 0 or key > 1000 or version < 0 or version > 100:
        return False
    if length < 14:
        return True
    text = int16_at(data, offset + 12)
    return -1 <= text <= int32_at(data, offset) - 10 or key == ApiKey.CONTROLLED_SHUTDOWN


@jit_inner
def search_from(state: State, direction: int, mark: SearchMark) -> int:
    """Return the node of the chunk in which a search goes on from a mark, -1 when there is nothing new."""
    chunks = state.chunks
    node = mark.chunk
    if node < 0 or chunks[node].position > mark.position:
        node = state.directions[direction].head
    while node >= 0 and chunks[node].position + chunks[node].length <= mark.position:
        mark.chunk = node
        node = chunks[node].next
    return node


@jit_inner
def search_anew(state: State, direction: int) -> None:
    """Forget what a search has found out: from now on something else is looked for, or by other rules."""
    row = state.directions[direction]
    row.scanned.position = row.doubtful.position = row.frame
    row.scanned.chunk = row.doubtful.chunk = -1


@jit_inner
def _found(state: State, direction: int, position: int) -> bool:
    skip(state, direction, position)
    state.directions[direction].in_step = 1
    return True


@jit_inner
def _request_follows(state: State, direction: int, node: int, position: int) -> int:
    """Return whether what lies at a position, behind this chunk, may be the next request.

    YES, NO, or UNSURE as nothing is there.
    """
    if position >= state.directions[direction].next:
        return UNSURE
    offset, length = view_from(state, node, position, HEADER_VIEW)
    if length < SHORTEST_SURE:
        return UNSURE
    evidence = header_evidence(state.arena, offset, length, state.max_versions)
    return YES if evidence > FAINT else (UNSURE if evidence == FAINT else NO)


@jit_inner
def _is_cut(state: State, node: int) -> bool:
    """Return whether the capture cut off what followed this chunk in its packet."""
    cut = state.chunks[node].next
    return cut >= 0 and state.chunks[cut].offset < 0 and state.chunks[cut].packet == state.chunks[node].packet


@jit_inner
def _ids_rise(state: State, node: int, position: int, following: int, by: int = 1 << 31) -> bool:
    """Return whether the id at a position in this chunk is lower than the next one, by at most `by`."""
    offset, _ = view_from(state, node, position, 12)
    first = int32_at(state.arena, offset + 8)
    offset, _ = view_from(state, node, following, 12)
    return bool(0 < int32_at(state.arena, offset + 8) - first <= by)


@jit_inner
def _is_request(state: State, connection: int, direction: int, node: int, position: int) -> int:
    """Return whether a request begins at a position, in this chunk, of a stream that is out of step.

    MAYBE: it will tell what comes behind it, within LONE_REQUEST.
    """
    row = state.directions[direction]
    ending = state.connections[connection].ending
    offset, length = view_from(state, node, position, SHORTEST_SURE)
    evidence = header_evidence(state.arena, offset, length, state.max_versions)
    if evidence > 0:
        offset, length = view_from(state, node, position, HEADER_VIEW)
        evidence = header_evidence(state.arena, offset, length, state.max_versions)
    if evidence == 0:
        cut_off = ending != 0 or length >= SHORTEST_SURE or position + length < row.next
        return NO if cut_off else UNSURE
    end = position + 4 + int32_at(state.arena, offset)
    produces = int16_at(state.arena, offset + 4) == ApiKey.PRODUCE
    bare = produces and length < min(end - position, HEADER_VIEW)
    follows = _request_follows(state, direction, node, end)
    if follows == NO:
        return NO
    known = state.connections[connection].client_side >= 0
    begins = position == state.chunks[node].position and state.chunks[node].length >= SHORTEST_SURE
    to_come = ending == 0 and row.next < end + SHORTEST_SURE
    # A Produce header is told by its body: without that it must wait, or begin a packet; a faint one must be
    # cut off there.
    whole = begins and (evidence > FAINT or _is_cut(state, node))
    if (bare and follows == UNSURE and not whole) or (evidence == FAINT and not known):
        return UNSURE if to_come and position + length == row.next else NO
    if to_come:
        to_come = end - position <= LONE_REQUEST
    if row.foreign and state.connections[connection].protocol == UNDECIDED:
        # Behind a proxy's greeting Kafka may follow; in the data of another protocol anything does, so one is
        # not enough.
        if evidence < PLAIN_ID:
            return NO
        if follows == YES:
            return YES if _ids_rise(state, node, position, end, CHAIN_STEP) else NO
        return MAYBE if to_come else NO
    usual = produces and evidence == PLAIN_BODY and end - position <= LARGEST_WITHOUT_RECORDS
    there = usual or row.next >= end
    # Without a client id it is weak, zeros look like one: then it must be confirmed by its surroundings.
    if known:
        if follows == YES or evidence >= PLAIN_ID or begins:
            return YES
        return MAYBE if to_come else (YES if end == row.next else NO)
    if direction - 2 * connection == state.connections[connection].likely_client_side:
        if follows == YES:
            # Two without client ids, as zeros are, must come one after the other.
            in_order = ending != 1 and _ids_rise(state, node, position, end, CHAIN_STEP)
            return YES if evidence >= PLAIN_ID or in_order else NO
        if evidence >= PLAIN_ID and there:
            return YES
        if to_come or ending == 1:
            return MAYBE if to_come else NO
        return YES if (begins and there) or end == row.next else NO
    return _is_unexpected_request(
        state, node, position, end, evidence, follows, begins, there, to_come, ending
    )


@jit_inner
def _is_unexpected_request(
    state: State,
    node: int,
    position: int,
    end: int,
    evidence: int,
    follows: int,
    begins: bool,
    there: bool,
    to_come: bool,
    ending: int,
) -> int:
    """Return whether a request begins where no client is expected; the values are those of `_is_request`.

    A response looks like a request by chance: [size, id below 14, count, topic] is a Produce response and
    reads as a Produce request. The ids of two requests tell, or the body of one.
    """
    if follows == YES:
        if not begins or evidence < (WEAK if ending == 2 else PLAIN_ID):
            return NO
        return YES if _ids_rise(state, node, position, end) else NO
    if to_come:
        return MAYBE if evidence >= PLAIN_ID else NO
    return YES if begins and there and evidence == PLAIN_BODY else NO


@jit_inner
def _chain_begins(state: State, node: int, position: int) -> bool:
    """Return whether LONE_CHAIN frames begin at a position in this chunk, with ids that count upwards."""
    count, last = 0, -1
    chunks = state.chunks
    for _ in range(CHAIN_CHUNKS):
        if chunks[node].position + chunks[node].length <= position:
            node = chunks[node].next
            if node < 0:
                return False
            continue
        offset, length = view_from(state, node, position, RESPONSE_VIEW)
        if length < RESPONSE_VIEW:
            return False
        size, correlation_id = int32_at(state.arena, offset), int32_at(state.arena, offset + 4)
        if size < SHORTEST_RESPONSE or size > MAX_FRAME or correlation_id < 0:
            return False
        if count > 0 and not 0 < correlation_id - last <= CHAIN_STEP:
            return False
        position, last, count = position + 4 + size, correlation_id, count + 1
        if count == LONE_CHAIN:
            return True
    return False


@jit_inner
def find_chain(state: State, direction: int) -> bool:
    """Return whether responses begin where a direction does of which the other one was not captured.

    A chain of them must begin where a packet does; what lies before it is skipped.
    """
    row = state.directions[direction]
    node = row.head
    while node >= 0:
        chunks = state.chunks
        position = max(row.frame, chunks[node].position)
        if (
            chunks[node].offset >= 0
            and chunks[node].length >= RESPONSE_VIEW
            and _chain_begins(state, node, position)
        ):
            return _found(state, direction, position)
        node = chunks[node].next
    return False


@jit_inner
def waiting_request(state: State, connection: int, correlation_id: int) -> int:
    """Return the node of the request that waits for a response with this id, -1 if none does."""
    node = state.connections[connection].first_waiting
    while node >= 0 and state.waiting[node].correlation_id != correlation_id:
        node = state.waiting[node].next
    return node


@jit_inner
def _awaits(state: State, connection: int, correlation_id: int, size: int) -> bool:
    """Return whether a request waits for a response with this id, and that may have this size."""
    node = waiting_request(state, connection, correlation_id)
    return node >= 0 and (size <= LONGEST_VERSIONS or state.waiting[node].api_key != ApiKey.API_VERSIONS)


@jit_inner
def _ends_with_packet(state: State, node: int, position: int) -> bool:
    """Return whether lengths lead from a position in this chunk exactly to the end of its packet."""
    chunks = state.chunks
    stop = chunks[node].position + chunks[node].length
    if _is_cut(state, node):
        stop += chunks[chunks[node].next].length
    while position < stop:
        offset, length = view_from(state, node, position, RESPONSE_VIEW)
        if length < RESPONSE_VIEW:
            return False
        size = int32_at(state.arena, offset)
        if size < SHORTEST_RESPONSE or size > MAX_FRAME or int32_at(state.arena, offset + 4) < 0:
            return False
        position += 4 + size
    return position == stop


@jit_inner
def _response_follows(
    state: State,
    connection: int,
    direction: int,
    node: int,
    position: int,
    correlation_id: int,
    sure: bool,
    begins: bool,
) -> bool:
    """Return whether what lies at a position behind this chunk may be the response after this id.

    Its id must be one that is waited for, or not far away; with `sure` close above, and its size small or all
    there. Where nothing is there, yet or any more, a packet must end, unless one `begins` with the response
    before.
    """
    row = state.directions[direction]
    offset, length = view_from(state, node, position, RESPONSE_VIEW)
    if length < RESPONSE_VIEW:
        return begins or position == row.next or _ends_a_packet(state, node, position)
    size = int32_at(state.arena, offset)
    following = int32_at(state.arena, offset + 4)
    if size < SHORTEST_RESPONSE or size > MAX_FRAME or following < 0 or following == correlation_id:
        return False
    if sure and size > LONE_RESPONSE and row.next < position + 4 + size:
        return False
    step = following - correlation_id
    close = 0 < step <= CHAIN_STEP if sure else abs(step) <= FAR_STEP
    return bool(close or waiting_request(state, connection, following) >= 0)


@jit_inner
def _ends_a_packet(state: State, node: int, position: int) -> bool:
    """Return whether a packet ends at a position: that of this chunk, or of one soon behind it."""
    chunks = state.chunks
    for _ in range(CHAIN_CHUNKS):
        if node < 0:
            return False
        end = chunks[node].position + chunks[node].length
        if end >= position:
            return bool(end == position and (chunks[node].offset >= 0 or chunks[node].packet >= 0))
        node = chunks[node].next
    return False


@jit_inner
def _has_hole(state: State, node: int, position: int) -> bool:
    """Return whether bytes were lost between this chunk and a position."""
    chunks = state.chunks
    for _ in range(CHAIN_CHUNKS):
        if node < 0 or chunks[node].position >= position:
            return False
        if chunks[node].offset < 0 and chunks[node].packet < 0:
            return True
        node = chunks[node].next
    return False


@jit_inner
def _is_response(state: State, connection: int, direction: int, node: int, position: int) -> int:
    """Return whether a response begins at a position, in this chunk, of a stream that is out of step.

    As in `_is_request`.
    """
    row = state.directions[direction]
    ending = state.connections[connection].ending != 0
    offset, length = view_from(state, node, position, RESPONSE_VIEW)
    if length < RESPONSE_VIEW:
        return NO if ending or position + length < row.next else UNSURE
    size = int32_at(state.arena, offset)
    correlation_id = int32_at(state.arena, offset + 4)
    if size < SHORTEST_RESPONSE or size > MAX_FRAME or correlation_id < 0:
        return NO
    begins = position == state.chunks[node].position and state.chunks[node].length >= RESPONSE_VIEW
    end = position + 4 + size
    if (begins or size <= LONE_RESPONSE) and _awaits(state, connection, correlation_id, size):
        # Small ids stand everywhere: what comes behind its frame must confirm one within a packet, or before
        # a hole.
        beyond = row.ahead >= 0 and row.next < end
        likely = begins and not beyond and not _has_hole(state, node, end)
        if not likely and row.next < end + RESPONSE_VIEW and row.next != end:
            if ending:
                return YES if row.next > end else NO
            return MAYBE
        if _response_follows(state, connection, direction, node, end, correlation_id, not likely, begins):
            return YES
    if not begins:
        return NO
    return YES if _ends_with_packet(state, node, position) or _chain_begins(state, node, position) else NO


@jit_inner
def _is_early(state: State, connection: int, direction: int, node: int) -> bool:
    """Return whether the request of a response in this chunk may be captured later than that."""
    row = state.directions[direction]
    age = row.clock_ns - state.chunks[node].time_ns
    held = row.next - row.frame
    return bool(0 <= age <= EARLY_NS and held <= MAX_HELD and state.connections[connection].ending == 0)


@jit_inner
def _look_on(
    state: State, connection: int, direction: int, requests: bool, mark: SearchMark, limit: int
) -> int:
    """Look on from a mark for something that may be a frame, and set the mark there, or to the limit.

    Return the verdict.
    """
    row = state.directions[direction]
    arena = state.arena
    node = search_from(state, direction, mark)
    while node >= 0 and state.chunks[node].position < limit:
        chunks = state.chunks
        is_new = chunks[node].position >= row.doubtful.position
        if not requests and is_new and _is_early(state, connection, direction, node):
            mark.position = max(mark.position, row.frame, chunks[node].position)
            return NO
        if chunks[node].offset >= 0:
            begin = max(row.frame, mark.position, chunks[node].position)
            for position in range(begin, min(limit, chunks[node].position + chunks[node].length)):
                if arena[chunks[node].offset + position - chunks[node].position] > MAX_FRAME >> 24:
                    continue
                if requests:
                    verdict = _is_request(state, connection, direction, node, position)
                else:
                    verdict = _is_response(state, connection, direction, node, position)
                if verdict != NO:
                    mark.position = position
                    return verdict
        mark.chunk = node
        node = chunks[node].next
    mark.position = max(mark.position, limit)
    return NO


@jit_inner
def _search(state: State, connection: int, direction: int, requests: bool) -> bool:
    """Search a stream that is out of step; skip what lies before the next frame and say whether it was found.

    Of what is doubtful the first one is looked at again when more has come, until it is no longer doubtful.
    """
    row = state.directions[direction]
    doubtful = False
    if row.doubtful.position > max(row.scanned.position, row.frame):
        verdict = _look_on(
            state,
            connection,
            direction,
            requests,
            row.scanned,
            row.doubtful.position,
        )
        if verdict == YES:
            return _found(state, direction, row.scanned.position)
        doubtful = verdict != NO
    row.doubtful.position = max(row.doubtful.position, row.scanned.position)
    verdict = MAYBE
    while verdict == MAYBE:
        verdict = _look_on(state, connection, direction, requests, row.doubtful, row.next)
        if verdict == YES:
            return _found(state, direction, row.doubtful.position)
        if not doubtful:
            row.scanned.position = row.doubtful.position
            row.scanned.chunk = row.doubtful.chunk
        if verdict == MAYBE:
            doubtful = True
            row.doubtful.position += 1
    return False


@jit_inner
def find_request(state: State, connection: int, direction: int) -> bool:
    """Search a stream that is out of step for a request.

    Skip what lies before it and say whether it was found.
    """
    return _search(state, connection, direction, True)


@jit_inner
def find_response(state: State, connection: int, direction: int) -> bool:
    """Search a stream that is out of step for a response.

    Skip what lies before it and say whether it was found.
    """
    return _search(state, connection, direction, False)


@jit_inner
def produce_acks(data: Bytes, start: int, stop: int, version: int) -> int:
    """Read the acks field of a Produce request (frame body at start..stop); 1 when the bytes end before it.

    acks stands first in versions 0-2; from 3 on the nullable transactional id comes before it, compact from 9
    on, where the tagged fields of the header (KIP-482) come first of all.
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
