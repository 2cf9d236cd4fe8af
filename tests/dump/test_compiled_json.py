"""Compiled writers against the plain way, over all messages of the schema: whole, cut and damaged."""

from random import Random
from typing import Any

import pytest

from kdissect.dump import jsonl
from kdissect.dump.compiled_json import is_compiled, request_text, response_text
from kdissect.dump.heading import exchange_heading
from kdissect.exchanges.decoded import DecodedExchange, header_client_id
from kdissect.exchanges.describe import DescribeOptions
from kdissect.exchanges.exchange import CapturedFrame, Exchange
from kdissect.protocol.codec.messages import decode_request, encode_request, encode_response
from kdissect.protocol.schema.registry import APIS, request_header_version
from tests.dump.handmade import StubReader
from tests.helpers.random_messages import random_message

ROUNDS = 12
TOPIC_ID = b"\x01" * 16
NAMES = {TOPIC_ID: "orders\x7f", bytes(16): "zero"}


def frames(rng: Random, key: int, version: int) -> tuple[bytes, bytes]:
    """Return a random request and its response, without tagged fields in half of the cases."""
    api, tags = APIS[key], rng.random() < 0.5
    header: dict[str, Any] = {"request_api_key": key, "request_api_version": version}
    header |= {"correlation_id": 7}
    if request_header_version(key, version):
        header["client_id"] = rng.choice(("me\x7f", "", None, "Ł"))
    bodies = [random_message(rng, message, version, tags=tags) for message in (api.request, api.response)]
    if not tags:
        bodies = [
            without_tags(body, message, version)
            for body, message in zip(bodies, (api.request, api.response), strict=True)
        ]
    request = encode_request(header, bodies[0])
    return request, encode_response(key, version, {"correlation_id": 7}, bodies[1])


def without_tags(value: Any, owner: Any, version: int) -> Any:
    """Return a made message without the tagged fields of its schema."""
    if isinstance(value, list):
        return [without_tags(item, owner, version) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {field.name: field for field in owner.fields if field.tag is None}
    return {name: without_tags(one, fields[name], version) for name, one in value.items() if name in fields}


def damaged(rng: Random, frame: bytes) -> bytes:
    """Return a frame as it is, cut, too long, or with one other byte."""
    kind, at = rng.randrange(4), rng.randrange(len(frame))
    if kind == 0:
        return frame
    if kind == 1:
        return frame[:at]
    if kind == 2:
        return frame + b"\0"
    return frame[:at] + bytes([rng.randrange(256)]) + frame[at + 1 :]


def both_ways(request: bytes | None, response: bytes, key: int, version: int) -> tuple[str, str]:
    """Return the line of an exchange as it is written, and as the plain way has it."""
    captured = [data and CapturedFrame(data, len(data), 5, 6, 7) for data in (request, response)]
    exchange = Exchange(0, 3, "answered", key, version, 7, 1, captured[0] or None, captured[1] or None)
    decoded, options, reader = DecodedExchange(exchange), DescribeOptions(NAMES), StubReader()
    quick = jsonl.exchange_line(DecodedExchange(exchange), reader, options)
    heading = exchange_heading(decoded, reader)
    return quick, jsonl.dump_line(jsonl.exchange_object(decoded, heading, options))


@pytest.mark.parametrize("key", APIS)
def test_the_line_is_that_of_the_plain_way(key: int) -> None:
    rng = Random(key)
    for version in APIS[key].versions:
        for _ in range(ROUNDS):
            request, response = frames(rng, key, version)
            quick, plain = both_ways(damaged(rng, request), damaged(rng, response), key, version)
            assert quick == plain


def test_most_messages_are_compiled() -> None:
    rng, compiled, seen = Random(1), 0, 0
    for key in (0, 1, 2, 3, 8, 9, 10, 12):  # what a capture is full of
        version = APIS[key].versions[-1]
        assert is_compiled(APIS[key].request, version)
        for _ in range(ROUNDS):
            request, response = frames(rng, key, version)
            texts = (
                request_text(request, NAMES, jsonl.json_line),
                response_text(response, key, version, NAMES, jsonl.json_line),
            )
            compiled, seen = compiled + sum(text is not None for text in texts), seen + 2
    assert compiled > seen / 3  # tagged fields and odd bools are in many of these


def test_names_of_topic_ids_and_errors_stand_beside_them() -> None:
    body = {"throttle_time_ms": 0, "error_code": 3, "session_id": 1, "responses": [{"topic_id": TOPIC_ID}]}
    frame = encode_response(1, 13, {"correlation_id": 7}, body)
    text = response_text(frame, 1, 13, NAMES, jsonl.json_line)
    assert text is not None
    assert '"error_code":3,"_error_code":"UNKNOWN_TOPIC_OR_PARTITION"' in text
    assert '"topic_id":"AQEBAQEBAQEBAQEBAQEBAQ","_topic_id":"orders' in text


def test_a_message_with_secrets_is_left_to_the_plain_way() -> None:
    assert not any(is_compiled(APIS[key].request, APIS[key].versions[-1]) for key in (33, 36, 51, 58))


def test_the_client_id_is_that_of_the_decoded_header() -> None:
    rng = Random(5)
    for key, api in APIS.items():
        for version in (*api.versions, api.versions[-1] + 1):
            frame, _ = frames(rng, key, min(version, api.versions[-1]))
            frame = frame[:2] + version.to_bytes(2, "big") + frame[4:]
            for data in (frame, frame[: rng.randrange(30)], b"\x7f\x7f" + frame[2:]):
                known, found = decode_request(data).header.get("client_id"), header_client_id(data)
                if known is None and found is not None:  # cut, and long enough to tell
                    assert len(found) >= 12
                    assert data.endswith(found.encode("utf-8", "surrogateescape"))
                else:
                    assert found == known
