"""The object of an exchange, and its line of JSON."""

import io
import json
from typing import Any

import pyarrow.json
import pytest

from kdissect.dump.heading import exchange_heading
from kdissect.dump.jsonl import dump_line, exchange_line, exchange_object, json_line
from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.describe import DescribeOptions
from kdissect.exchanges.exchange import CapturedFrame, Exchange
from kdissect.protocol.codec.messages import encode_request
from kdissect.tables.schemas import EXCHANGES
from tests.dump.handmade import REQUEST, RESPONSE, SECOND, StubReader, frame


def fields_of(request: CapturedFrame | None, response: CapturedFrame | None, **more: Any) -> dict[str, Any]:
    exchange = Exchange(0, 3, "answered", 12, 0, 9, 1, request, response, **more)
    decoded = DecodedExchange(exchange)
    heading = exchange_heading(decoded, StubReader())  # type: ignore[arg-type]
    return exchange_object(decoded, heading, DescribeOptions({}))


def test_the_heading_has_columns_of_the_table() -> None:
    fields = fields_of(frame(REQUEST, SECOND), frame(RESPONSE, SECOND + 1_500_000))
    own = {"client", "server", "lost_bytes", "request", "response"}
    assert fields.keys() - own <= set(EXCHANGES.names)
    assert (fields["connection"], fields["latency_ns"], fields["client_id"]) == (42, 1_500_000, "m\x1b")
    assert (fields["request_bytes"], fields["response_bytes"], fields["lost_bytes"]) == (22, 6, 0)
    assert (fields["request_packet"], fields["response_packet"]) == (7, 7)
    assert fields["capture_file"] == "some.pcap"


def test_a_packet_counts_only_in_the_file_of_its_request() -> None:
    fields = fields_of(frame(REQUEST, SECOND), frame(RESPONSE, SECOND, split=1))
    assert fields["capture_file"] == "some.pcap"
    assert (fields["request_packet"], fields["response_packet"]) == (7, None)
    fields = fields_of(None, frame(RESPONSE, SECOND, split=1))
    assert (fields["capture_file"], fields["response_packet"]) == ("other.pcap", 7)


def test_lost_bytes_and_a_lost_first_packet() -> None:
    lost = frame(REQUEST, SECOND, lost=2)._replace(packet=-1)
    fields = fields_of(lost, frame(RESPONSE, SECOND, lost=3))
    assert fields["lost_bytes"] == 5
    assert (fields["request_packet"], fields["response_packet"], fields["capture_file"]) == (None, None, None)
    assert fields["latency_ns"] is None


def test_raw_tokens_have_a_mechanism_and_no_secret() -> None:
    fields = fields_of(frame(b"\0user\0secret", SECOND), None, is_token=True)
    assert (fields["api_name"], fields["sasl_mechanism"]) == ("SaslToken", "PLAIN")
    assert "secret" not in json_line(fields)


def test_a_line_is_ascii_and_has_all_digits() -> None:
    line = json_line({"key": b"\x00\xff", "offset": (1 << 63) - 1, "name": "a\x7f\x1b\u202e\n\ud800"})
    assert line == r'{"key":"AP8=","offset":9223372036854775807,"name":"a\u007f\u001b\u202e\n\ud800"}'
    assert json.loads(line)["name"] == "a\x7f\x1b\u202e\n\ud800"


@pytest.mark.parametrize(
    "raw",
    [
        b"a\xff\xfeb",
        b"\xe2\x82",
        b"\xe2\x82A\x80",
        b"\xf0\x9f\x91\x8d\xff",
        b"\xed\xa0\x80",
        b"\\udc80 \\\\udc80",
    ],
)
def test_bytes_that_are_not_utf8_are_replaced_as_in_tables(raw: bytes) -> None:
    name = raw.decode("utf-8", "surrogateescape")
    header = {"request_api_key": 12, "request_api_version": 0, "correlation_id": 9, "client_id": name}
    body = {"group_id": name, "generation_id": 4, "member_id": "m"}
    request = frame(encode_request(header, body), SECOND)
    exchange = Exchange(0, 3, "answered", 12, 0, 9, 1, request, frame(RESPONSE, SECOND))
    reader: Any = StubReader()
    quick = exchange_line(DecodedExchange(exchange), reader, DescribeOptions({}))
    plain = dump_line(fields_of(request, frame(RESPONSE, SECOND)))
    expected = raw.decode("utf-8", "replace")
    for line in (quick, plain):
        assert json.loads(line)["client_id"] == expected
        assert json.loads(line)["request"]["body"]["group_id"] == expected
        assert pyarrow.json.read_json(io.BytesIO(line.encode()))["client_id"].to_pylist() == [expected]
