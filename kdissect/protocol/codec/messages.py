"""Whole messages: header and body of a frame, without its 4-byte length, and the messages carried inside `bytes`.

The version of a header follows from the API and its version (KIP-482), with two exceptions that the schema states. A
request whose API or version nobody knows keeps its header; the body of a response is read at the version of its request,
save for ApiVersions, whose error 35 means a body of version 0 whatever was asked (KIP-511).
"""

from dataclasses import dataclass
from struct import Struct
from typing import Any

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.body import (
    Decoded,
    Fault,
    decode,
    decode_start,
    encode,
)
from kdissect.protocol.error_codes import ErrorCode
from kdissect.protocol.schema.definition import Message
from kdissect.protocol.schema.registry import (
    APIS,
    MESSAGES,
    api_name,
    is_known,
    request_header_version,
    response_header_version,
)

_KEY_AND_VERSION = Struct(">hh")  # with which every request begins


@dataclass(frozen=True, slots=True)
class DecodedMessage:
    """A decoded frame; offsets count from its first byte after the length."""

    header: dict[str, Any]
    body: dict[str, Any] | None  # None: the header is cut off, or the API or its version is unknown
    version: int | None  # the version at which the body was read
    fault: Fault | None


def decode_request(frame: bytes) -> DecodedMessage:
    """Decode a request; what it is stands in its header as request_api_key and request_api_version."""
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
    return _whole(
        decode_start(message, request_header_version(key, version), frame), key, version, frame, "request"
    )


def decode_response(frame: bytes, api_key: int | None, api_version: int) -> DecodedMessage:
    """Decode the response to a request of this API key and version; with None for the key only the header."""
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
    return _whole(header, api_key, api_version, frame, "response")


def _error_at(frame: bytes, at: int) -> int:
    return int.from_bytes(frame[at : at + 2], "big")


def _whole(header: Decoded, key: int, version: int, frame: bytes, half: str) -> DecodedMessage:
    if header.fault:
        return DecodedMessage(header.value, None, None, header.fault)
    if not is_known(key, version):
        fault = Fault("", header.consumed, f"unknown version {version} of {api_name(key)}")
        return DecodedMessage(header.value, None, None, fault)
    message = APIS[key].request if half == "request" else APIS[key].response
    body = decode(message, version, frame, header.consumed)
    return DecodedMessage(header.value, body.value, version, body.fault)


def encode_request(header: dict[str, Any], body: dict[str, Any]) -> bytes:
    """Encode a request from its header (request_api_key, request_api_version, correlation_id, client_id) and body."""
    key, version = header["request_api_key"], header["request_api_version"]
    message = APIS[key].request
    front = encode(MESSAGES["RequestHeader"], request_header_version(key, version), header)
    return front + encode(message, version, body)


def encode_response(api_key: int, api_version: int, header: dict[str, Any], body: dict[str, Any]) -> bytes:
    """Encode the response to a request of this API key and version."""
    front = encode(MESSAGES["ResponseHeader"], response_header_version(api_key, api_version), header)
    return front + encode(APIS[api_key].response, api_version, body)


def enveloped_api(request_data: bytes) -> tuple[int, int] | None:
    """Return API key and version of the request inside an Envelope (KIP-590).

    None stands for an unknown API or version, and for another Envelope, which brokers refuse.
    """
    if len(request_data) < 4:
        return None
    key, version = _KEY_AND_VERSION.unpack_from(request_data)
    return (key, version) if is_known(key, version) and key != ApiKey.ENVELOPE else None


def decode_embedded(name: str, data: bytes) -> Decoded:
    """Decode a message carried in bytes, at the version that its first two bytes say.

    Of a version newer than ours the fields that we know are read and the rest is left alone, as Kafka's clients do.
    """
    message = MESSAGES[name]
    if len(data) < 2:
        return Decoded({}, 0, Fault("", 0, f"only {len(data)} of 2 bytes"))
    claimed = int.from_bytes(data[:2], "big", signed=True)
    if claimed < message.versions[0]:
        return Decoded({}, 0, Fault("", 0, f"unknown version {claimed} of {name}"))
    version, start = min(claimed, message.versions[-1]), 2 if message.prefixed else 0
    return (
        decode(message, version, data, start)
        if claimed == version
        else decode_start(message, version, data, start)
    )


def encode_embedded(name: str, version: int, value: dict[str, Any]) -> bytes:
    """Encode a message to be carried in bytes, with its version in front where it belongs there."""
    message: Message = MESSAGES[name]
    prefix = version.to_bytes(2, "big") if message.prefixed else b""
    return prefix + encode(message, version, value)
