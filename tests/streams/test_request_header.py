"""Headers of requests: what is one, what may be one, and what is none."""

import struct

import numpy as np
import pytest

from kdissect.jit.decorators import jit_flat
from kdissect.streams.request_header import (
    FAINT,
    NOTHING,
    PLAIN_BODY,
    PLAIN_ID,
    WEAK,
    header_evidence,
    produce_acks,
)
from tests.helpers.followed import VERSIONS, brief, follow
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, frame, request, response

LOWEST = -(1 << 31)  # the id behind the highest one
PRODUCE = struct.pack(">hiih6s", 1, 1000, 1, 6, b"orders") + bytes(40)


@pytest.mark.parametrize("name", [b"a\tb", b"\x1b[31m", "\u202e\u00e9".encode(), b"\x7f"])
@pytest.mark.parametrize("opened", [True, False])
def test_clients_may_call_themselves_anything(wire: Wire, name: bytes, opened: bool) -> None:
    if opened:
        wire.open()
    for number in range(4):
        wire.send(CLIENT, request(3, 1, number, client=name))
        wire.send(SERVER, response(number, b"tell"))
    found, _ = follow(wire)
    assert brief(found) == [("answered", number) for number in range(4)]


@pytest.mark.parametrize("key", [500, 1001, 10001, 32767])
def test_a_connection_in_step_has_requests_of_any_api(wire: Wire, key: int) -> None:
    """Confluent's brokers use keys above 10000."""
    wire.open()
    for number, api in enumerate([3, key, key, 3]):
        wire.send(CLIENT, request(api, 1, number, bytes(40))).send(SERVER, response(number, b"tell"))
    found, _ = follow(wire)
    assert brief(found) == [("answered", number) for number in range(4)]
    assert [one.api_key for one in found] == [3, key, key, 3]


@pytest.mark.parametrize("opened", [True, False], ids=["opened", "midstream"])
@pytest.mark.parametrize("key", [0, 3], ids=["produce", "metadata"])
@pytest.mark.parametrize("length", [256, 257, 300, 1000])
def test_client_ids_of_any_length(wire: Wire, opened: bool, key: int, length: int) -> None:
    """A Kafka Streams thread has a client id of its application's id and 60 characters more."""
    if opened:
        wire.open()
    for number in range(4):
        wire.send(CLIENT, request(key, 2, number, PRODUCE, b"a" * length))
        wire.send(SERVER, response(number, b"tell"))
    found, _ = follow(wire)
    assert brief(found) == [("answered", number) for number in range(4)]


@pytest.mark.parametrize(("opened", "size"), [(True, 1), (True, 3), (True, 1000), (False, 1000)])
def test_ids_that_have_overflowed(wire: Wire, opened: bool, size: int) -> None:
    """They belong to the client, so a new connection may begin with negative ones."""
    if opened:
        wire.open()
    for number in range(LOWEST, LOWEST + 6):
        for side, data in ((CLIENT, request(3, 1, number)), (SERVER, response(number, b"tell"))):
            for start in range(0, len(data), size):
                wire.send(side, data[start : start + size])
    found, _ = follow(wire)
    assert brief(found) == [("answered", number) for number in range(LOWEST, LOWEST + 6)]


@pytest.mark.parametrize("lost", [CLIENT, SERVER, None], ids=["request", "response", "both"])
def test_ids_that_have_overflowed_behind_a_hole(wire: Wire, lost: int | None) -> None:
    """A request whose response is lost counts as unanswered, a response without its request not at all."""
    wire.open()
    numbers = [(1 << 31) - 1, *range(LOWEST, LOWEST + 6)]
    for number in numbers:
        for side, data in ((CLIENT, request(3, 1, number)), (SERVER, response(number, b"tell"))):
            if number == LOWEST + 2 and lost in (side, None):
                wire.lose(side, len(data))
            else:
                wire.send(side, data, after_ms=30)
    found, _ = follow(wire)
    answered = [number for number in numbers if number != LOWEST + 2]
    assert [one.correlation_id for one in found if one.status == "answered"] == answered


