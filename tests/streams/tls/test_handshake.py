"""Handshake messages, whole, cut and spoilt."""

import random

from scapy.layers.tls.handshake import TLSClientHello, TLSServerHello

from kdissect.streams.tls.handshake import (
    Messages,
    read_client_hello,
    read_server_hello,
)


def test_hellos_cut_anywhere_or_spoilt_anywhere_are_no_hellos_or_others() -> None:
    chance = random.Random(7)
    client = bytes(TLSClientHello(gmt_unix_time=1, random_bytes=bytes(28), ciphers=[0x1301], sid=b"x" * 32))[
        4:
    ]
    server = bytes(TLSServerHello(gmt_unix_time=1, random_bytes=bytes(28), cipher=0xC02F, sid=b"y" * 32))[4:]
    told = read_server_hello(server)
    assert told is not None
    assert (told.suite, told.session, told.version) == (0xC02F, b"y" * 32, 0x0303)
    asked = read_client_hello(client)
    assert asked is not None
    assert asked.random == bytes([0, 0, 0, 1]) + bytes(28)
    for hello, read in ((client, read_client_hello), (server, read_server_hello)):
        assert all(read(hello[:size]) is None for size in range(34))
        for _ in range(3000):
            spoilt = bytearray(hello)
            for _ in range(chance.randrange(1, 5)):
                spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
            read(bytes(spoilt)[: chance.randrange(len(spoilt) + 1)])


def test_messages_come_out_however_they_are_cut_and_huge_ones_are_passed_over() -> None:
    bodies = [(1, b"a" * 10), (11, b"b" * 40_000), (11, None), (20, b"")]
    stream = b"".join(
        bytes([kind])
        + len(bytes(200_000) if body is None else body).to_bytes(3, "big")
        + (body if body is not None else bytes(200_000))
        for kind, body in bodies
    )
    for size in (1000, 16_384, len(stream)):
        messages = Messages()
        found = [one for at in range(0, len(stream), size) for one in messages.add(stream[at : at + size])]
        assert found == bodies
