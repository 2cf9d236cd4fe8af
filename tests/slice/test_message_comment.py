"""Comments about exchanges, whatever is missing or hostile in them."""

from typing import Any

from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.exchange import CapturedFrame, Exchange
from kdissect.protocol.codec.messages import encode_request, encode_response
from kdissect.slice.message_comment import message_comments

MS = 10**6
HEADER = {"request_api_key": 0, "request_api_version": 9, "correlation_id": 41, "client_id": "me"}


def frame(data: bytes, first_ns: int) -> CapturedFrame:
    return CapturedFrame(data, len(data), first_ns, first_ns, 1)


def produce(topic: str, partitions: int, code: int, **fields: Any) -> DecodedExchange:
    data = [{"index": index, "records": b""} for index in range(partitions)]
    body = {"transactional_id": None, "acks": 1, "timeout_ms": 0,
            "topic_data": [{"name": topic, "partition_data": data}]}  # fmt: skip
    results = [{"index": index, "error_code": code, "base_offset": 0} for index in range(partitions)]
    answer = {"responses": [{"name": topic, "partition_responses": results}]}
    exchange = Exchange(
        0, 0, "answered", 0, 9, 41, 1, frame(encode_request(HEADER, body), 0),
        frame(encode_response(0, 9, {"correlation_id": 41}, answer), 812 * MS),
    )  # fmt: skip
    return DecodedExchange(exchange._replace(**fields))


def test_request_and_response_name_each_other() -> None:
    assert message_comments(produce("orders", 1, 6), {}) == (
        "Produce v9 #41 to orders-0, answered after 812 ms: NOT_LEADER_OR_FOLLOWER",
        "Response to Produce v9 #41 to orders-0, after 812 ms: NOT_LEADER_OR_FOLLOWER",
    )
    many, _ = message_comments(produce("orders", 9, 0), {})
    assert many == "Produce v9 #41 to orders-0, orders-1, orders-2 and 6 more, answered after 812 ms"


def test_what_is_missing_is_said() -> None:
    unanswered = produce("orders", 1, 0, response=None, status="unanswered")
    assert message_comments(unanswered, {}) == ("Produce v9 #41 to orders-0, not answered", "")
    orphan = produce(
        "orders", 1, 0, request=None, status="orphan_response", api_key=None, api_version=None, ordinal=None
    )
    assert message_comments(orphan, {}) == ("", "Response to a request #41, request not captured")


def test_hostile_names_are_escaped_and_cut() -> None:
    request, _ = message_comments(produce("a\x1b[31m\u202e\n" + "x" * 500, 1, 0), {})
    assert "a\\x1b[31m\\u202e\\x0a" in request
    assert request.isprintable()
    assert len(request) < 200
