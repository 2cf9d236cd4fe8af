"""Search for a request at a place of a stream that is out of step.

A header that looks right is not enough: what stands behind its frame must confirm it, or the packet it lies
in. How much is asked for depends on what is known of the connection: less where the client is known, more
where a request is not expected, because responses look like requests by chance.

A response alone begins as a request does if its id is `key << 16 | version`. One id in 17,600 below 6 million
is like that, none above. Up to three such responses in a row, with nothing else of either
direction, are taken for requests: five of six if the server has the higher port, one in sixteen otherwise.
Four are told by their lengths and ids.
"""

from kdissect.jit.decorators import jit_inner
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.integers import int16_at, int32_at
from kdissect.streams.chunks import view_from
from kdissect.streams.flow_state import (
    ENDING_CERTAIN,
    ENDING_LIKELY,
    NOT_ENDING,
    UNDECIDED,
    DirectionRow,
    State,
)
from kdissect.streams.request_header import (
    CORRELATION_AT,
    FAINT,
    HEADER_VIEW,
    KEY_AT,
    LARGEST_WITHOUT_RECORDS,
    LENGTH_BYTES,
    MAYBE,
    NO,
    NOTHING,
    PLAIN_BODY,
    PLAIN_ID,
    SHORTEST_SURE,
    UNSURE,
    WEAK,
    YES,
    header_evidence,
)

LONE_REQUEST = 1 << 17  # bytes: a request up to this size waits for the next one to confirm it
CHAIN_STEP = 16  # frames in a row have ids that count upwards by at most so much
ANY_STEP = 1 << 31


@jit_inner
def _request_follows(state: State, direction: int, node: int, position: int) -> int:
    """Return whether the bytes at a position, in this chunk or behind it, may be the next request.

    YES, NO, or UNSURE if too little is there.
    """
    if position >= state.directions[direction].next:
        return UNSURE
    offset, length = view_from(state, node, position, HEADER_VIEW)
    if length < SHORTEST_SURE:
        return UNSURE
    evidence = header_evidence(state.arena, offset, length, state.max_versions)
    return YES if evidence > FAINT else (UNSURE if evidence == FAINT else NO)


@jit_inner
def is_cut(state: State, node: int) -> bool:
    """Return whether the capture cut off what followed this chunk in its packet."""
    cut = state.chunks[node].next
    return cut >= 0 and state.chunks[cut].offset < 0 and state.chunks[cut].packet == state.chunks[node].packet


@jit_inner
def _ids_rise(state: State, node: int, position: int, following: int, by: int = ANY_STEP) -> bool:
    """Return whether the id at a position in this chunk is lower than the next one, by at most `by`."""
    offset, _ = view_from(state, node, position, CORRELATION_AT + 4)
    first = int32_at(state.arena, offset + CORRELATION_AT)
    offset, _ = view_from(state, node, following, CORRELATION_AT + 4)
    return bool(0 < int32_at(state.arena, offset + CORRELATION_AT) - first <= by)


@jit_inner
def is_request(state: State, connection: int, direction: int, node: int, position: int) -> int:
    """Return whether a request begins at a position, in this chunk, of a stream that is out of step.

    NO and YES are certain. UNSURE: the next bytes will show it. MAYBE: bytes behind its frame will show it,
    at most LONE_REQUEST further on.
    """
    row = state.directions[direction]
    ending = state.connections[connection].ending
    offset, length = view_from(state, node, position, SHORTEST_SURE)
    evidence = header_evidence(state.arena, offset, length, state.max_versions)
    if evidence != NOTHING:
        offset, length = view_from(state, node, position, HEADER_VIEW)
        evidence = header_evidence(state.arena, offset, length, state.max_versions)
    if evidence == NOTHING:
        cut_off = ending != NOT_ENDING or length >= SHORTEST_SURE or position + length < row.next
        return NO if cut_off else UNSURE
    end = position + LENGTH_BYTES + int32_at(state.arena, offset)
    produces = int16_at(state.arena, offset + KEY_AT) == ApiKey.PRODUCE
    bare = produces and length < min(end - position, HEADER_VIEW)
    follows = _request_follows(state, direction, node, end)
    if follows == NO:
        return NO
    known = state.connections[connection].client_side >= 0
    begins = position == state.chunks[node].position and state.chunks[node].length >= SHORTEST_SURE
    to_come = ending == NOT_ENDING and row.next < end + SHORTEST_SURE
    # The body of a Produce confirms its header. A header without its body must wait, or begin a packet. One
    # with faint evidence must also be cut off there.
    complete = begins and (evidence > FAINT or is_cut(state, node))
    if (bare and follows == UNSURE and not complete) or (evidence == FAINT and not known):
        return UNSURE if to_come and position + length == row.next else NO
    if to_come:
        to_come = end - position <= LONE_REQUEST
    if row.foreign and state.connections[connection].protocol == UNDECIDED:
        return _is_request_behind_greeting(state, node, position, end, evidence, follows, to_come)
    usual = produces and evidence == PLAIN_BODY and end - position <= LARGEST_WITHOUT_RECORDS
    there = usual or row.next >= end
    if known:
        return _is_request_of_client(row, end, evidence, follows, begins, to_come)
    if direction - 2 * connection == state.connections[connection].likely_client_side:
        if follows == YES:
            # Two requests without client ids, as zeros are, must have ids that count upwards.
            in_order = ending != ENDING_CERTAIN and _ids_rise(state, node, position, end, CHAIN_STEP)
            return YES if evidence >= PLAIN_ID or in_order else NO
        if evidence >= PLAIN_ID and there:
            return YES
        if to_come or ending == ENDING_CERTAIN:
            return MAYBE if to_come else NO
        return YES if (begins and there) or end == row.next else NO
    return _is_unexpected_request(
        state, node, position, end, evidence, follows, begins, there, to_come, ending
    )


@jit_inner
def _is_request_behind_greeting(
    state: State, node: int, position: int, end: int, evidence: int, follows: int, to_come: bool
) -> int:
    """Return whether a request begins in a direction whose first bytes were none.

    Behind a proxy's greeting Kafka may follow. In the data of another protocol anything does, so one request
    is not enough.
    """
    if evidence < PLAIN_ID:
        return NO
    if follows == YES:
        return YES if _ids_rise(state, node, position, end, CHAIN_STEP) else NO
    return MAYBE if to_come else NO


@jit_inner
def _is_request_of_client(
    row: DirectionRow, end: int, evidence: int, follows: int, begins: bool, to_come: bool
) -> int:
    """Return whether a request begins in the direction of the known client.

    A header without a client id is weak evidence, since zeros look like one. Its surroundings must confirm
    it.
    """
    if follows == YES or evidence >= PLAIN_ID or begins:
        return YES
    return MAYBE if to_come else (YES if end == row.next else NO)


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
    """Return whether a request begins where no client is expected; the verdicts are those of `is_request`.

    A response looks like a request by chance: [size, id below 14, count, topic] is a Produce response and
    reads as a Produce request. The ids of two requests show the difference, or the body of one.
    """
    if follows == YES:
        if not begins or evidence < (WEAK if ending == ENDING_LIKELY else PLAIN_ID):
            return NO
        return YES if _ids_rise(state, node, position, end) else NO
    if to_come:
        return MAYBE if evidence >= PLAIN_ID else NO
    return YES if begins and there and evidence == PLAIN_BODY else NO
