"""Traffic of other protocols gives no frames, from its start and middle, in linear time."""

import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.followed import Found, follow
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, request, response

BULK = 500_000  # bytes of each protocol and direction


def _random(chance: random.Random) -> bytes:
    return chance.randbytes(1000)


def _tls(chance: random.Random) -> bytes:
    size = chance.randrange(20, 16_000)
    return b"\x17\x03\x03" + struct.pack(">H", size) + chance.randbytes(size)


def _http2(chance: random.Random) -> bytes:
    size = chance.randrange(0, 4000)
    return (
        struct.pack(">I", size)[1:]
        + bytes([chance.randrange(10), chance.choice([0, 1, 4, 5])])
        + struct.pack(">I", chance.randrange(1, 999))
        + chance.randbytes(size)
    )


def _postgres(chance: random.Random) -> bytes:
    columns = b"".join(
        struct.pack(">i", len(text)) + text
        for text in (
            str(chance.randrange(10 ** chance.randrange(1, 12))).encode()
            for _ in range(chance.randrange(1, 9))
        )
    )
    return b"D" + struct.pack(">ih", len(columns) + 6, 5) + columns


def _redis(chance: random.Random) -> bytes:
    value = chance.randbytes(chance.randrange(1, 300)).hex().encode()
    return b"*3\r\n$3\r\nSET\r\n$6\r\nkafka1\r\n$%d\r\n%s\r\n" % (len(value), value)


def _amqp(chance: random.Random) -> bytes:
    size = chance.randrange(8, 900)
    return (
        struct.pack(">BHI", chance.randrange(1, 4), chance.randrange(9), size)
        + chance.randbytes(size)
        + b"\xce"
    )


def _smpp(chance: random.Random) -> bytes:
    body = (
        b"\0\1\1"
        + b"49170%07d" % chance.randrange(10**7)
        + b"\0"
        + bytes(9)
        + b"hello " * chance.randrange(20)
    )
    return struct.pack(">IIII", 16 + len(body), 4, 0, chance.randrange(1, 10**6)) + body


def _fields(chance: random.Random) -> bytes:
    """Fields of a message as many protocols have them.

    Small numbers, and texts with their length before them.
    """
    kinds = (
        lambda: struct.pack(">i", chance.randrange(1 << chance.randrange(1, 25))),
        lambda: struct.pack(">h", chance.randrange(1 << chance.randrange(1, 12))),
        lambda: bytes(chance.randrange(5)),
        lambda: chance.choice([b"\0\4conn", b"\0\x12attributes-charset", b"\0\1a", b"\0\x05utf-8"]),
    )
    return b"".join(chance.choice(kinds)() for _ in range(chance.randrange(2, 30)))


def _smb(chance: random.Random) -> bytes:
    """Its lengths lead from message to message in both directions as those of Kafka do."""
    body = b"\xffSMB" + chance.randbytes(28) + _fields(chance)
    return struct.pack(">I", len(body)) + body


def _openflow(chance: random.Random) -> bytes:
    body = _fields(chance)
    return struct.pack(">BBHI", 4, chance.randrange(20), 8 + len(body), chance.randrange(1 << 20)) + body


Speech = Callable[[random.Random], bytes]


@pytest.mark.parametrize("talk", [_random, _tls, _http2, _redis, _amqp, _postgres, _smpp])
def test_no_frames_in_the_middle(tmp_path: Path, talk: Speech) -> None:
    assert _frames_in(tmp_path, talk, handshake=False) == []


@pytest.mark.parametrize(
    "talk", [_random, _tls, _http2, _redis, _amqp, _postgres, _smpp, _fields, _smb, _openflow]
)
def test_no_frames_from_the_start(tmp_path: Path, talk: Speech) -> None:
    """Check that no later request is believed by itself if the first bytes are there and no request."""
    assert _frames_in(tmp_path, talk, handshake=True) == []


def _frames_in(tmp_path: Path, talk: Speech, *, handshake: bool) -> list[Found]:
    chance = random.Random(talk.__name__)
    wire = Wire(tmp_path / "payload")
    if handshake:
        wire.open()
    streams = []
    for _ in (CLIENT, SERVER):
        stream = bytearray()
        while len(stream) < BULK:
            stream += talk(chance)
        streams.append(bytes(stream)[0 if handshake else chance.randrange(500) :])
    for start in range(0, BULK, 1448):
        wire.send(CLIENT, streams[0][start : start + 1448]).send(SERVER, streams[1][start : start + 1448])
    return follow(wire, 3)[0]


def test_kafka_behind_a_greeting_is_found(tmp_path: Path) -> None:
    """A proxy is asked for a connection first (RFC 9110, section 9.3.6), or greets."""
    wire = Wire(tmp_path / "payload").open()
    wire.send(CLIENT, b"CONNECT broker:9092 HTTP/1.1\r\nHost: broker:9092\r\n\r\n")
    wire.send(SERVER, b"HTTP/1.1 200 Connection established\r\n\r\n")
    for number in range(5):
        wire.send(CLIENT, request(18, 0, number)).send(SERVER, response(number, bytes(6)))
    assert [one.status for one in follow(wire, 2)[0]] == ["answered"] * 5


def test_a_first_request_in_parts_is_waited_for(tmp_path: Path) -> None:
    wire = Wire(tmp_path / "payload").open()
    ask = request(3, 1, 7, bytes(4))
    for start in range(0, len(ask), 15):
        wire.send(CLIENT, ask[start : start + 15])
    wire.send(SERVER, response(7, bytes(20)))
    assert [one.status for one in follow(wire, 2)[0]] == ["answered"]
