"""Words beside numbers, bytes decoded in place, and nothing from a capture raw on a terminal."""

import json
import struct
from random import Random
from typing import Any

import pytest

from kdissect.dump.jsonl import json_line
from kdissect.dump.tree_text import format_scalar, tree_lines
from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.describe import (
    DescribeOptions,
    describe_request,
    describe_response,
)
from kdissect.exchanges.exchange import CapturedFrame, Exchange
from kdissect.exchanges.filter import mentioned_groups, mentioned_topics
from kdissect.protocol.codec.messages import (
    decode_request,
    decode_response,
    encode_embedded,
    encode_request,
    encode_response,
)
from kdissect.protocol.schema.registry import APIS, request_header_version
from tests.helpers.random_messages import random_message

TOPIC_ID = bytes(range(16))
NAMES = {TOPIC_ID: "orders"}


def header(key: int, version: int) -> dict[str, Any]:
    said: dict[str, Any] = {"request_api_key": key, "request_api_version": version, "correlation_id": 1}
    return said | ({"client_id": "c"} if request_header_version(key, version) else {})


def asked(
    key: int, version: int, body: dict[str, Any], showing: DescribeOptions | None = None
) -> dict[str, Any]:
    frame = encode_request(header(key, version), body)
    return describe_request(decode_request(frame), showing or DescribeOptions(NAMES))["body"]


def answered(
    key: int, version: int, body: dict[str, Any], request: dict[str, Any] | None = None
) -> dict[str, Any]:
    frame = encode_response(key, version, {"correlation_id": 1}, body)
    return describe_response(decode_response(frame, key, version), key, request, DescribeOptions(NAMES))[
        "body"
    ]


def test_ids_become_names_and_numbers_get_words() -> None:
    body = {"acks": -1, "timeout_ms": 5, "topic_data": [{"topic_id": TOPIC_ID, "partition_data": []}]}
    assert asked(0, 13, body) == {
        "transactional_id": None,
        "acks": -1,
        "_acks": "all",
        "timeout_ms": 5,
        "topic_data": [{"topic_id": "AAECAwQFBgcICQoLDA0ODw", "_topic_id": "orders", "partition_data": []}],
    }
    said = answered(
        0, 13, {"responses": [{"topic_id": bytes(16), "partition_responses": [{"error_code": 6}]}]}
    )
    partition = said["responses"][0]["partition_responses"][0]
    assert (partition["error_code"], partition["_error_code"]) == (6, "NOT_LEADER_OR_FOLLOWER")
    assert "_topic_id" not in said["responses"][0]


@pytest.mark.parametrize(
    ("key", "version", "body", "field", "word"),
    [
        (1, 4, {"isolation_level": 1}, "isolation_level", "read_committed"),
        (10, 1, {"key": "g", "key_type": 1}, "key_type", "transaction"),
        (29, 1, {"resource_type_filter": 2}, "resource_type_filter", "topic"),
        (29, 1, {"operation": 3}, "operation", "read"),
        (29, 1, {"permission_type": 3}, "permission_type", "allow"),
        (29, 1, {"pattern_type_filter": 4}, "pattern_type_filter", "prefixed"),
        (43, 1, {"election_type": 1}, "election_type", "unclean"),
        (72, 0, {"compression_type": 4}, "compression_type", "zstd"),
    ],
)
def test_enumerations(key: int, version: int, body: dict[str, Any], field: str, word: str) -> None:
    assert asked(key, version, body)[f"_{field}"] == word


def test_a_resource_of_configs_is_not_one_of_acls() -> None:
    said = asked(32, 1, {"resources": [{"resource_type": 4, "resource_name": "1"}]})
    assert said["resources"][0]["_resource_type"] == "broker"
    assert asked(30, 1, {"creations": [{"resource_type": 4}]})["creations"][0]["_resource_type"] == "cluster"


