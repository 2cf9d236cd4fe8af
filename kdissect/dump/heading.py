"""The heading of an exchange: what headers tell, and where it was captured.

`exchange_heading` makes an object, `heading_text` the same as JSON. For most exchanges that is one f-string,
which takes a quarter of the time. Parts that repeat on a connection are made once. A test holds both ways
together.
"""

from collections.abc import Callable
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quote
from typing import Any, Protocol

from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.describe import RAW_SASL_NAME
from kdissect.exchanges.exchange import CapturedFrame
from kdissect.exchanges.exchange_workers import ConnectionReader
from kdissect.protocol.schema.registry import api_name
from kdissect.streams.flow_state import PACKET_BITS

PACKET_MASK = (1 << PACKET_BITS) - 1
NULL = "null"
TEXTS_KEPT = 1 << 12


class HeadingFacts(ConnectionReader, Protocol):
    """Facts in a heading about connections and files."""

    def file_name(self, split: int, /) -> str:
        """Return the name of the capture file of a split."""


def exchange_heading(decoded: DecodedExchange, reader: HeadingFacts) -> dict[str, Any]:
    """Return the heading: columns of the table `exchanges`, as far as headers tell them."""
    exchange = decoded.exchange
    request, response = exchange.request, exchange.response
    client, server = reader.addresses(exchange.connection)
    file = _capture_file(request or response, reader)
    heading = {
        "connection": reader.identity(exchange.connection),
        "ordinal": exchange.ordinal,
        "client": client,
        "server": server,
        "status": exchange.status,
        "api_key": exchange.api_key,
        "api_name": RAW_SASL_NAME if exchange.is_token else exchange.api_name,
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
        "request_packet": _packet(request, file, reader),
        "response_packet": _packet(response, file, reader),
        "capture_file": file,
        "lost_bytes": sum(frame.size - len(frame.data) for frame in (request, response) if frame),
    }
    if exchange.is_token:
        heading["sasl_mechanism"] = reader.mechanism(exchange.connection)
    return heading


def heading_text(decoded: DecodedExchange, reader: HeadingFacts, encode: Callable[[Any], str]) -> str:
    """Return the heading of an exchange with a Kafka header as JSON, without its closing brace.

    `encode` returns the JSON of an object. It is asked for the heading of an exchange that lacks a frame, or
    whose frames are not in one file.
    """
    exchange = decoded.exchange
    sent, answered = exchange.request, exchange.response
    split = -1 if sent is None else sent.packet >> PACKET_BITS
    if sent is None or answered is None or split < 0 or answered.packet >> PACKET_BITS != split:
        return encode(exchange_heading(decoded, reader))[:-1]
    latency, client_id, in_flight = exchange.latency_ns, decoded.client_id, exchange.in_flight
    return (
        f'{{"connection":{reader.identity(exchange.connection)},'
        f'"ordinal":{NULL if exchange.ordinal is None else exchange.ordinal},'
        f"{_ends_text(*reader.addresses(exchange.connection))},"
        f"{_api_text(exchange.status, exchange.api_key, exchange.api_version)},"
        f'"correlation_id":{NULL if exchange.correlation_id is None else exchange.correlation_id},'
        f'"client_id":{NULL if client_id is None else quote(client_id)},'
        f'"request_first_ns":{sent.first_ns},'
        f'"request_last_ns":{NULL if sent.last_ns is None else sent.last_ns},'
        f'"response_first_ns":{answered.first_ns},'
        f'"response_last_ns":{NULL if answered.last_ns is None else answered.last_ns},'
        f'"latency_ns":{NULL if latency is None else latency},'
        f'"in_flight":{NULL if in_flight is None else in_flight},'
        f'"request_bytes":{sent.size},"response_bytes":{answered.size},'
        f'"request_packet":{sent.packet & PACKET_MASK},"response_packet":{answered.packet & PACKET_MASK},'
        f'"capture_file":{quote(reader.file_name(split))},'
        f'"lost_bytes":{sent.size - len(sent.data) + answered.size - len(answered.data)}'
    )


@lru_cache(TEXTS_KEPT)
def _ends_text(client: str, server: str) -> str:
    return f'"client":{quote(client)},"server":{quote(server)}'


@lru_cache(TEXTS_KEPT)
def _api_text(status: str, key: int | None, version: int | None) -> str:
    name = NULL if key is None else quote(api_name(key))
    return (
        f'"status":"{status}","api_key":{NULL if key is None else key},"api_name":{name},'
        f'"api_version":{NULL if version is None else version}'
    )


def _capture_file(frame: CapturedFrame | None, reader: HeadingFacts) -> str | None:
    """Return the name of the capture file of a frame; None if its first packet is not known."""
    return None if frame is None or frame.packet < 0 else reader.file_name(frame.packet >> PACKET_BITS)


def _packet(frame: CapturedFrame | None, file: str | None, reader: HeadingFacts) -> int | None:
    """Return the number of a frame's first packet in its file.

    Return None if that is not the file of the exchange.
    """
    if frame is None or file is None or _capture_file(frame, reader) != file:
        return None
    return frame.packet & PACKET_MASK
