"""Encode messages of Kafka 0.7: the product only reads them."""

import struct
import zlib
from typing import Any

from kdissect.protocol.codec.messages import encode
from kdissect.protocol.kafka07.message_codec import (
    ANSWERS,
    PARTS,
    SHAPES,
    RequestType,
)
from kdissect.protocol.schema.registry import MESSAGES

Tree = dict[str, Any]


def encode_kafka07_request(kind: int, body: Tree) -> bytes:
    """Return an encoded request, without its 4-byte length."""
    shape = SHAPES[RequestType(kind)]
    out = kind.to_bytes(2)
    if not shape.several:
        return out + encode(MESSAGES[shape.part], 0, body)
    parts = [encode(MESSAGES[shape.part], 0, part) for part in body[PARTS]]
    return out + len(parts).to_bytes(2) + b"".join(parts)


def encode_kafka07_response(kind: int, error_code: int, body: Tree) -> bytes:
    """Return the encoded response to a request of this type, without its 4-byte length."""
    out = error_code.to_bytes(2, signed=True)
    if kind == RequestType.FETCH:
        return out + bytes(body["messages"])
    if kind == RequestType.MULTI_FETCH:
        return out + b"".join(
            (2 + len(answer["messages"])).to_bytes(4)
            + encode_kafka07_response(RequestType.FETCH, answer["error_code"], answer)
            for answer in body[ANSWERS]
        )
    return out + encode(MESSAGES["OldOffsetsAnswer"], 0, body)


def set_message(payload: bytes, attributes: int | None = None) -> bytes:
    """Return a message of magic 0, or of magic 1 if attributes are given."""
    front = b"\x00" if attributes is None else bytes([1, attributes])
    body = front + struct.pack(">I", zlib.crc32(payload)) + payload
    return struct.pack(">i", len(body)) + body


SET = set_message(b"one") + set_message(b"two", 0)
