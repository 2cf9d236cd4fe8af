"""What is odd about an exchange is said where it is: no request, no answer, lost bytes, unknown APIs and versions."""

from typing import Any

import pytest

from kdissect.dump.exchange_text import brief_line, full_lines
from kdissect.dump.jsonl import (
    exchange_heading,
    exchange_object,
    json_line,
)
from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.describe import DescribeOptions
from kdissect.exchanges.exchange import Exchange, Frame
from kdissect.protocol.codec.messages import encode_request, encode_response

SECOND = 10**9


class Follower:
    """Stands for the way through a capture."""

    def identity(self, connection: int) -> int:
        return 42

    def addresses(self, connection: int) -> tuple[str, str]:
        return "10.0.0.1:5000", "[::1]:9092"

    def file_name(self, split: int) -> str:
        return "some.pcap"


def frame(data: bytes, first_ns: int, lost: int = 0) -> Frame:
    return Frame(data[: len(data) - lost], len(data), first_ns, None if lost else first_ns, 7)


def shown(exchange: Exchange) -> tuple[list[str], dict[str, Any]]:
    spoken = DecodedExchange(exchange)
    said = exchange_object(spoken, exchange_heading(spoken, Follower()), DescribeOptions({}))  # type: ignore[arg-type]
    assert json_line(said)
    text = list(full_lines(spoken, said, {}))
    assert text[0] == brief_line(spoken, said, {})
    return text, said


REQUEST = encode_request(
    {"request_api_key": 12, "request_api_version": 0, "correlation_id": 9, "client_id": "m\x1b"},
    {"group_id": "g", "generation_id": 4, "member_id": "m"},
)
RESPONSE = encode_response(12, 0, {"correlation_id": 9}, {"error_code": 27})


def test_an_answered_request() -> None:
    text, said = shown(
        Exchange(0, 3, "answered", 12, 0, 9, 1, frame(REQUEST, SECOND), frame(RESPONSE, SECOND + 1_500_000))
    )
    assert text == [
        (
            '1970-01-01T00:00:01.000000000Z  10.0.0.1:5000 > [::1]:9092  Heartbeat v0  #9  "m\\x1b"  1.500 ms  22/6 bytes'
            "  group g  REBALANCE_IN_PROGRESS"
        ),
        "  request: 22 bytes, packet 7",
        '    group_id: "g"',
        "    generation_id: 4",
        '    member_id: "m"',
        "  response: 6 bytes, packet 7",
        "    error_code: 27 (REBALANCE_IN_PROGRESS)",
        "",
    ]
    assert said["latency_ns"] == 1_500_000
    assert said["capture_file"] == "some.pcap"


def test_no_answer_and_no_request() -> None:
    text, said = shown(Exchange(0, 3, "unanswered", 12, 0, 9, 1, frame(REQUEST, SECOND), None))
    assert "UNANSWERED" in text[0]
    assert said["response"] is None
    text, said = shown(
        Exchange(0, None, "orphan_response", None, None, 9, None, None, frame(RESPONSE, SECOND))
    )
    assert "NO REQUEST" in text[0]
    assert (said["request"], said["api_name"], said["response"]["header"]) == (
        None,
        None,
        {"correlation_id": 9},
    )
    assert "fault" not in said["response"]
    assert not any("FAULT" in line for line in text)


def test_lost_bytes_are_counted_and_what_is_there_is_shown() -> None:
    text, said = shown(Exchange(0, 3, "unanswered", 12, 0, 9, 1, frame(REQUEST, SECOND, lost=2), None))
    assert "2 bytes not captured" in text[0]
    assert '    group_id: "g"' in text
    assert said["lost_bytes"] == 2
    assert said["request"]["fault"]["path"] == "member_id"
    assert said["request_last_ns"] is None


@pytest.mark.parametrize(("key", "version"), [(12, 99), (999, 0)])
def test_what_nobody_knows_keeps_its_header(key: int, version: int) -> None:
    data = key.to_bytes(2, "big") + version.to_bytes(2, "big") + REQUEST[4:]
    text, said = shown(Exchange(0, 3, "unanswered", key, version, 9, 1, frame(data, SECOND), None))
    assert said["request"]["body"] is None
    assert said["correlation_id"] == 9
    assert "unknown" in said["request"]["fault"]["reason"]
    assert "FAULT" in text[0]
