"""Encode messages of Kafka 0.7: the product only reads them."""

from typing import Any

from kdissect.protocol.codec.messages import encode
from kdissect.protocol.kafka07.message_codec import ANSWERS, PARTS, SHAPES, OldType
from kdissect.protocol.schema.registry import MESSAGES

Tree = dict[str, Any]


def encode_old_request(kind: int, body: Tree) -> bytes:
    """Return an encoded request, without its 4-byte length."""
    shape = SHAPES[OldType(kind)]
    out = kind.to_bytes(2)
    if not shape.several:
        return out + encode(MESSAGES[shape.part], 0, body)
    parts = [encode(MESSAGES[shape.part], 0, part) for part in body[PARTS]]
    return out + len(parts).to_bytes(2) + b"".join(parts)


def encode_old_response(kind: int, error_code: int, body: Tree) -> bytes:
    """Return the encoded response to a request of this type, without its 4-byte length."""
    out = error_code.to_bytes(2, signed=True)
    if kind == OldType.FETCH:
        return out + bytes(body["messages"])
    if kind == OldType.MULTI_FETCH:
        return out + b"".join(
            (2 + len(answer["messages"])).to_bytes(4)
            + encode_old_response(OldType.FETCH, answer["error_code"], answer)
            for answer in body[ANSWERS]
        )
    return out + encode(MESSAGES["OldOffsetsAnswer"], 0, body)
