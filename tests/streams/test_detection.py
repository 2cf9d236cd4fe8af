"""Which protocol a connection speaks."""

import random
import struct

import pytest

from kdissect.jit.rows import array_of
from kdissect.streams.flow_state import PROTOCOL_NAMES
from tests.helpers.followed import brief, follow
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, request, response


@pytest.mark.parametrize("handshake", [True, False])
@pytest.mark.parametrize(
    "talk",
    [
        b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n" * 50,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" + bytes(18),
        b"*3\r\n$3\r\nSET\r\n$5\r\nkafka\r\n$5\r\nvalue\r\n" * 40,
        struct.pack(">ii", 8, 80877103)
        + struct.pack(">ii", 40, 196608)
        + b"user\0me\0database\0orders\0\0".ljust(32, b"\0"),
        b"AMQP\x00\x00\x09\x01"
        + b"\x01\x00\x00\x00\x00\x00\x0c\x00\x0a\x00\x0b\x00\x00\x00\x00\x00\x00\xce" * 20,
        bytes(4096),
        random.Random(1).randbytes(20_000),
    ],
    ids=["http", "http2", "redis", "postgres", "amqp", "zeros", "random"],
)
def test_what_is_not_kafka_gives_no_frames(wire: Wire, talk: bytes, handshake: bool) -> None:
    if handshake:
        wire.open()
    for start in range(0, len(talk), 1000):
        wire.send(CLIENT, talk[start : start + 1000]).send(SERVER, talk[start : start + 1000][::-1])
    found, conversations = follow(wire)
    assert found == []
    assert PROTOCOL_NAMES[array_of(conversations.state.connections)["protocol"][0]] == "unknown"


def test_tls_is_recognised(wire: Wire) -> None:
    hello = b"\x16\x03\x01\x00\x50\x01" + b"h" * 79
    data = b"\x17\x03\x03\x01\x00" + random.Random(2).randbytes(256)
    found, conversations = follow(wire.open().send(CLIENT, hello).send(SERVER, hello).send(CLIENT, data * 5))
    assert found == []
    assert PROTOCOL_NAMES[array_of(conversations.state.connections)["protocol"][0]] == "tls"


@pytest.mark.parametrize("cut", [1, 8, 9, 10])
def test_a_connection_may_end_with_what_begins_like_kafka_0_7(wire: Wire, cut: int) -> None:
    """The last request comes in two packets. The second one begins with the number 1, as a Fetch would."""
    body = struct.pack(">h1sih1s", 1, b"g", 1, 1, b"m")
    for number in range(100, 103):
        wire.send(CLIENT, request(12, 0, number, body)).send(SERVER, response(number, bytes(2)))
    last = request(12, 0, 103, body)
    wire.send(CLIENT, last[:-cut]).send(CLIENT, last[-cut:]).send(SERVER, response(103, bytes(2)))
    found, _ = follow(wire)
    assert brief(found) == [("answered", number) for number in range(100, 104)]
