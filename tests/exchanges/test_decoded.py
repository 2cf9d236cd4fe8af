"""Exchanges whose messages are decoded when they are first read, and what both messages mention."""

from typing import Any

import pytest

from kdissect.exchanges import decoded
from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.exchange import CapturedFrame, Exchange
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import decode_request, encode_request, encode_response
from kdissect.protocol.kafka07.message_codec import RequestType
from tests.helpers.kafka07_messages import encode_kafka07_request, encode_kafka07_response

TOPICS, ERRORS = frozenset({"topic"}), frozenset({"error"})
PRODUCE: dict[str, Any] = {
    "acks": 1,
    "timeout_ms": 0,
    "topic_data": [{"name": "orders", "partition_data": []}],
}
PRODUCED = {"responses": [{"name": "orders", "partition_responses": [{"error_code": 6}]}]}


def request(key: int, version: int, body: dict[str, Any]) -> bytes:
    header = {"request_api_key": key, "request_api_version": version, "correlation_id": 1, "client_id": "me"}
    return encode_request(header, body)


def response(key: int, version: int, body: dict[str, Any]) -> bytes:
    return encode_response(key, version, {"correlation_id": 1}, body)


def exchange(
    key: int | None, version: int | None, request: bytes | None, response: bytes | None, **fields: Any
) -> Exchange:
    frames = (
        None if data is None else CapturedFrame(data, len(data), 1, 2, 1) for data in (request, response)
    )
    return Exchange(0, 0, "answered", key, version, 1, 1, *frames, **fields)


def mentioned(one: Exchange, roles: frozenset[str], responses_only: bool = False) -> list[Any]:
    return [value for _, value, _ in DecodedExchange(one).mentions(roles, responses_only)]


@pytest.fixture
def produce() -> Exchange:
    return exchange(0, 3, request(0, 3, PRODUCE), response(0, 3, PRODUCED))


def test_an_answer_to_a_version_of_api_versions_that_is_not_known_has_its_error() -> None:
    asked = request(18, 3, {}).replace(b"\0\x12\0\x03", b"\0\x12\0\x09", 1)
    answer = response(18, 0, {"error_code": 35, "api_keys": []})
    assert mentioned(exchange(18, 9, asked, answer), ERRORS) == [35]
    assert mentioned(exchange(18, 9, asked, response(18, 4, {"error_code": 0})), ERRORS) == []
    assert mentioned(exchange(0, 99, None, response(0, 3, PRODUCED)), ERRORS) == []


def test_a_message_is_decoded_once_and_not_before_it_is_read(
    produce: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    decode = decode_request
    monkeypatch.setattr(decoded, "decode_request", lambda data: calls.append(data) or decode(data))
    once = DecodedExchange(produce)
    assert calls == []
    assert once.request is once.request
    assert once.client_id == "me"
    assert len(calls) == 1


def test_both_messages_are_searched_the_request_first(produce: Exchange) -> None:
    assert mentioned(produce, TOPICS | ERRORS) == ["orders", "orders", 6]
    assert mentioned(produce, TOPICS | ERRORS, responses_only=True) == ["orders", 6]


def test_half_an_exchange_has_what_was_captured_of_it(produce: Exchange) -> None:
    without_response = DecodedExchange(produce._replace(response=None))
    assert without_response.response is None
    assert [value for _, value, _ in without_response.mentions(TOPICS)] == ["orders"]
    orphan = DecodedExchange(exchange(None, None, None, response(0, 3, PRODUCED)))
    assert (orphan.request, orphan.client_id) == (None, None)
    assert orphan.response is not None
    assert orphan.response.header["correlation_id"] == 1
    assert list(orphan.mentions(TOPICS)) == []


def test_a_raw_sasl_token_is_not_decoded() -> None:
    token = DecodedExchange(exchange(None, None, b"\0user\0secret", b"", is_token=True))
    assert (token.request, token.response, token.client_id) == (None, None, None)
    assert list(token.mentions(TOPICS | ERRORS)) == []


@pytest.mark.parametrize(("key", "version"), [(500, 0), (0, 99), (0, None)])
def test_unknown_apis_and_versions_mention_nothing(produce: Exchange, key: int, version: int | None) -> None:
    assert mentioned(produce._replace(api_key=key, api_version=version), TOPICS) == []


def test_a_damaged_message_mentions_what_could_be_read_of_it(produce: Exchange) -> None:
    assert produce.request is not None
    body = PRODUCE | {"topic_data": [*PRODUCE["topic_data"], {"name": "bills", "partition_data": []}]}
    data = request(0, 3, body)[:-7]
    cut = produce._replace(request=produce.request._replace(data=data), response=None)
    assert mentioned(cut, TOPICS) == ["orders"]


def test_the_exchange_inside_an_envelope_is_searched_too() -> None:
    inner = response(0, 3, PRODUCED)
    enveloped = exchange(
        ApiKey.ENVELOPE,
        0,
        request(
            ApiKey.ENVELOPE, 0, {"request_data": request(0, 3, PRODUCE), "client_host_address": b"\x7f\0\0\1"}
        ),
        response(ApiKey.ENVELOPE, 0, {"response_data": inner, "error_code": 0}),
    )
    assert mentioned(enveloped, TOPICS) == ["orders", "orders"]
    assert mentioned(enveloped, ERRORS) == [0, 6]


def test_an_envelope_with_no_request_inside_is_searched_by_itself() -> None:
    for data in (b"", b"\x7f\xff\0\0", b"\0"):
        envelope = request(ApiKey.ENVELOPE, 0, {"request_data": data})
        answer = response(ApiKey.ENVELOPE, 0, {"error_code": 31})
        assert mentioned(exchange(ApiKey.ENVELOPE, 0, envelope, answer), TOPICS | ERRORS) == [31]


def test_kafka_0_7_is_decoded_by_its_own_codec() -> None:
    fetch = {"topic": "orders", "partition": 0, "offset": 7, "max_size": 100}
    one = exchange(
        RequestType.FETCH,
        None,
        encode_kafka07_request(RequestType.FETCH, fetch),
        encode_kafka07_response(RequestType.FETCH, 1, {"messages": b""}),
        is_kafka07=True,
    )
    whole = DecodedExchange(one)
    assert whole.request is not None
    assert whole.request.body == fetch
    assert mentioned(one, TOPICS | ERRORS) == ["orders", 1]
