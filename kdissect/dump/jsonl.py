"""An exchange as one object: what `--format jsonl` writes, and what texts are made from.

The first keys, the heading, are columns of the table `exchanges`. An exchange of raw SASL tokens (status
`sasl_token`, no API) has its `sasl_mechanism` as well. `request` and `response` have `header`, `body` and, if
something in them is wrong, `fault` with field path, byte offset (from the first byte after the length) and
reason. Fields have the names of the schema; `exchanges.describe` says what a name with an underscore in front
means. Bytes are base64, 64-bit integers are JSON numbers with all their digits, and ids are the 22 characters
that Kafka prints. Bytes of texts that are not UTF-8 are U+FFFD, as in tables: strict readers of JSON refuse
the lone surrogates that stand for them in messages.
"""

import json
import re
from base64 import b64encode
from typing import Any

from kdissect.dump.compiled_json import request_text, response_text
from kdissect.dump.heading import HeadingFacts, exchange_heading, heading_text
from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.describe import (
    DescribeOptions,
    describe_request,
    describe_response,
    describe_token,
)
from kdissect.exchanges.kafka07_describe import describe_kafka07_message
from kdissect.protocol.codec.messages import DecodedMessage

Fields = dict[str, Any]

NOT_UTF8 = r"\udc"
"""The beginning of each escape of a byte that is not UTF-8; second halves of pairs may begin so, too."""

LONE = re.compile(r"\\\\|\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|((?:\\udc[89a-f][0-9a-f])+)")
"""Neighbouring escapes of bytes that are not UTF-8.

Escaped backslashes and pairs are found, too, and stay as they are.
"""


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


def exchange_line(decoded: DecodedExchange, reader: HeadingFacts, options: DescribeOptions) -> str:
    """Return the `dump_line` of an `exchange_object`, whose parts are written as text where that serves."""
    exchange = decoded.exchange
    if exchange.is_token or exchange.is_kafka07 or options.records:
        return dump_line(exchange_object(decoded, exchange_heading(decoded, reader), options))
    request, response, names = exchange.request, exchange.response, options.names
    first = second = None
    if request is not None:
        first = request_text(request.data, names, encode)
    if response is not None:
        second = response_text(response.data, exchange.api_key, exchange.api_version, names, encode)
    if first is None:
        first = encode(describe_request(decoded.request, options) if decoded.request else None)
    if second is None:
        second = encode(_described_response(decoded, decoded.response, options) if decoded.response else None)
    line = f'{heading_text(decoded, reader, encode)},"request":{first},"response":{second}}}'
    return _replaced(line.replace("\x7f", "\\u007f") if "\x7f" in line else line)


def _described_response(
    decoded: DecodedExchange, response: DecodedMessage, options: DescribeOptions
) -> Fields:
    request_body = decoded.request.body if decoded.request else None
    return describe_response(response, decoded.exchange.api_key, request_body, options)


def dump_line(fields: Fields) -> str:
    """Return the `json_line` of an exchange, in which bytes that are not UTF-8 are U+FFFD."""
    return _replaced(json_line(fields))


def _replaced(line: str) -> str:
    return LONE.sub(_replacement, line) if NOT_UTF8 in line else line


def _replacement(found: re.Match[str]) -> str:
    if found[1] is None:
        return found[0]
    raw = bytes.fromhex(found[1].replace(NOT_UTF8, ""))
    return r"\ufffd" * len(raw.decode("utf-8", "replace"))


def json_line(fields: Fields) -> str:
    """Return an object as one line of ASCII, which any terminal can show whatever the capture holds."""
    text = encode(fields)
    return text.replace("\x7f", "\\u007f") if "\x7f" in text else text


def _encode_bytes(value: Any) -> str:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is not a type of JSON")


encode = json.JSONEncoder(
    separators=(",", ":"), check_circular=False, default=_encode_bytes, allow_nan=False
).encode
