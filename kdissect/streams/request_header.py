"""Form of the bytes of a request header, and its strength as evidence.

A request begins with an int32 length, API key and API version (int16 each), correlation id (int32) and client
id (int16 length and text, also in header version 2: KIP-482). `header_evidence` judges such bytes without any
context, for a search. `can_be_request` is generous: a stream that is in step goes on unless its next header
is impossible. `produce_acks` reads the one field of a body that pairing needs.

Produce has the key 0 and low versions, so zeros and small numbers read as its header. Therefore its body is
looked at, too.
"""

import numpy as np

from kdissect import limits
from kdissect.array_types import Bytes, Int64s
from kdissect.jit.decorators import jit_inner
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.integers import int16_at, int32_at, uvarint_at

MAX_FRAME = limits.FRAME_BYTES
NO, UNSURE, MAYBE, YES = range(4)  # UNSURE: the next bytes will show it; MAYBE: others may, some time
NOTHING, FAINT, WEAK, PLAIN_ID, PLAIN_BODY = range(5)  # how much a header says: see `header_evidence`

LENGTH_BYTES = 4
# Offsets of the fields of a request, from its length on.
KEY_AT, VERSION_AT, CORRELATION_AT, CLIENT_SIZE_AT, CLIENT_AT = 4, 6, 8, 12, 14
LEAST_OF_A_CLIENT_ID = 12  # bytes that tell who it is, if the capture cut the others
HEADER_VIEW = 270  # bytes: a length, a request header and a client id of the usual longest size
LONGEST_IN_VIEW = HEADER_VIEW - CLIENT_AT  # of a longer client id the first bytes are judged
SHORTEST_SURE = CLIENT_AT  # bytes: a length and a request header without client id
SHORTEST_REQUEST = 8  # bytes: ControlledShutdown 0 has no client id in its header
CONTROLLED_SHUTDOWN_0_BYTES = 12  # its header without client id, and the id of a broker
HIGHEST_VERSION = 100  # far beyond all that there are
FIRST_OF_SASL = -1  # id with which Java clients of 0.10 to 2.2 begin to authenticate; all others begin with 0
# Ids count upwards from 0 and overflow. Those above come so late that they are rather numbers of other kinds.
HIGHEST_OVERFLOWED = -(1 << 16)
FIRST_WITH_TRANSACTIONS = 3  # version of Produce
LAST_PLAIN_PRODUCE = 8  # from version 9 on tagged fields come first and lengths are variable
LAST_NAMED_PRODUCE = 12  # from version 13 on topics have ids
MOST_TAGGED = 4
ONE_BYTE_VARINT = 127  # the highest number that a varint has in one byte
MOST_ACKS = 16  # before Kafka 0.9 a number of brokers could be asked for
PRODUCE_FIXED = 10  # bytes: acks, timeout and the number of topics
PRODUCE_FIXED_COMPACT = 7  # the same with a number of one byte
LONGEST_TRANSACTIONAL_ID = 512  # far beyond what clients make up
LONGEST_TOPIC = 249  # org.apache.kafka.common.internals.Topic
LETTER_A, LETTER_Z, DIGIT_0, DIGIT_9, DASH, DOT, UNDERSCORE = b"az09-._"
LOWER_CASE = 0x20  # the bit that makes a letter of ASCII small
LARGEST_WITHOUT_RECORDS = 1 << 24  # bytes: no request but a Produce comes near, no response but a fetch's
NEWER_VERSIONS = 2  # a search accepts versions that much newer than the newest known


@jit_inner
def header_evidence(data: Bytes, offset: int, length: int, max_versions: Int64s) -> int:
    """Return how much `length` bytes at an offset look like a length and a request header of a known API.

    NOTHING: they cannot be one, or are too few to say. FAINT: they can be a Produce, as zeros are, and its
    body is not to be seen, or they have a negative id or a long client id, and too little of the latter is
    there. WEAK: they can be a request. PLAIN_ID: they have a whole client id in plain ASCII, or a long one
    that begins so, but the body of a Produce is not to be seen. PLAIN_BODY: they have such a client id, and
    nothing else is asked for: a Produce has its body, too.
    """
    if length < CLIENT_SIZE_AT or not _is_known_call(data, offset, max_versions):
        return NOTHING
    size = int32_at(data, offset)
    key, version = int16_at(data, offset + KEY_AT), int16_at(data, offset + VERSION_AT)
    overflowed = int32_at(data, offset + CORRELATION_AT) < FIRST_OF_SASL
    if key == ApiKey.CONTROLLED_SHUTDOWN and version == 0:
        return WEAK if size == CONTROLLED_SHUTDOWN_0_BYTES and not overflowed else NOTHING
    if length < CLIENT_AT:
        return NOTHING
    text = int16_at(data, offset + CLIENT_SIZE_AT)
    if text < -1 or text > size + LENGTH_BYTES - CLIENT_AT:
        return NOTHING
    unusual = overflowed or text > LONGEST_IN_VIEW
    plain = True
    for index in range(min(text, length - CLIENT_AT)):
        letter = data[offset + CLIENT_AT + index]
        if letter == 0:
            # No client calls itself this, and elsewhere it ends every string.
            return NOTHING
        plain = plain and 0x20 <= letter < 0x7F
    if unusual and (not plain or text <= 0):
        return NOTHING
    body = YES
    if key == ApiKey.PRODUCE:
        begin = offset + CLIENT_AT + max(text, 0)
        body = _produce_begins(data, begin, offset + length, offset + LENGTH_BYTES + size, version)
        if body == NO:
            return NOTHING
    if not plain or not 0 < min(text, LONGEST_IN_VIEW) <= length - CLIENT_AT:
        return WEAK if body == YES and not unusual else FAINT
    return PLAIN_BODY if body == YES else PLAIN_ID


