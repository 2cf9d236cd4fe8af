"""Messages to dicts and lists and back to the same bytes: whole frames, bodies, and messages inside `bytes`.

A `Message` at one version is compiled, once, to closures over the readers and writers of `wire`. `decode`
returns a dict for a struct and a list for an array, with exactly the tagged fields that were on the wire;
tagged fields that the schema does not know stand under `UNKNOWN_TAGS` as (tag, bytes). `encode` takes the
same tree; a missing field gets its default. Frames are without their 4-byte length.

The version of a header follows from the API and its version (KIP-482), with two exceptions that the schema
states. A request of an unknown API or version keeps its header. The body of a response is read at the version
of its request, except for ApiVersions, whose error 35 means a body of version 0, whichever was requested
(KIP-511).

Faults are values: `decode` stops at the first wrong byte, keeps what it has read until there, and returns a
`Fault` with the field and the byte at which that field starts. These are wrong: bytes that are missing or
left over, lengths below -1, counts that cannot fit, a nullable struct that is marked neither present (1) nor
absent (-1), a tagged field whose size is not that of its value, and tags that do not ascend. With `strict`
null is wrong too in a field that cannot be null; Kafka's own readers refuse it, and code that works on a tree
may rely on it. Work is bounded by the bytes given, memory by `limits` too, depth by the schema.

Values that do not fit their field raise `EncodeError`. `ValueError` is a mistake of the caller: a field or a
version that the message does not have.
"""

import struct
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.decode import message_reader
from kdissect.protocol.codec.encode import struct_writer
from kdissect.protocol.codec.wire import CodecError, DecodeError, EncodeError, Reader, Writer
from kdissect.protocol.error_codes import ErrorCode
from kdissect.protocol.schema.definition import EMPTY_ARRAY, UNKNOWN_TAGS, Message
from kdissect.protocol.schema.registry import (
    APIS,
    MESSAGES,
    api_name,
    is_known,
    request_header_version,
    response_header_version,
)

__all__ = [
    "UNKNOWN_TAGS",
    "CodecError",
    "DecodeError",
    "Decoded",
    "DecodedMessage",
    "EncodeError",
    "Fault",
    "decode",
    "decode_embedded",
    "decode_request",
    "decode_response",
    "decode_start",
    "encode",
    "encode_embedded",
    "encode_request",
    "encode_response",
    "enveloped_api",
    "require_embedded",
]

_KEY_AND_VERSION = struct.Struct(">hh")  # with which every request begins


class Fault(NamedTuple):
    """Position at which captured bytes stop making sense."""

    path: str  # the field, as in topics[2].partitions[0].records; "" is the message itself
    offset: int  # where that field starts in the bytes that were given
    reason: str

    def __str__(self) -> str:
        return f"{self.path or 'message'} at byte {self.offset}: {self.reason}"


class Decoded(NamedTuple):
    """Result of a read: all of it, or all that stands before the fault."""

    value: dict[str, Any]
    consumed: int  # the position after the last byte that was read; where the fault is, if there is one
    fault: Fault | None


def decode(message: Message, version: int, data: bytes, offset: int = 0, *, strict: bool = False) -> Decoded:
    """Return the message that fills `data` from `at` on; bytes left over are a fault too."""
    decoded = decode_start(message, version, data, offset, strict=strict)
    if decoded.fault is None:
        return decoded._replace(fault=_left_over(message, version, data, decoded.consumed))
    return decoded


def _left_over(message: Message, version: int, data: bytes, offset: int) -> Fault | None:
    left = len(data) - offset
    if left == 0 or (version in message.trailing and data[offset:] == EMPTY_ARRAY):
        return None
    return Fault("", offset, f"{left} bytes left over")


def decode_start(
    message: Message, version: int, data: bytes, offset: int = 0, *, strict: bool = False
) -> Decoded:
    """Return the message that starts at `at`; whatever follows it is left alone."""
    try:
        value, stop = _reader(message, version, strict)(data, offset, len(data))
    except DecodeError as error:
        return Decoded(error.partial, error.offset, _fault_of(error))
    return Decoded(value, stop, None)


def encode(message: Message, version: int, value: dict[str, Any], *, strict: bool = False) -> bytes:
    """Return an encoded message; that of a decoded one is the bytes it was decoded from.

    A strict one holds nothing that Kafka's own writers refuse (see `encode`). Raise EncodeError.
    """
    out = bytearray()
    try:
        _writer(message, version, strict)(out, value)
    except struct.error as error:
        raise EncodeError(f"a value does not fit into {message.name} v{version}: {error}") from error
    return bytes(out)


@cache
def _reader(message: Message, version: int, strict: bool) -> Reader:
    _check_version(message, version)
    return message_reader(message, version, version in message.flexible, strict)


@cache
def _writer(message: Message, version: int, strict: bool) -> Writer:
    _check_version(message, version)
    return struct_writer(message, version, version in message.flexible, strict)


def _check_version(message: Message, version: int) -> None:
    if version not in message.versions:
        raise ValueError(f"{message.name} has no version {version}")


def _fault_of(error: DecodeError) -> Fault:
    parts = (part if part.startswith("[") else f".{part}" for part in reversed(error.path))
    return Fault("".join(parts).removeprefix("."), error.offset, error.reason)