@jit_flat
def evidence_of(data, length, versions):
    return header_evidence(data, 0, length, versions)


@jit_flat
def acks_of(data, start, stop, version):
    return produce_acks(data, start, stop, version)


HEADERS = {
    "a client id in plain ASCII": (request(3, 1, 1), PLAIN_BODY),
    "no client id": (request(3, 1, 1, client=None), WEAK),
    "a client id in other letters": (request(3, 1, 1, client="ü".encode()), WEAK),
    "a zero in the client id": (request(3, 1, 1, client=b"a\0b"), NOTHING),
    "an API that does not exist": (request(200, 1, 1), NOTHING),
    "a version far beyond": (request(3, 40, 1), NOTHING),
    "a negative id": (request(3, 1, -5), NOTHING),
    "an id that has overflowed": (request(3, 1, LOWEST), PLAIN_BODY),
    "an id that has overflowed, and no client id": (request(3, 1, LOWEST, client=None), NOTHING),
    "an id that has overflowed, and an empty client id": (request(3, 1, LOWEST, client=b""), NOTHING),
    "an id that has overflowed, and other letters": (request(3, 1, LOWEST, client="ü".encode()), NOTHING),
    "an id that has overflowed, and half a client id": (request(3, 1, LOWEST)[:17], FAINT),
    "an id that has overflowed, in an API without client ids": (
        frame(struct.pack(">hhii", 7, 0, LOWEST, 1)),
        NOTHING,
    ),
    "a client id of 300 bytes": (request(3, 1, 1, client=b"a" * 300), PLAIN_BODY),
    "a client id of 300 bytes with other letters": (request(3, 1, 1, client=b"\xff" * 300), NOTHING),
    "a client id of 300 bytes, half of it there": (request(3, 1, 1, client=b"a" * 300)[:150], FAINT),
    "a client id longer than the frame": (frame(request(3, 1, 1, client=b"a" * 300)[4:150]), NOTHING),
    "a Produce with a client id of 300 bytes": (request(0, 2, 1, PRODUCE, b"a" * 300)[:270], PLAIN_ID),
    "the id with which Java authenticates": (request(17, 0, -1), PLAIN_BODY),
    "a Produce with its body": (request(0, 2, 1, PRODUCE), PLAIN_BODY),
    "a Produce whose body is not to be seen": (request(0, 2, 1, PRODUCE)[:20], PLAIN_ID),
    "a Produce of zeros": (request(0, 0, 0, client=b"")[:14], FAINT),
    "a Produce with a topic of no letters": (request(0, 2, 1, PRODUCE.replace(b"o", b"\x01")), NOTHING),
}


@pytest.mark.parametrize("name", HEADERS)
def test_evidence_of_a_header(name: str) -> None:
    data, expected = HEADERS[name]
    # A frame that is cut behind its header: its length still says that there is more.
    data = struct.pack(">i", 1000) + data[4:] if expected == FAINT else data
    assert evidence_of(np.frombuffer(data, np.uint8).copy(), len(data), VERSIONS) == expected


@pytest.mark.parametrize("version", [0, 2, 3, 8, 9, 12])
@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_acks_are_found_in_every_version(version: int, acks: int) -> None:
    header = struct.pack(">hhih6s", 0, version, 1, 6, b"tester")
    if version >= 9:
        header += b"\x01\x05\x02xy" + b"\x04txn"  # a tagged field of two bytes, a compact id
    elif version >= 3:
        header += b"\x00\x03txn"
    data = np.frombuffer(header + struct.pack(">h", acks), np.uint8).copy()
    assert acks_of(data, 0, len(data), version) == acks
    assert acks_of(data, 0, len(data) - 1, version) == 1