@jit_inner
def _is_known_call(data: Bytes, offset: int, max_versions: Int64s) -> bool:
    """Return whether 12 bytes hold a length, an API, a version and a correlation id that occur."""
    size = int32_at(data, offset)
    if size < SHORTEST_REQUEST or size > MAX_FRAME:
        return False
    key = int16_at(data, offset + KEY_AT)
    if key < 0 or key >= len(max_versions) or max_versions[key] < 0:
        return False
    if size > LARGEST_WITHOUT_RECORDS and key != ApiKey.PRODUCE:
        return False
    version = int16_at(data, offset + VERSION_AT)
    if version < 0 or version > max_versions[key] + NEWER_VERSIONS:
        return False
    correlation_id = int32_at(data, offset + CORRELATION_AT)
    begins_sasl = key == ApiKey.SASL_HANDSHAKE or key == ApiKey.API_VERSIONS
    counted = correlation_id >= 0 or correlation_id <= HIGHEST_OVERFLOWED
    return bool(counted or (correlation_id == FIRST_OF_SASL and begins_sasl))


@jit_inner
def _is_topic_letter(byte: int) -> bool:
    letter = LETTER_A <= byte | LOWER_CASE <= LETTER_Z
    return letter or DIGIT_0 <= byte <= DIGIT_9 or byte == DASH or byte == DOT or byte == UNDERSCORE


@jit_inner
def _produce_begins(data: Bytes, at: int, stop: int, end: int, version: int) -> int:
    """Return whether a Produce body lies at data[at:end]; UNSURE: the bytes before `stop` are too few.

    A body has acks, a time, and topics whose names have letters of their own.
    """
    verdict, at = _after_transactional_id(data, at, stop, version)
    if verdict != YES:
        return verdict
    if at + PRODUCE_FIXED_COMPACT > end:
        return NO
    if at + PRODUCE_FIXED > stop:
        return UNSURE
    if abs(int16_at(data, at)) > MOST_ACKS or int32_at(data, at + 2) < 0:
        return NO
    if version > LAST_PLAIN_PRODUCE:
        topics = int(data[at + 6])  # one more than there are, if it is in one byte
        if topics <= 1 or version > LAST_NAMED_PRODUCE:
            return YES if topics > 1 or (topics == 1 and at + 8 == end) else NO
        at += PRODUCE_FIXED_COMPACT
        size, at = uvarint_at(data, at, stop) if topics <= ONE_BYTE_VARINT else (-1, -1)
        if at < 0:
            return UNSURE
        size -= 1
    else:
        topics = int32_at(data, at + 6)
        at += PRODUCE_FIXED
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
def _after_transactional_id(data: Bytes, at: int, stop: int, version: int) -> tuple[int, int]:
    """Return (YES, offset behind tagged fields and transactional id) of a Produce, or (NO or UNSURE, -1)."""
    if version < FIRST_WITH_TRANSACTIONS:
        return YES, at
    if at + 2 > stop:
        return UNSURE, -1
    if version <= LAST_PLAIN_PRODUCE:
        size = int16_at(data, at)
        if size < -1 or size > LONGEST_TRANSACTIONAL_ID:
            return NO, -1
        return YES, at + 2 + max(size, 0)
    if data[at] != 0:  # tagged fields, of which no client has many
        return (UNSURE if data[at] <= MOST_TAGGED else NO), -1
    size = int(data[at + 1]) - 1
    if size + 1 > ONE_BYTE_VARINT:
        return UNSURE, -1
    return YES, at + 2 + max(size, 0)


@jit_inner
def can_be_request(data: Bytes, offset: int, length: int) -> bool:
    """Return whether a stream that is in step may go on with this header.

    Any API and any version will do, as long as nothing is impossible. Confluent has keys above 10000.
    """
    key = int16_at(data, offset + KEY_AT)
    version = int16_at(data, offset + VERSION_AT)
    if key < 0 or version < 0 or version > HIGHEST_VERSION:
        return False
    if length < CLIENT_AT:
        return True
    text = int16_at(data, offset + CLIENT_SIZE_AT)
    longest = int32_at(data, offset) + LENGTH_BYTES - CLIENT_AT
    return -1 <= text <= longest or key == ApiKey.CONTROLLED_SHUTDOWN


@jit_inner
def produce_acks(data: Bytes, start: int, stop: int, version: int) -> int:
    """Return the acks field of a Produce request, which is data[start:stop]; 1 if the bytes end before it."""
    at = acks_at(data, start, stop, version)
    return int16_at(data, at) if at >= 0 else 1


@jit_inner
def acks_at(data: Bytes, start: int, stop: int, version: int) -> int:
    """Return where the acks field of a Produce request is, data[start:stop]; -1 if that ends before it.

    acks comes first in versions 0 to 2. From version 3 on the nullable transactional id comes before it. From
    version 9 on that id is compact, and the tagged fields of the header (KIP-482) come first of all.
    """
    at = start + 8
    if at + 2 > stop:
        return -1
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
            return -1
        at += 2 + max(0, int16_at(data, at))
    return at if at + 2 <= stop else -1
