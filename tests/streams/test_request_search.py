"""Who is the client is told by the bytes: requests and responses alone, and pairs of them."""

import struct
from pathlib import Path

import pytest

from kdissect.tables.build import dissect_batches
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, request, response

TOPICS = struct.pack(">ih6sii", 1, 6, b"orders", 1, 0)


def produce(version: int, correlation: int, records: bytes = bytes(70)) -> bytes:
    """A Produce request of versions 0-8 with one partition."""
    transactional_id = b"\xff\xff" if version >= 3 else b""
    body = (
        transactional_id + struct.pack(">hi", -1, 30_000) + TOPICS + struct.pack(">i", len(records)) + records
    )
    return request(0, version, correlation, body)


def produced(correlation: int) -> bytes:
    """The response to a Produce 0."""
    return response(correlation, TOPICS + struct.pack(">hq", 0, 5))


def found(wire: Wire) -> list[tuple[str, int | None]]:
    splits, pieces = wire.splits()
    batches = [rows["exchanges"] for rows in dissect_batches(pieces, splits) if "exchanges" in rows]
    return [(row["status"], row["correlation_id"]) for batch in batches for row in batch.to_pylist()]


@pytest.fixture(params=[False, True], ids=["higher-port", "lower-port"])
def wire(request: pytest.FixtureRequest, tmp_path: Path) -> Wire:
    """A connection whose server has the higher port, or the lower one as usual, and no handshake."""
    return Wire(tmp_path / "payload", server_is_a=request.param)


LONE = {
    "produce 2": produce(2, 7),
    "produce 8": produce(8, 70_000),
    "produce 9": request(
        0,
        9,
        7,
        b"\0\0" + struct.pack(">hi", 1, 1500) + b"\x02\x07orders\x02" + bytes(4) + b"\x47" + bytes(73),
    ),
    "fetch": request(1, 4, 7, struct.pack(">iiiib", -1, 500, 1, 1 << 20, 0) + TOPICS + bytes(12)),
    "metadata": request(3, 1, 7, b"\xff\xff\xff\xff"),
}


@pytest.mark.parametrize("name", LONE)
def test_a_lone_request(wire: Wire, name: str) -> None:
    wire.send(CLIENT, LONE[name])
    (one,) = found(wire)
    assert one[0] == "unanswered"


@pytest.mark.parametrize("name", LONE)
def test_a_lone_exchange(wire: Wire, name: str) -> None:
    correlation = struct.unpack_from(">i", LONE[name], 8)[0]
    wire.send(CLIENT, LONE[name]).send(SERVER, response(correlation, bytes(30)))
    assert found(wire) == [("answered", correlation)]


def test_a_lone_request_in_many_segments(wire: Wire) -> None:
    ask = produce(2, 7, bytes(3000))
    for start in range(0, len(ask), 1000):
        wire.send(CLIENT, ask[start : start + 1000])
    assert found(wire) == [("unanswered", 7)]


@pytest.mark.parametrize("correlation", [*range(16), 200_000])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_responses_alone_are_no_requests(wire: Wire, correlation: int, count: int) -> None:
    """They look like Produce while ids are small: size, id, topics, name as size, key, version, id."""
    for number in range(count):
        wire.send(SERVER, produced(correlation + number))
    assert found(wire) == []


@pytest.mark.parametrize("correlation", [3, 11])
def test_a_response_before_the_only_request(wire: Wire, correlation: int) -> None:
    wire.send(SERVER, produced(correlation)).send(CLIENT, produce(2, correlation + 1), after_ms=100)
    assert ("unanswered", correlation + 1) in found(wire)


def test_a_first_packet_cut_within_its_header(tmp_path: Path) -> None:
    wire = Wire(tmp_path / "payload").open().send(CLIENT, request(3, 1, 1)[:12], missing=9)
    for number in range(2, 5):
        wire.send(CLIENT, request(3, 1, number)).send(SERVER, response(number, bytes(40)))
    assert found(wire) == [("answered", number) for number in range(2, 5)]
