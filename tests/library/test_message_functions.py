"""Messages for programs: bytes-like input, the length in front, what is refused, and one type of error."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

import kdissect

METADATA = {"topics": [{"name": "orders"}]}
FRAME = kdissect.encode_request("Metadata", 8, METADATA, correlation_id=7, client_id="me")


def test_a_request_is_what_kafka_python_reads() -> None:
    # API key, version, correlation id, client id, then one topic and three booleans (Metadata v8).
    layout = struct.pack(">hhih2s", 3, 8, 7, 2, b"me") + struct.pack(">ih6s", 1, 6, b"orders") + b"\1\0\0"
    assert layout == FRAME


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("prefix", [b"", struct.pack(">i", len(FRAME))])
def test_any_bytes_with_or_without_length(kind: Callable[[bytes], Any], prefix: bytes) -> None:
    message = kdissect.decode_request(kind(prefix + FRAME))
    assert message.header["client_id"] == "me"
    assert message.body is not None
    assert message.body["topics"] == METADATA["topics"]


def test_a_length_that_must_be_there_is_checked() -> None:
    assert kdissect.decode_request(struct.pack(">i", len(FRAME)) + FRAME, length_prefix=True).version == 8
    with pytest.raises(kdissect.DecodeError, match="the length in front is 196616, but 23 bytes follow"):
        kdissect.decode_request(FRAME, length_prefix=True)


def test_a_response_is_read_at_the_version_of_its_request() -> None:
    body = {"throttle_time_ms": 3, "error_code": 25}
    frame = kdissect.encode_response("Heartbeat", 4, body, correlation_id=9, length_prefix=True)
    for api in ("Heartbeat", "heartbeat", 12):
        message = kdissect.decode_response(frame, api, 4)
        assert (message.header["correlation_id"], message.body) == (9, body)


@pytest.mark.parametrize(
    ("encode", "reason"),
    [
        (lambda: kdissect.encode_request("Fetch", 16, {"topics": None}), "topics is null"),
        (lambda: kdissect.encode_request("Metadata", 12, {"topic": []}), "has no field 'topic'"),
        (
            lambda: kdissect.encode_request("Heartbeat", 4, {"group_id": 7}),
            r"7 does not fit into group_id \(string\)",
        ),
        (
            lambda: kdissect.encode_request("Metadata", 12, {"topics": [{"name": 5}]}),
            r"5 does not fit into name \(string\)",
        ),
        (
            lambda: kdissect.encode_request("Metadata", 12, {"topics": 5}),
            r"5 does not fit into topics \(array of struct\)",
        ),
        (
            lambda: kdissect.encode_request("Fetch", 12, {"max_wait_ms": "x"}),
            r"'x' does not fit into max_wait_ms \(int32\)",
        ),
        (lambda: kdissect.encode_request("Fetch", 12, [1]), "a body is a dictionary of fields, not list"),
        (
            lambda: kdissect.encode_request("Heartbeat", 4, {"generation_id": 1 << 31}),
            "2147483648 does not fit into generation_id",
        ),
        (lambda: kdissect.encode_request("Heartbeat", 9, {}), "has the versions 0 to 4, not 9"),
        (
            lambda: kdissect.encode_request("Heartbeet", 4, {}),
            "'Heartbeet' is not an API of Kafka; did you mean 'Heartbeat'",
        ),
        (lambda: kdissect.encode_response(999, 0, {}), "999 is not an API"),
    ],
)
def test_what_does_not_fit_is_refused(encode: Callable[[], bytes], reason: str) -> None:
    with pytest.raises(kdissect.EncodeError, match=reason):
        encode()


@pytest.mark.parametrize("version", [3, 4])  # int16 lengths, and compact ones
def test_a_string_has_at_most_32767_bytes(version: int) -> None:
    longest = "ä" * 16_383
    body = {"group_id": longest + "x", "member_id": "", "generation_id": 1}
    decoded = kdissect.decode_request(kdissect.encode_request("Heartbeat", version, body))
    assert decoded.body is not None
    assert decoded.body["group_id"] == longest + "x"
    with pytest.raises(kdissect.EncodeError, match="group_id has 32,768 bytes"):
        kdissect.encode_request("Heartbeat", version, body | {"group_id": longest + "xx"})


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "only 0 of 2 bytes"),
        (FRAME[:-1], "bytes"),
        (FRAME + b"\0", "1 bytes left over"),
        (b"\x7f\xff" + FRAME[2:], "unknown API key 32767"),
        (struct.pack(">hhihhi", 1, 12, 1, -1, 0, 0)[:3], "only 1 of 2 bytes"),
    ],
)
def test_bytes_that_are_no_request_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(kdissect.DecodeError, match=reason):
        kdissect.decode_request(data)


def test_null_where_there_cannot_be_one_is_refused_when_read_too() -> None:
    frame = kdissect.encode_request("Heartbeat", 3, {"group_id": "", "member_id": ""})
    start = len(frame) - 2 - 2 - 4 - 2  # group id, generation, member id, instance id
    broken = frame[:start] + b"\xff\xff" + frame[start + 2 :]
    with pytest.raises(kdissect.CodecError, match=r"group_id at byte \d+: null"):
        kdissect.decode_request(broken)
