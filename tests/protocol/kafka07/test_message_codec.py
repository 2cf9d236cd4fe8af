"""Messages of Kafka 0.7: bytes by hand from the guide for authors of drivers, and damaged ones."""

import random
import struct
from typing import Any

import pytest

from kdissect.protocol.kafka07.message_codec import (
    RequestType,
    decode_kafka07_request,
    decode_kafka07_response,
    kafka07_error_name,
    request_name,
)
from kdissect.protocol.kafka07.message_sets import (
    summarise_message_set,
)
from tests.helpers.kafka07_messages import SET, encode_kafka07_request, encode_kafka07_response

PART = b"\x00\x04test" + b"\x00\x00\x00\x07"
FETCHED = {"topic": "test", "partition": 7, "offset": 258, "max_size": 300_000}
PRODUCED = {"topic": "test", "partition": 7, "messages": SET}
ASKED = b"\x00\x00\x00\x00\x00\x00\x01\x02" + b"\x00\x04\x93\xe0"

REQUESTS: dict[RequestType, tuple[bytes, dict[str, Any]]] = {
    RequestType.PRODUCE: (b"\x00\x00" + PART + struct.pack(">i", len(SET)) + SET, PRODUCED),
    RequestType.FETCH: (b"\x00\x01" + PART + ASKED, FETCHED),
    RequestType.MULTI_FETCH: (b"\x00\x02\x00\x02" + (PART + ASKED) * 2, {"requests": [FETCHED, FETCHED]}),
    RequestType.MULTI_PRODUCE: (
        b"\x00\x03\x00\x01" + PART + struct.pack(">i", len(SET)) + SET,
        {"requests": [PRODUCED]},
    ),
    RequestType.OFFSETS: (
        b"\x00\x04" + PART + b"\xff" * 7 + b"\xfe" + b"\x00\x00\x00\x0a",
        {"topic": "test", "partition": 7, "time": -2, "max_number": 10},
    ),
}
RESPONSES: dict[RequestType, tuple[bytes, int, dict[str, Any]]] = {
    RequestType.FETCH: (b"\x00\x00" + SET, 0, {"messages": SET}),
    RequestType.MULTI_FETCH: (
        b"\x00\x00" + struct.pack(">ih", 2 + len(SET), 0) + SET + struct.pack(">ih", 2, 3),
        0,
        {"responses": [{"error_code": 0, "messages": SET}, {"error_code": 3, "messages": b""}]},
    ),
    RequestType.OFFSETS: (
        b"\x00\x00" + b"\x00\x00\x00\x02" + struct.pack(">qq", 9000, 0),
        0,
        {"offsets": [9000, 0]},
    ),
}


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.name)
def test_requests(kind: RequestType) -> None:
    raw, body = REQUESTS[kind]
    whole = decode_kafka07_request(raw)
    assert (whole.header, whole.body, whole.fault) == ({"request_type": kind}, body, None)
    assert encode_kafka07_request(kind, body) == raw


@pytest.mark.parametrize("kind", RESPONSES, ids=lambda kind: kind.name)
def test_responses(kind: RequestType) -> None:
    raw, code, body = RESPONSES[kind]
    whole = decode_kafka07_response(raw, kind)
    assert (whole.header, whole.body, whole.fault) == ({"error_code": code}, body, None)
    assert encode_kafka07_response(kind, code, body) == raw


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b"\x00", "request_type at byte 0: only 1 of 2 bytes"),
        (b"\x00\x09", "request_type at byte 0: unknown type 9"),
        (REQUESTS[RequestType.FETCH][0][:-1], "max_size at byte 20: only 3 of 4 bytes"),
        (REQUESTS[RequestType.FETCH][0] + b"xy", "message at byte 24: 2 bytes left over"),
        (
            REQUESTS[RequestType.MULTI_FETCH][0][:30],
            "requests[1].topic at byte 26: length 4, but 2 bytes left",
        ),
        (b"\x00\x02\xff\xff", "requests at byte 2: negative count -1"),
        (b"\x00\x03\x00", "requests at byte 2: only 1 of 2 bytes"),
    ],
)
def test_wrong_requests(raw: bytes, fault: str) -> None:
    assert str(decode_kafka07_request(raw).fault) == fault


@pytest.mark.parametrize(
    ("kind", "raw", "fault"),
    [
        (RequestType.FETCH, b"", "error_code at byte 0: only 0 of 2 bytes"),
        (RequestType.MULTI_FETCH, b"\0\0\0\0\0\1\0\0", "responses[0] at byte 2: size 1 is too small"),
        (RequestType.MULTI_FETCH, b"\0\0\0\0\0\x09\0\0", "responses[0] at byte 2: size 9, but 2 bytes left"),
        (RequestType.MULTI_FETCH, b"\0\0\0\0", "responses[0] at byte 2: only 2 of 6 bytes"),
        (
            RequestType.OFFSETS,
            b"\0\0\x7f\xff\xff\xff",
            "offsets at byte 2: 2147483647 elements, but 0 bytes left",
        ),
    ],
)
def test_wrong_responses(kind: RequestType, raw: bytes, fault: str) -> None:
    assert str(decode_kafka07_response(raw, kind).fault) == fault


def test_an_error_alone() -> None:
    for kind in RESPONSES:
        whole = decode_kafka07_response(b"\x00\x01", kind)
        assert (whole.header, whole.fault) == ({"error_code": 1}, None)
    assert kafka07_error_name(1) == "OFFSET_OUT_OF_RANGE"
    assert (kafka07_error_name(9), request_name(9)) == ("UNKNOWN(9)", "UNKNOWN(9)")


def test_whatever_is_wrong_is_a_fault_and_never_raised() -> None:
    chance = random.Random(7)
    frames = [raw for raw, _ in REQUESTS.values()] + [raw for raw, _, _ in RESPONSES.values()]
    for _ in range(4000):
        raw = bytearray(chance.choice(frames))
        for _ in range(chance.randint(0, 3)):
            raw[chance.randrange(len(raw))] = chance.choice((0, 1, 2, 127, 128, 255))
        cut = bytes(raw[: chance.randint(0, len(raw))])
        decode_kafka07_request(cut)
        for kind in RequestType:
            decode_kafka07_response(cut, kind)
        summarise_message_set(cut)


def test_every_cut_request_says_where_it_ends() -> None:
    for raw, _ in REQUESTS.values():
        for size in range(len(raw)):
            assert decode_kafka07_request(raw[:size]).fault is not None