@dataclass(frozen=True, slots=True)
class DecodedMessage:
    """A decoded frame; offsets count from its first byte after the length."""

    header: dict[str, Any]
    body: dict[str, Any] | None  # None: the header is cut off, or the API or its version is unknown
    version: int | None  # the version at which the body was read
    fault: Fault | None


def decode_request(frame: bytes, *, strict: bool = False) -> DecodedMessage:
    """Return a decoded request; request_api_key and request_api_version in its header name its API."""
    message = MESSAGES["RequestHeader"]
    start = decode_start(message, 0, frame)
    if start.fault:
        return DecodedMessage(start.value, None, None, start.fault)
    key, version = start.value["request_api_key"], start.value["request_api_version"]
    if key not in APIS:
        header = decode_start(message, 1, frame)
        return DecodedMessage(
            header.value, None, None, header.fault or Fault("", header.consumed, f"unknown API key {key}")
        )
    return _decode_frame(
        decode_start(message, request_header_version(key, version), frame),
        key,
        version,
        frame,
        "request",
        strict,
    )


def decode_response(
    frame: bytes, api_key: int | None, api_version: int, *, strict: bool = False
) -> DecodedMessage:
    """Return the decoded response to a request of this API key and version.

    Without a key only the header is decoded.
    """
    message = MESSAGES["ResponseHeader"]
    if api_key is None or api_key not in APIS:
        header = decode_start(message, 0, frame)
        fault = header.fault
        if fault is None and api_key is not None:
            fault = Fault("", header.consumed, f"unknown API key {api_key}")
        return DecodedMessage(header.value, None, None, fault)
    header = decode_start(message, response_header_version(api_key, api_version), frame)
    if api_key == ApiKey.API_VERSIONS and _error_at(frame, header.consumed) == ErrorCode.UNSUPPORTED_VERSION:
        api_version = 0
    return _decode_frame(header, api_key, api_version, frame, "response", strict)


def _error_at(frame: bytes, offset: int) -> int:
    return int.from_bytes(frame[offset : offset + 2], "big")


def _decode_frame(
    header: Decoded, key: int, version: int, frame: bytes, half: str, strict: bool
) -> DecodedMessage:
    if header.fault:
        return DecodedMessage(header.value, None, None, header.fault)
    if not is_known(key, version):
        fault = Fault("", header.consumed, f"unknown version {version} of {api_name(key)}")
        return DecodedMessage(header.value, None, None, fault)
    message = APIS[key].request if half == "request" else APIS[key].response
    body = decode(message, version, frame, header.consumed, strict=strict)
    return DecodedMessage(header.value, body.value, version, body.fault)


def encode_request(header: dict[str, Any], body: dict[str, Any], *, strict: bool = False) -> bytes:
    """Return an encoded request, from its header and body.

    The header has request_api_key, request_api_version, correlation_id and client_id.
    """
    key, version = header["request_api_key"], header["request_api_version"]
    message = APIS[key].request
    front = encode(MESSAGES["RequestHeader"], request_header_version(key, version), header, strict=strict)
    return front + encode(message, version, body, strict=strict)


def encode_response(
    api_key: int, api_version: int, header: dict[str, Any], body: dict[str, Any], *, strict: bool = False
) -> bytes:
    """Return the encoded response to a request of this API key and version."""
    front = encode(
        MESSAGES["ResponseHeader"], response_header_version(api_key, api_version), header, strict=strict
    )
    return front + encode(APIS[api_key].response, api_version, body, strict=strict)


def enveloped_api(request_data: bytes) -> tuple[int, int] | None:
    """Return API key and version of the request inside an Envelope (KIP-590).

    None stands for an unknown API or version, and for another Envelope, which brokers refuse.
    """
    if len(request_data) < 4:
        return None
    key, version = _KEY_AND_VERSION.unpack_from(request_data)
    return (key, version) if is_known(key, version) and key != ApiKey.ENVELOPE else None


def decode_embedded(name: str, data: bytes, *, strict: bool = False) -> Decoded:
    """Return a message carried in bytes, at the version that its first two bytes say.

    If that version is newer than the schema, the known fields are read and the rest is left alone, as Kafka's
    clients do.
    """
    message = MESSAGES[name]
    if len(data) < 2:
        return Decoded({}, 0, Fault("", 0, f"only {len(data)} of 2 bytes"))
    claimed = int.from_bytes(data[:2], "big", signed=True)
    if claimed < message.versions[0]:
        return Decoded({}, 0, Fault("", 0, f"unknown version {claimed} of {name}"))
    version, start = min(claimed, message.versions[-1]), 2 if message.prefixed else 0
    return (
        decode(message, version, data, start, strict=strict)
        if claimed == version
        else decode_start(message, version, data, start, strict=strict)
    )


def require_embedded(name: str, data: bytes) -> dict[str, Any]:
    """Return the value of a message carried in bytes.

    Raise DecodeError if it has a fault or a forbidden null.
    """
    decoded = decode_embedded(name, data, strict=True)
    if decoded.fault is not None:
        raise DecodeError(decoded.fault.offset, f"{name}: {decoded.fault}")
    return decoded.value


def encode_embedded(name: str, version: int, value: dict[str, Any]) -> bytes:
    """Return an encoded message to be carried in bytes, with its version in front where it belongs there."""
    message: Message = MESSAGES[name]
    prefix = version.to_bytes(2, "big") if message.prefixed else b""
    return prefix + encode(message, version, value)
