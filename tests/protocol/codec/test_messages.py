"""Whole frames: header versions, the answer that ignores what was asked, and messages inside bytes."""

from random import Random
from typing import Any

import numpy as np
import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import (
    DecodedMessage,
    DecodeError,
    Fault,
    decode_embedded,
    decode_request,
    decode_response,
    encode_embedded,
    encode_request,
    encode_response,
    enveloped_api,
    require_embedded,
)
from kdissect.protocol.columnar.batch_reader import read
from kdissect.protocol.schema.definition import Api
from kdissect.protocol.schema.registry import APIS
from tests.helpers.handmade_messages import raw
from tests.helpers.random_messages import random_message


def header(
    key: int, version: int, correlation_id: int = 7, client_id: str | None = "c", **more: Any
) -> dict[str, Any]:
    return {
        "request_api_key": key,
        "request_api_version": version,
        "correlation_id": correlation_id,
        "client_id": client_id,
        **more,
    }


REQUESTS = [
    # header 0: no client id at all
    (
        "0007 0000 00000007  00000003",
        {"request_api_key": 7, "request_api_version": 0, "correlation_id": 7},
        {"broker_id": 3},
    ),
    # header 1
    ('000a 0000 00000007 0001 "c"  0001 "g"', header(10, 0), {"key": "g"}),
    ('000a 0000 ffffffff ffff  0001 "g"', header(10, 0, -1, None), {"key": "g"}),
    # header 2: the client id still has two bytes of length, then the tagged fields
    ('000a 0003 00000007 0001 "c" 00  02 "g" 01 00', header(10, 3), {"key": "g", "key_type": 1}),
    (
        '000a 0003 00000007 0001 "c" 01 05 01 ff  02 "g" 01 00',
        header(10, 3, _tags=[(5, b"\xff")]),
        {"key": "g", "key_type": 1},
    ),
]


@pytest.mark.parametrize(("text", "head", "body"), REQUESTS)
def test_requests(text: str, head: dict[str, Any], body: dict[str, Any]) -> None:
    frame = raw(text)
    assert decode_request(frame) == DecodedMessage(head, body, head["request_api_version"], None)
    assert encode_request(head, body) == frame
    for stop in range(len(frame)):
        cut = decode_request(frame[:stop])
        assert cut.fault is not None
        assert cut.fault.offset <= stop
        assert cut.header.items() <= head.items()


RESPONSES = [
    (12, 0, "00000007  001b", {"error_code": 27}),
    (12, 4, "00000007 00  00000000 001b 00", {"throttle_time_ms": 0, "error_code": 27}),
    (18, 3, "00000007  0000 01 00000000 00", {"error_code": 0, "api_keys": [], "throttle_time_ms": 0}),
]


@pytest.mark.parametrize(("key", "version", "text", "body"), RESPONSES)
def test_responses(key: int, version: int, text: str, body: dict[str, Any]) -> None:
    frame = raw(text)
    assert decode_response(frame, key, version) == DecodedMessage({"correlation_id": 7}, body, version, None)
    assert encode_response(key, version, {"correlation_id": 7}, body) == frame
    for stop in range(len(frame)):
        assert decode_response(frame[:stop], key, version).fault is not None


