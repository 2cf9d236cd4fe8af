"""An exchange as one object: what `--format jsonl` writes, and what texts are made from.

The first keys, the heading, are columns of the table `exchanges`. An exchange of raw SASL tokens (status
`sasl_token`, no API) has its `sasl_mechanism` as well. `request` and `response` have `header`, `body` and, if
something in them is wrong, `fault` with field path, byte offset (from the first byte after the length) and
reason. Fields have the names of the schema; `exchanges.describe` says what a name with an underscore in front
means. Bytes are base64, 64-bit integers are JSON numbers with all their digits, and ids are the 22 characters
that Kafka prints.
"""

import json
from base64 import b64encode
from typing import Any, Protocol

from kdissect.dump.compiled_json import request_text, response_text
from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.describe import (
    RAW_SASL_NAME,
    DescribeOptions,
    describe_request,
    describe_response,
    describe_token,
)
from kdissect.exchanges.exchange import CapturedFrame, Exchange
from kdissect.exchanges.kafka07_describe import describe_kafka07_message
from kdissect.protocol.codec.messages import DecodedMessage
from kdissect.protocol.kafka07.message_codec import request_name
from kdissect.protocol.schema.registry import api_name
from kdissect.streams.flow_state import PACKET_BITS

PACKET_MASK = (1 << PACKET_BITS) - 1
Fields = dict[str, Any]


class ConnectionReader(Protocol):
    """Facts about connections in a heading: an `ExchangeReader` knows it."""

    def identity(self, connection: int) -> int:
        """Return the public number of a connection."""

    def addresses(self, connection: int) -> tuple[str, str]:
        """Return the addresses of client and server."""

    def mechanism(self, connection: int) -> str | None:
        """Return the SASL mechanism of a connection with raw tokens."""


class HeadingFacts(ConnectionReader, Protocol):
    """Facts in a heading about connections and files."""

    def file_name(self, split: int, /) -> str:
        """Return the name of the capture file of a split."""


def exchange_object(decoded: DecodedExchange, heading: Fields, options: DescribeOptions) -> Fields:
    """Return the heading of an exchange with its `request` and `response` below it; bytes are still bytes."""
    exchange = decoded.exchange
    request: Fields | None = None
    response: Fields | None = None
    if exchange.is_token:
        request, response = (
            describe_token(frame, options) if frame else None
            for frame in (exchange.request, exchange.response)
        )
    elif exchange.is_kafka07:
        request, response = (
            describe_kafka07_message(message, options.records) if message else None
            for message in (decoded.request, decoded.response)
        )
    else:
        if decoded.request:
            request = describe_request(decoded.request, options)
        if decoded.response:
            response = _described_response(decoded, decoded.response, options)
    return heading | {"request": request, "response": response}


def exchange_line(decoded: DecodedExchange, heading: Fields, options: DescribeOptions) -> str:
    """Return the `json_line` of an `exchange_object`, whose messages are compiled where that serves."""
    exchange = decoded.exchange
    if exchange.is_token or exchange.is_kafka07 or options.records:
        return json_line(exchange_object(decoded, heading, options))
    request, response, names, encode = exchange.request, exchange.response, options.names, _ENCODER.encode
    first = second = None
    if request is not None:
        first = request_text(request.data, names, encode)
    if response is not None:
        second = response_text(response.data, exchange.api_key, exchange.api_version, names, encode)
    if first is None:
        first = encode(describe_request(decoded.request, options) if decoded.request else None)
    if second is None:
        second = encode(_described_response(decoded, decoded.response, options) if decoded.response else None)
    line = f'{encode(heading)[:-1]},"request":{first},"response":{second}}}'
    return line.replace("\x7f", "\\u007f") if "\x7f" in line else line


def _described_response(
    decoded: DecodedExchange, response: DecodedMessage, options: DescribeOptions
) -> Fields:
    request_body = decoded.request.body if decoded.request else None
    return describe_response(response, decoded.exchange.api_key, request_body, options)


def exchange_heading(decoded: DecodedExchange, reader: HeadingFacts) -> Fields:
    """Return the heading: columns of the table `exchanges`, as far as headers tell them."""
    exchange = decoded.exchange
    request, response = exchange.request, exchange.response
    client, server = reader.addresses(exchange.connection)
    capture_file = _capture_file(request or response, reader)
    heading = {
        "connection": reader.identity(exchange.connection),
        "ordinal": exchange.ordinal,
        "client": client,
        "server": server,
        "status": exchange.status,
        "api_key": exchange.api_key,
        "api_name": _name(exchange),
        "api_version": exchange.api_version,
        "correlation_id": exchange.correlation_id,
        "client_id": decoded.client_id,
        "request_first_ns": request.first_ns if request else None,
        "request_last_ns": request.last_ns if request else None,
        "response_first_ns": response.first_ns if response else None,
        "response_last_ns": response.last_ns if response else None,
        "latency_ns": exchange.latency_ns,
        "in_flight": exchange.in_flight,
        "request_bytes": request.size if request else None,
        "response_bytes": response.size if response else None,
        "request_packet": _packet(request, capture_file, reader),
        "response_packet": _packet(response, capture_file, reader),
        "capture_file": capture_file,
        "lost_bytes": sum(frame.size - len(frame.data) for frame in (request, response) if frame),
    }
    if exchange.is_token:
        heading["sasl_mechanism"] = reader.mechanism(exchange.connection)
    return heading


def _name(exchange: Exchange) -> str | None:
    if exchange.is_token:
        return RAW_SASL_NAME
    if exchange.api_key is None:
        return None
    return request_name(exchange.api_key) if exchange.is_kafka07 else api_name(exchange.api_key)


def _capture_file(frame: CapturedFrame | None, reader: HeadingFacts) -> str | None:
    return None if frame is None or frame.packet < 0 else reader.file_name(frame.packet >> PACKET_BITS)


def _packet(frame: CapturedFrame | None, capture_file: str | None, reader: HeadingFacts) -> int | None:
    """Return the number of a frame's first packet in its file.

    Return None if that is not the file of the exchange.
    """
    if frame is None or capture_file is None or _capture_file(frame, reader) != capture_file:
        return None
    return frame.packet & PACKET_MASK


def json_line(fields: Fields) -> str:
    """Return an object as one line of ASCII, which any terminal can show whatever the capture holds."""
    text = _ENCODER.encode(fields)
    return text.replace("\x7f", "\\u007f") if "\x7f" in text else text


def _encode_bytes(value: Any) -> str:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is not a type of JSON")


_ENCODER = json.JSONEncoder(
    separators=(",", ":"), check_circular=False, default=_encode_bytes, allow_nan=False
)
