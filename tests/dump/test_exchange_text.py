"""The text of an exchange shows what is unusual: no request, no response, lost bytes, an unknown API."""

from typing import Any

import pytest

from kdissect.dump.exchange_text import brief_line, full_lines
from kdissect.dump.heading import exchange_heading
from kdissect.dump.jsonl import exchange_object, json_line
from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.describe import DescribeOptions
from kdissect.exchanges.exchange import Exchange
from tests.dump.handmade import REQUEST, RESPONSE, SECOND, StubReader, frame


def shown(exchange: Exchange) -> tuple[list[str], dict[str, Any]]:
    decoded = DecodedExchange(exchange)
    heading = exchange_heading(decoded, StubReader())  # type: ignore[arg-type]
    fields = exchange_object(decoded, heading, DescribeOptions({}))
    assert json_line(fields)
    text = list(full_lines(decoded, fields, {}))
    assert text[0] == brief_line(decoded, fields, {})
    return text, fields


def test_an_answered_request() -> None:
    text, fields = shown(
        Exchange(0, 3, "answered", 12, 0, 9, 1, frame(REQUEST, SECOND), frame(RESPONSE, SECOND + 1_500_000))
    )
    assert text == [
        (
            "1970-01-01T00:00:01.000000000Z  42#3  10.0.0.1:5000 > [::1]:9092  Heartbeat v0  #9  "
            '"m\\x1b"  1.500 ms  22/6 bytes  packets 7/7  group g  REBALANCE_IN_PROGRESS'
        ),
        "  request: 22 bytes, packet 7",
        '    group_id: "g"',
        "    generation_id: 4",
        '    member_id: "m"',
        "  response: 6 bytes, packet 7",
        "    error_code: 27 (REBALANCE_IN_PROGRESS)",
        "",
    ]
    assert fields["latency_ns"] == 1_500_000
    assert fields["capture_file"] == "some.pcap"


def test_no_answer_and_no_request() -> None:
    text, fields = shown(Exchange(0, 3, "unanswered", 12, 0, 9, 1, frame(REQUEST, SECOND), None))
    assert "UNANSWERED" in text[0]
    assert fields["response"] is None
    text, fields = shown(
        Exchange(0, None, "orphan_response", None, None, 9, None, None, frame(RESPONSE, SECOND))
    )
    assert "NO REQUEST" in text[0]
    assert (fields["request"], fields["api_name"], fields["response"]["header"]) == (
        None,
        None,
        {"correlation_id": 9},
    )
    assert "fault" not in fields["response"]
    assert not any("FAULT" in line for line in text)


def test_lost_bytes_are_counted_and_what_is_there_is_shown() -> None:
    text, fields = shown(Exchange(0, 3, "unanswered", 12, 0, 9, 1, frame(REQUEST, SECOND, lost=2), None))
    assert "2 bytes not captured" in text[0]
    assert '    group_id: "g"' in text
    assert fields["lost_bytes"] == 2
    assert fields["request"]["fault"]["path"] == "member_id"
    assert fields["request_last_ns"] is None


@pytest.mark.parametrize(("key", "version"), [(12, 99), (999, 0)])
def test_what_nobody_knows_keeps_its_header(key: int, version: int) -> None:
    data = key.to_bytes(2, "big") + version.to_bytes(2, "big") + REQUEST[4:]
    text, fields = shown(Exchange(0, 3, "unanswered", key, version, 9, 1, frame(data, SECOND), None))
    assert fields["request"]["body"] is None
    assert fields["correlation_id"] == 9
    assert "unknown" in fields["request"]["fault"]["reason"]
    assert "FAULT" in text[0]
