"""Which protocol a connection speaks."""

import random
import struct

import pytest

from kdissect.jit.rows import array_of
from kdissect.streams.flow_state import PROTOCOL_NAMES
from tests.helpers.followed import brief, follow
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, frame, request, response


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


def exchanges(wire: Wire, first: int, count: int = 4) -> list[tuple[str, int]]:
    for number in range(first, first + count):
        wire.send(CLIENT, request(3, 1, number), after_ms=30).send(SERVER, response(number, bytes(2)))
    return [("answered", number) for number in range(first, first + count)]


def test_a_large_response_behind_a_handshake_and_lost_packets(wire: Wire) -> None:
    """The first requests and responses are lost, and the beginning of a response to a Fetch with them."""
    wire.open().lose(CLIENT, 100).lose(SERVER, 2000)
    for _ in range(60):
        wire.send(SERVER, b"\xee" * 30_000)
    expected = exchanges(wire, 3)
    assert brief(follow(wire)[0]) == expected


def test_the_server_does_not_decide_while_requests_are_lost(wire: Wire) -> None:
    """Its first bytes were captured, but read as requests they are none."""
    wire.open().lose(CLIENT, 100).send(CLIENT, b"end").send(SERVER, frame(b"\xee" * 29_996), after_ms=100)
    for _ in range(60):
        wire.send(SERVER, b"\xee" * 30_000, after_ms=30)
    expected = exchanges(wire, 3)
    assert brief(follow(wire)[0]) == expected


@pytest.mark.parametrize("lost", [None, CLIENT, SERVER])
def test_foreign_bytes_behind_a_handshake_are_given_up_soon(wire: Wire, lost: int | None) -> None:
    wire.open().send(CLIENT, b"GET / HTTP/1.1\r\n\r\n").send(SERVER, b"HTTP/1.1 200 OK\r\n\r\n")
    if lost is not None:
        wire.lose(lost, 100)
    for _ in range(60):
        wire.send(SERVER, b"\xee" * 30_000, after_ms=30).send(CLIENT, b"\xee", after_ms=30)
    exchanges(wire, 3)
    assert follow(wire)[0] == []
