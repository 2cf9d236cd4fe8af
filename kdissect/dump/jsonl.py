"""An exchange as one object: what `--format jsonl` writes, and what the texts are made from.

The keys in front are the columns of the table `exchanges`, and for raw SASL tokens (status `sasl_token`, no API) their
`sasl_mechanism`; `request` and `response` have `header`, `body` and, if
something in them is wrong, `fault` with field path, byte offset (from the first byte after the length) and reason.
Fields have the names of the schema; see `meaning` for those with an underscore in front. Bytes are base64, 64-bit
integers are JSON numbers with all their digits, ids are Kafka's 22 characters.
"""

import json
from base64 import b64encode
from typing import Any

from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.describe import (
    DescribeOptions,
    describe_request,
    describe_response,
)
from kdissect.exchanges.exchange import Exchange, Frame
from kdissect.exchanges.kafka07_describe import describe_kafka07_message
from kdissect.exchanges.reader import Follower
from kdissect.exchanges.sasl_tokens import NAME as TOKEN_NAME
from kdissect.exchanges.sasl_tokens import describe_token
from kdissect.protocol.kafka07.message_codec import old_name
from kdissect.protocol.schema.registry import api_name
from kdissect.streams.flow_state import PACKET_BITS

PACKET_MASK = (1 << PACKET_BITS) - 1


def exchange_object(
    spoken: DecodedExchange, above: dict[str, Any], showing: DescribeOptions
) -> dict[str, Any]:
    """Give all that is known of an exchange below its heading; bytes are still bytes."""
    said = above | {"request": None, "response": None}
    if spoken.exchange.token:
        for half, frame in (("request", spoken.exchange.request), ("response", spoken.exchange.response)):
            said[half] = describe_token(frame, showing.secrets) if frame else None
        return said
    if spoken.exchange.old:
        for half, whole in (("request", spoken.request), ("response", spoken.response)):
            said[half] = describe_kafka07_message(whole, showing.records) if whole else None
        return said
    if spoken.request:
        said["request"] = describe_request(spoken.request, showing)
    if spoken.response:
        asked = spoken.request.body if spoken.request else None
        said["response"] = describe_response(spoken.response, spoken.exchange.api_key, asked, showing)
    return said


def exchange_heading(spoken: DecodedExchange, follower: Follower) -> dict[str, Any]:
    """Give what the table `exchanges` would say, as far as headers tell it."""
    exchange = spoken.exchange
    request, response = exchange.request, exchange.response
    first = request or response
    client, server = follower.addresses(exchange.connection)
    said = {
        "connection": follower.identity(exchange.connection),
        "ordinal": exchange.ordinal,
        "client": client,
        "server": server,
        "status": exchange.status,
        "api_key": exchange.api_key,
        "api_name": _name(exchange),
        "api_version": exchange.api_version,
        "correlation_id": exchange.correlation_id,
        "client_id": spoken.client_id,
        "request_first_ns": request.first_ns if request else None,
        "request_last_ns": request.last_ns if request else None,
        "response_first_ns": response.first_ns if response else None,
        "response_last_ns": response.last_ns if response else None,
        "latency_ns": exchange.latency_ns,
        "in_flight": exchange.in_flight,
        "request_bytes": request.size if request else None,
        "response_bytes": response.size if response else None,
        "request_packet": _packet(request, first),
        "response_packet": _packet(response, first),
        "capture_file": None
        if first is None or first.packet < 0
        else follower.file_name(first.packet >> PACKET_BITS),
        "lost_bytes": _lost(exchange),
    }
    if exchange.token:
        said["sasl_mechanism"] = follower.mechanism(exchange.connection)
    return said


def _name(exchange: Exchange) -> str | None:
    if exchange.token:
        return TOKEN_NAME
    if exchange.api_key is None:
        return None
    return old_name(exchange.api_key) if exchange.old else api_name(exchange.api_key)


def _packet(frame: Frame | None, first: Frame | None) -> int | None:
    """Number a packet in its file; null when it is in another file than the request."""
    if frame is None or first is None or frame.packet < 0:
        return None
    return frame.packet & PACKET_MASK


def _lost(exchange: Exchange) -> int:
    """Count the bytes of the two frames that the capture does not have."""
    frames = (exchange.request, exchange.response)
    return sum(frame.size - len(frame.data) for frame in frames if frame)


def json_line(said: dict[str, Any]) -> str:
    """Write an object as one line of ASCII: whatever is in it, a terminal can show it."""
    text = _ENCODER.encode(said)
    return text.replace("\x7f", "\\u007f") if "\x7f" in text else text


def _bytes(value: Any) -> str:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is nothing that JSON knows")


_ENCODER = json.JSONEncoder(separators=(",", ":"), check_circular=False, default=_bytes, allow_nan=False)