def test_operations_are_a_set_and_unasked_ones_have_no_words() -> None:
    group = {"authorized_operations": 1 << 3 | 1 << 8}
    assert answered(15, 3, {"groups": [group]})["groups"][0]["_authorized_operations"] == "read, describe"
    assert "_authorized_operations" not in answered(15, 3, {"groups": [{}]})["groups"][0]


SUBSCRIPTION = encode_embedded("ConsumerProtocolSubscription", 0, {"topics": ["orders"]})


def test_subscriptions_are_decoded_in_place_for_consumers_only() -> None:
    body = {
        "group_id": "g",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
    }
    said = asked(11, 5, body)["protocols"][0]
    assert said["_metadata"] == {"topics": ["orders"], "user_data": None}
    assert said["metadata"] == SUBSCRIPTION
    assert "_metadata" not in asked(11, 5, body | {"protocol_type": "connect"})["protocols"][0]
    member = {"members": [{"member_id": "m", "metadata": SUBSCRIPTION}]}
    assert "_metadata" in answered(11, 5, member)["members"][0]
    assert "_metadata" not in answered(11, 5, member, {"protocol_type": "connect"})["members"][0]


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def consumer_bytes(version: int) -> tuple[bytes, dict[str, Any], bytes, dict[str, Any]]:
    """A subscription and an assignment, byte by byte, and their text (ConsumerProtocol, versions 0 to 3)."""
    subscription = struct.pack(">hi", version, 1) + text("orders") + struct.pack(">i", 2) + b"ud"
    said: dict[str, Any] = {"topics": ["orders"], "user_data": b"ud"}
    if version >= 1:
        subscription += struct.pack(">i", 1) + text("orders") + struct.pack(">iii", 2, 0, 7)
        said["owned_partitions"] = [{"topic": "orders", "partitions": [0, 7]}]
    if version >= 2:
        subscription += struct.pack(">i", 41)
        said["generation_id"] = 41
    if version >= 3:
        subscription += text("rack-b")
        said["rack_id"] = "rack-b"
    assignment = struct.pack(">hi", version, 1) + text("orders") + struct.pack(">iii", 2, 3, 4) + b"\xff" * 4
    assigned = {"assigned_partitions": [{"topic": "orders", "partitions": [3, 4]}], "user_data": None}
    return subscription, said, assignment, assigned


@pytest.mark.parametrize("version", range(4))
def test_what_consumers_tell_each_other_is_read_in_every_message_that_carries_it(version: int) -> None:
    subscription, said, assignment, assigned = consumer_bytes(version)
    joined = answered(11, 5, {"members": [{"member_id": "m", "metadata": subscription}]})
    assert joined["members"][0]["_metadata"] == said
    synced = {"group_id": "g", "assignments": [{"member_id": "m", "assignment": assignment}]}
    assert asked(14, 3, synced)["assignments"][0]["_assignment"] == assigned
    assert answered(14, 3, {"assignment": assignment})["_assignment"] == assigned
    member = {"member_id": "m", "member_metadata": subscription, "member_assignment": assignment}
    described = answered(15, 5, {"groups": [{"protocol_type": "consumer", "members": [member]}]})
    assert described["groups"][0]["members"][0]["_member_metadata"] == said
    assert described["groups"][0]["members"][0]["_member_assignment"] == assigned


def test_bytes_that_do_not_hold_what_they_should_say_so() -> None:
    body = {
        "group_id": "g",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION[:-3]}],
    }
    said = asked(11, 5, body)["protocols"][0]["_metadata"]
    assert said["topics"] == ["orders"]
    assert said["_fault"] == "user_data at byte 14: only 1 of 4 bytes"


def test_the_fault_of_a_cut_message_stands_beside_what_could_be_read() -> None:
    frame = encode_request(header(3, 4), {"topics": [{"name": "aaaa"}, {"name": "bbbb"}]})[:-4]
    said = describe_request(decode_request(frame), DescribeOptions(NAMES))
    assert said["body"]["topics"] == [{"name": "aaaa"}, {}]
    assert said["fault"] == {"path": "topics[1].name", "offset": 21, "reason": "length 4, but 1 bytes left"}