@pytest.mark.parametrize("asked", [1, 3, 4, 5, 99])
def test_an_unsupported_version_of_api_versions_is_answered_in_version_0(asked: int) -> None:
    """KIP-511: so a client learns which versions there are although it asked in one that is not."""
    frame = raw("00000007  0023 00000001 0012 0000 0003")
    body = {"error_code": 35, "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 3}]}
    assert decode_response(frame, 18, asked) == DecodedMessage({"correlation_id": 7}, body, 0, None)


def test_an_unknown_api_or_version_keeps_its_header() -> None:
    request = raw('7ffe 0000 00000007 0001 "c" abcd')
    assert decode_request(request) == DecodedMessage(
        header(32766, 0), None, None, Fault("", 11, "unknown API key 32766")
    )
    assert decode_response(request, 32766, 0).fault == Fault("", 4, "unknown API key 32766")
    request = raw('0000 03e7 00000007 0001 "c" 00 abcd')  # flexible, as all later versions are
    assert decode_request(request) == DecodedMessage(
        header(0, 999), None, None, Fault("", 12, "unknown version 999 of Produce")
    )
    assert decode_response(raw("00000007 00 ab"), 0, 999).fault == Fault(
        "", 5, "unknown version 999 of Produce"
    )
    assert decode_request(raw("0000 ffff 00000007 ffff")).fault == Fault(
        "", 10, "unknown version -1 of Produce"
    )


def test_a_header_that_is_cut_off() -> None:
    assert decode_request(b"\0") == DecodedMessage(
        {}, None, None, Fault("request_api_key", 0, "only 1 of 2 bytes")
    )
    cut = decode_request(raw('000a 0003 00000007 0005 "c"'))
    assert cut.fault == Fault("client_id", 8, "length 5, but 1 bytes left")
    assert cut.header["correlation_id"] == 7
    assert decode_request(raw("005d 0000 00000007")).fault == Fault("client_id", 8, "only 0 of 2 bytes")
    assert decode_response(b"\0\0", 0, 0).fault == Fault("correlation_id", 0, "only 2 of 4 bytes")


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_random_frames_come_back(api: Api) -> None:
    for version in api.versions:
        rng = Random(f"{api.name}{version}")
        head = header(api.key, version)
        if (api.key, version) == (7, 0):
            del head["client_id"]
        body = random_message(rng, api.request, version)
        assert decode_request(encode_request(head, body)) == DecodedMessage(head, body, version, None)
        body = random_message(rng, api.response, version)
        if body.get("error_code") == 35:
            body["error_code"] = 0
        frame = encode_response(api.key, version, {"correlation_id": 1}, body)
        assert decode_response(frame, api.key, version) == DecodedMessage(
            {"correlation_id": 1}, body, version, None
        )


EMBEDDED = [
    (
        "ConsumerProtocolSubscription",
        0,
        '0000 00000001 0001 "t" ffffffff',
        {"topics": ["t"], "user_data": None},
    ),
    (
        "ConsumerProtocolSubscription",
        3,
        '0003 00000000 00000000 00000001 0001 "t" 00000002 00000000 00000001 00000005 0001 "r"',
        {
            "topics": [],
            "user_data": b"",
            "owned_partitions": [{"topic": "t", "partitions": [0, 1]}],
            "generation_id": 5,
            "rack_id": "r",
        },
    ),
    (
        "ConsumerProtocolAssignment",
        1,
        '0001 00000001 0001 "t" 00000001 00000004 ffffffff',
        {"assigned_partitions": [{"topic": "t", "partitions": [4]}], "user_data": None},
    ),
    ("ControlRecordType", 0, "0000 0001", {"type": 1}),
    ("EndTxnMarker", 0, "0000 00000009", {"coordinator_epoch": 9}),
    # In the KRaft records the version is the body's own first field.
    (
        "LeaderChange",
        0,
        "0000 00000001 02 00000001 00 01 00",
        {"version": 0, "leader_id": 1, "voters": [{"voter_id": 1}], "granting_voters": []},
    ),
    ("KRaftVersion", 0, "0000 0001 00", {"version": 0, "kraft_version": 1}),
    (
        "DefaultPrincipalData",
        0,
        '0000 05 "User" 06 "alice" 00 00',
        {"type": "User", "name": "alice", "token_authenticated": False},
    ),
]


@pytest.mark.parametrize(("name", "version", "text", "value"), EMBEDDED)
def test_embedded_messages(name: str, version: int, text: str, value: dict[str, Any]) -> None:
    data = raw(text)
    assert decode_embedded(name, data) == (value, len(data), None)
    assert encode_embedded(name, version, value) == data
    assert decode_embedded(name, data + b"!").fault == Fault("", len(data), "1 bytes left over")
    for stop in range(len(data)):
        assert decode_embedded(name, data[:stop]).fault is not None


def test_an_embedded_message_newer_than_ours_is_read_as_far_as_we_know_it() -> None:
    data = raw('0009 00000001 0001 "t" ffffffff "more"')
    assert decode_embedded("ConsumerProtocolAssignment", raw('0009 00000000 ffffffff "more"')).value == {
        "assigned_partitions": [],
        "user_data": None,
    }
    assert decode_embedded("ConsumerProtocolAssignment", data[:-12]).fault is not None
    assert decode_embedded("ConsumerProtocolAssignment", raw("ffff")).fault == Fault(
        "", 0, "unknown version -1 of ConsumerProtocolAssignment"
    )


@pytest.mark.parametrize(
    ("version", "behind", "is_fault"),
    [
        (0, "00000000", False),
        (2, "00000000", False),
        (0, "00000001", True),
        (0, "000000", True),
        (3, "00000000", True),
    ],
)
def test_an_empty_array_may_stand_behind_api_versions(version: int, behind: str, is_fault: bool) -> None:
    """librdkafka writes it; both readers agree on what they let pass."""
    software = {"client_software_name": "a", "client_software_version": "b"} if version >= 3 else {}
    frame = encode_request(header(18, version), software) + bytes.fromhex(behind)
    assert (decode_request(frame).fault is not None) == is_fault
    ends = np.array([len(frame)])
    columns = read(
        np.frombuffer(frame, np.uint8),
        np.zeros(1, np.int64),
        ends,
        ends,
        np.array([18], np.int16),
        np.array([version], np.int16),
        np.array([False]),
    )
    assert (columns.fault_text(0) is not None) == is_fault


def test_what_an_envelope_carries() -> None:
    inner = encode_request(header(ApiKey.DELETE_TOPICS, 1), {"topic_names": ["orders"], "timeout_ms": 1})
    assert enveloped_api(inner) == (ApiKey.DELETE_TOPICS, 1)


@pytest.mark.parametrize(
    "data", ["", "00", "0014 00", "7fff 0000", "0014 7fff", "0014 ffff", "ffff 0000", "003a 0000 00000001"]
)
def test_an_envelope_of_nothing_known_or_of_another_envelope(data: str) -> None:
    assert enveloped_api(bytes.fromhex(data)) is None


def test_an_embedded_message_that_is_required() -> None:
    value = {"assigned_partitions": [{"topic": "orders", "partitions": [1]}], "user_data": None}
    data = encode_embedded("ConsumerProtocolAssignment", 1, value)
    assert require_embedded("ConsumerProtocolAssignment", data) == value
    for wrong in (data[:-1], b"", data.replace(b"\x00\x06orders", b"\xff\xff")):
        with pytest.raises(DecodeError, match="ConsumerProtocolAssignment: "):
            require_embedded("ConsumerProtocolAssignment", wrong)


def test_strictness_reaches_the_body_of_a_frame() -> None:
    frame = encode_request(
        header(ApiKey.HEARTBEAT, 0), {"group_id": "g", "generation_id": 1, "member_id": "m"}
    )
    nulled = frame[:-3] + b"\xff\xff"
    assert decode_request(nulled).fault is None
    assert decode_request(frame, strict=True).fault is None
    fault = decode_request(nulled, strict=True).fault
    assert fault is not None
    assert fault.path == "member_id"
    answer = raw("00000007 00000000 0000 ffff ffff 00000000")
    assert decode_response(answer, ApiKey.JOIN_GROUP, 0).fault is not None
    joined = raw("00000007 0000 00000001 ffff 0001 'm' 0001 'm' 00000000".replace("'", '"'))
    assert decode_response(joined, ApiKey.JOIN_GROUP, 0).fault is None
    assert decode_response(joined, ApiKey.JOIN_GROUP, 0, strict=True).fault is not None
