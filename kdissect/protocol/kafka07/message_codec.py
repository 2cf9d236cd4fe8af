"""Whole messages of Kafka 0.7: the protocol before versions, correlation ids and client ids.

A request is an int16 type and a body, a response an int16 error code and a body; frames are given without
their 4-byte length. The parts of bodies stand in `messages/kafka_0_7.txt`; this module has what those files
cannot express: MultiFetch and MultiProduce count their parts in an int16, and messages in an answer reach to
the end of the frame. An answer to MultiFetch is a size, an error code and messages for each part that was
asked for, in that order. Produce and MultiProduce are never answered: a broker that refuses one closes the
connection.

The result is a `DecodedMessage`, with a request's type or a response's error code as its header and no
version. Wrong bytes give a `Fault` and what stands before them, as in `codec.messages`.
"""

from enum import IntEnum
from typing import Any, NamedTuple

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import (
    DecodedMessage,
    Fault,
    decode,
    decode_start,
)
from kdissect.protocol.schema.definition import Message
from kdissect.protocol.schema.registry import MESSAGES

Tree = dict[str, Any]


class RequestType(IntEnum):
    """The types of requests."""

    PRODUCE = 0
    FETCH = 1
    MULTI_FETCH = 2
    MULTI_PRODUCE = 3
    OFFSETS = 4


class _Shape(NamedTuple):
    """How a request is made."""

    name: str
    part: str  # the message that is its body, or that its body has several of
    several: bool


SHAPES = {
    RequestType.PRODUCE: _Shape("Produce", "OldProduce", several=False),
    RequestType.FETCH: _Shape("Fetch", "OldFetch", several=False),
    RequestType.MULTI_FETCH: _Shape("MultiFetch", "OldFetch", several=True),
    RequestType.MULTI_PRODUCE: _Shape("MultiProduce", "OldProduce", several=True),
    RequestType.OFFSETS: _Shape("Offsets", "OldOffsets", several=False),
}
REQUEST_NAMES = {int(kind): shape.name for kind, shape in SHAPES.items()}

CURRENT_API_KEYS = {
    RequestType.PRODUCE: ApiKey.PRODUCE,
    RequestType.FETCH: ApiKey.FETCH,
    RequestType.MULTI_FETCH: ApiKey.FETCH,
    RequestType.MULTI_PRODUCE: ApiKey.PRODUCE,
    RequestType.OFFSETS: ApiKey.LIST_OFFSETS,
}
"""The key of today's API that asks the same."""
ERROR_NAMES = {
    -1: "UNKNOWN",
    0: "NONE",
    1: "OFFSET_OUT_OF_RANGE",
    2: "INVALID_MESSAGE",
    3: "WRONG_PARTITION",
    4: "INVALID_FETCH_SIZE",
}
PARTS = "requests"
ANSWERS = "responses"


def request_name(kind: int) -> str:
    """Return the name of a type of request, UNKNOWN(<type>) for an unknown one."""
    return REQUEST_NAMES.get(kind, f"UNKNOWN({kind})")


def kafka07_error_name(code: int) -> str:
    """Return the name of an error code, UNKNOWN(<code>) for an unknown one."""
    return ERROR_NAMES.get(code, f"UNKNOWN({code})")


def parts_of(body: Tree | None) -> list[Tree]:
    """Return what a request asks of each topic-partition: itself, or each of its parts."""
    if body is None:
        return []
    parts: list[Tree] = body.get(PARTS, [body])
    return parts


def decode_kafka07_request(frame: bytes) -> DecodedMessage:
    """Return a decoded request."""
    if len(frame) < 2:
        return DecodedMessage({}, None, None, _cut("request_type", 0, frame))
    kind = _int16(frame, 0)
    header = {"request_type": kind}
    if kind not in SHAPES:
        return DecodedMessage(header, None, None, Fault("request_type", 0, f"unknown type {kind}"))
    shape = SHAPES[RequestType(kind)]
    if shape.several:
        body, fault = _several(MESSAGES[shape.part], frame)
    else:
        read = decode(MESSAGES[shape.part], 0, frame, 2)
        body, fault = read.value, read.fault
    return DecodedMessage(header, body, None, fault)


def decode_kafka07_response(frame: bytes, kind: int) -> DecodedMessage:
    """Return the decoded response to a request of this type.

    Three types have responses; for all others only the header is decoded.
    """
    if len(frame) < 2:
        return DecodedMessage({}, None, None, _cut("error_code", 0, frame))
    header = {"error_code": _int16(frame, 0)}
    if kind == RequestType.FETCH:
        return DecodedMessage(header, {"messages": frame[2:]}, None, None)
    if kind == RequestType.MULTI_FETCH:
        answers, fault = _answers(frame)
        return DecodedMessage(header, {ANSWERS: answers}, None, fault)
    if kind == RequestType.OFFSETS:
        if len(frame) == 2 and header["error_code"]:
            return DecodedMessage(header, {"offsets": []}, None, None)
        read = decode(MESSAGES["OldOffsetsAnswer"], 0, frame, 2)
        return DecodedMessage(header, read.value, None, read.fault)
    return DecodedMessage(header, None, None, None)


def _several(message: Message, frame: bytes) -> tuple[Tree, Fault | None]:
    parts: list[Tree] = []
    body: Tree = {PARTS: parts}
    if len(frame) < 4:
        return body, _cut(PARTS, 2, frame)
    count, offset = _int16(frame, 2), 4
    if count < 0:
        return body, Fault(PARTS, 2, f"negative count {count}")
    for number in range(count):
        read = decode_start(message, 0, frame, offset)
        if read.fault is None or read.value:
            parts.append(read.value)
        if read.fault:
            return body, read.fault._replace(path=f"{PARTS}[{number}].{read.fault.path}")
        offset = read.consumed
    left = len(frame) - offset
    return body, Fault("", offset, f"{left} bytes left over") if left else None


def _answers(frame: bytes) -> tuple[list[Tree], Fault | None]:
    answers: list[Tree] = []
    offset = 2
    while offset < len(frame):
        path = f"{ANSWERS}[{len(answers)}]"
        if len(frame) - offset < 6:
            return answers, _cut(path, offset, frame, of=6)
        size = int.from_bytes(frame[offset : offset + 4], signed=True)
        if size < 2:
            return answers, Fault(path, offset, f"size {size} is too small")
        stop = offset + 4 + size
        answers.append({"error_code": _int16(frame, offset + 4), "messages": frame[offset + 6 : stop]})
        if stop > len(frame):
            return answers, Fault(path, offset, f"size {size}, but {len(frame) - offset - 4} bytes left")
        offset = stop
    return answers, None


def _int16(frame: bytes, offset: int) -> int:
    return int.from_bytes(frame[offset : offset + 2], signed=True)


def _cut(path: str, offset: int, frame: bytes, of: int = 2) -> Fault:
    return Fault(path, offset, f"only {max(len(frame) - offset, 0)} of {of} bytes")