HOSTILE = "\x1b[2J\x07\u202eevil\u2066\x7f\x9b\r\n\udcff"
HIDDEN = {*map(chr, range(0x20)), "\x7f", "\x9b", "\u202e", "\u2066", "\udcff"} - {"\n"}


def test_hostile_text_never_reaches_a_terminal_raw() -> None:
    rng = Random(11)
    for key, api in APIS.items():
        for response, message in ((False, api.request), (True, api.response)):
            version = message.versions[-1]
            body = _poisoned(random_message(rng, message, version))
            frame = (
                encode_response(key, version, {"correlation_id": 1}, body)
                if response
                else encode_request(header(key, version), body)
            )
            said = (
                describe_response(
                    decode_response(frame, key, version), key, None, DescribeOptions({}, True, True)
                )
                if response
                else describe_request(decode_request(frame), DescribeOptions({}, True, True))
            )
            text = json_line(said)
            assert text.isascii()
            assert text.isprintable()
            json.loads(text)
            shown = list(tree_lines(said["body"] or {}))
            assert not HIDDEN & set("".join(shown))
            assert not any("\n" in line for line in shown)


def _poisoned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: item if name == "_tags" else _poisoned(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_poisoned(item) for item in value]
    return HOSTILE if isinstance(value, str) else value


def test_bytes_are_text_where_they_are_text() -> None:
    assert format_scalar(b'{"a": 1}') == '"{\\"a\\": 1}"'
    assert format_scalar(b"\x1b[2J") == "0x1b5b324a"
    assert format_scalar(b"\xff\xfe") == "0xfffe"
    assert format_scalar(b"") == '""'
    assert format_scalar(b"x" * 5000).endswith(" … 3,976 bytes more")


def test_numbers_keep_all_their_digits_and_what_is_no_number_is_said() -> None:
    said = answered(
        2, 1, {"topics": [{"name": "t", "partitions": [{"offset": 2**63 - 1, "timestamp": -(2**63)}]}]}
    )
    partition = json.loads(json_line(said))["topics"][0]["partitions"][0]
    assert (partition["offset"], partition["timestamp"]) == (2**63 - 1, -(2**63))
    entry = {"entity": [], "values": [{"key": "rate", "value": float("nan")}]}
    said = json.loads(json_line(answered(48, 0, {"entries": [entry]})))
    assert said["entries"][0]["values"] == [{"key": "rate", "value": None, "_value": "nan"}]


def test_damaged_messages_are_shown_as_far_as_they_can_be_read() -> None:
    rng = Random(17)
    for key, api in APIS.items():
        for version in api.versions:
            for _ in range(4):
                request = _damaged(
                    rng, encode_request(header(key, version), random_message(rng, api.request, version))
                )
                answer = random_message(rng, api.response, version)
                response = _damaged(rng, encode_response(key, version, {"correlation_id": 1}, answer))
                decoded = DecodedExchange(_exchange(key, version, request, response))
                for showing in (DescribeOptions(NAMES), DescribeOptions(NAMES, records=True, secrets=True)):
                    said = {"request": None, "response": None}
                    if decoded.request:
                        said["request"] = describe_request(decoded.request, showing)
                    if decoded.response:
                        said["response"] = describe_response(
                            decoded.response, key, decoded.request.body, showing
                        )
                    json.loads(json_line(said))
                    for half in said.values():
                        list(tree_lines(half["body"] or {}))
                list(mentioned_topics(decoded, NAMES))
                list(mentioned_groups(decoded))


def _exchange(key: int, version: int, request: bytes, response: bytes) -> Exchange:
    frames = [CapturedFrame(data, len(data), 1, 2, 1) for data in (request, response)]
    return Exchange(0, 0, "answered", key, version, 1, 1, *frames)


def _damaged(rng: Random, frame: bytes) -> bytes:
    broken = bytearray(frame)
    for _ in range(rng.randrange(3)):
        broken[rng.randrange(len(broken))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(broken[: rng.choice((len(broken), rng.randrange(len(broken) + 1)))])
