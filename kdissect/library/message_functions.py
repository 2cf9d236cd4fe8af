"""Single requests and responses as Python values and back: the codec for programs.

In: bytes of one message, with or without the 4-byte length in front, as any bytes-like object. Out: a
`DecodedMessage`. `encode_request` and `encode_response` are the way back. Every failure is a `CodecError`:
`DecodeError` for bytes that are not such a message, `EncodeError` for values that no such message can hold.

The functions are strict where Kafka's own classes are: null in a field that cannot be null and a string over
32,767 bytes are refused.
"""

from typing import Any, TypeAlias

from kdissect.protocol.codec.messages import (
    DecodedMessage,
    DecodeError,
    EncodeError,
)
from kdissect.protocol.codec.messages import (
    decode_request as decode_request_frame,
)
from kdissect.protocol.codec.messages import (
    decode_response as decode_response_frame,
)
from kdissect.protocol.codec.messages import (
    encode_request as encode_request_frame,
)
from kdissect.protocol.codec.messages import (
    encode_response as encode_response_frame,
)
from kdissect.protocol.schema.registry import APIS, api_name, find_api_key, is_known
from kdissect.text import did_you_mean

BytesLike: TypeAlias = bytes | bytearray | memoryview
PREFIX_BYTES = 4


def decode_request(data: BytesLike, *, length_prefix: bool | None = None) -> DecodedMessage:
    """Return a decoded request.

    `length_prefix` tells whether its length stands in front; without it, four bytes that are the length of
    the rest count as such. The API is in the header as request_api_key and request_api_version. Raise
    DecodeError.
    """
    return _sound(decode_request_frame(_frame(data, length_prefix), strict=True))


def decode_response(
    data: BytesLike, api: str | int, version: int, *, length_prefix: bool | None = None
) -> DecodedMessage:
    """Return the decoded response to a request of this API (name or key) and version. Raise DecodeError."""
    key = _api_key(api, version, DecodeError)
    return _sound(decode_response_frame(_frame(data, length_prefix), key, version, strict=True))


def encode_request(
    api: str | int,
    version: int,
    body: dict[str, Any],
    *,
    correlation_id: int = 0,
    client_id: str | None = None,
    length_prefix: bool = False,
) -> bytes:
    """Return an encoded request of this API (name or key) and version.

    Fields that are missing in `body` take their defaults. Raise EncodeError.
    """
    key = _encodable(api, version, body)
    header = {
        "request_api_key": key,
        "request_api_version": version,
        "correlation_id": correlation_id,
        "client_id": client_id,
    }
    try:
        frame = encode_request_frame(header, body, strict=True)
    except (ValueError, TypeError, AttributeError) as error:
        raise _unfit(key, version, error) from error
    return _with_length(frame, length_prefix)


def encode_response(
    api: str | int,
    version: int,
    body: dict[str, Any],
    *,
    correlation_id: int = 0,
    length_prefix: bool = False,
) -> bytes:
    """Return the encoded response to a request of this API (name or key) and version. Raise EncodeError."""
    key = _encodable(api, version, body)
    try:
        frame = encode_response_frame(key, version, {"correlation_id": correlation_id}, body, strict=True)
    except (ValueError, TypeError, AttributeError) as error:
        raise _unfit(key, version, error) from error
    return _with_length(frame, length_prefix)


def _api_key(api: str | int, version: int, failure: type[DecodeError | EncodeError]) -> int:
    key = find_api_key(api) if isinstance(api, str) else api
    if key is None or key not in APIS:
        hint = did_you_mean(str(api), (known.name for known in APIS.values()))
        reason = f"{api!r} is not an API of Kafka{hint}"
    elif not is_known(key, version):
        versions = APIS[key].versions
        reason = f"{api_name(key)} has the versions {versions[0]} to {versions[-1]}, not {version}"
    else:
        return key
    raise DecodeError(0, reason) if failure is DecodeError else EncodeError(reason)


def _encodable(api: str | int, version: int, body: object) -> int:
    """Return the key of an API. Raise EncodeError without such an API, version or body."""
    if not isinstance(body, dict):
        raise EncodeError(f"a body is a dictionary of fields, not {type(body).__name__}")
    return _api_key(api, version, EncodeError)


def _frame(data: BytesLike, length_prefix: bool | None) -> bytes:
    """Return the message without its length."""
    frame = bytes(data)
    claimed = int.from_bytes(frame[:PREFIX_BYTES], "big", signed=True)
    rest = len(frame) - PREFIX_BYTES
    if length_prefix and claimed != rest:
        raise DecodeError(0, f"the length in front is {claimed}, but {max(rest, 0)} bytes follow")
    is_prefixed = claimed == rest if length_prefix is None else length_prefix
    return frame[PREFIX_BYTES:] if is_prefixed else frame


def _sound(message: DecodedMessage) -> DecodedMessage:
    fault = message.fault
    if fault is not None:
        raise DecodeError(fault.offset, str(fault), message.body)
    return message


def _unfit(key: int, version: int, error: Exception) -> EncodeError:
    """Return the error for a value of a wrong type, or a field that the message does not have."""
    return EncodeError(f"{api_name(key)} v{version}: {error}")


def _with_length(frame: bytes, length_prefix: bool) -> bytes:
    return len(frame).to_bytes(PREFIX_BYTES, "big") + frame if length_prefix else frame
