"""Traffic of other protocols, from its start and from its middle, gives no frames, in time that grows with its bytes."""

import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from test_conversation import follow
from wire import CLIENT, SERVER, Wire

BULK = 500_000  # bytes of each protocol and direction


def _random(chance: random.Random) -> bytes:
    return chance.randbytes(1000)


def _tls(chance: random.Random) -> bytes:
    size = chance.randrange(20, 16_000)
    return b"\x17\x03\x03" + struct.pack(">H", size) + chance.randbytes(size)


def _http2(chance: random.Random) -> bytes:
    size = chance.randrange(0, 4000)
    return struct.pack(">I", size)[1:] + bytes([chance.randrange(10), chance.choice([0, 1, 4, 5])]) + struct.pack(
        ">I", chance.randrange(1, 999)
    ) + chance.randbytes(size)  # fmt: skip


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


@pytest.mark.parametrize("handshake", [True, False], ids=["from-start", "midstream"])
@pytest.mark.parametrize("talk", [_random, _tls, _http2, _redis, _amqp, _postgres, _smpp])
def test_no_frames(tmp_path: Path, talk: Callable[[random.Random], bytes], handshake: bool) -> None:
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
    found, _ = follow(wire, 3)
    assert found == []
