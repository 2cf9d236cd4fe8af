"""Search for the beginning of responses in a stream that is out of step."""

import struct
from pathlib import Path

import pytest

from kdissect.streams.waiting_queue import NEAR_WAITING
from kdissect.tables.build import dissect_batches
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, request, response


def found(wire: Wire) -> list[tuple[str, int | None]]:
    splits, pieces = wire.splits()
    batches = [rows["exchanges"] for rows in dissect_batches(pieces, splits) if "exchanges" in rows]
    return [(row["status"], row["correlation_id"]) for batch in batches for row in batch.to_pylist()]


@pytest.fixture(params=[False, True], ids=["higher-port", "lower-port"])
def wire(request: pytest.FixtureRequest, tmp_path: Path) -> Wire:
    """A connection whose server has the higher port, or the lower one as usual, and no handshake."""
    return Wire(tmp_path / "payload", server_is_a=request.param)


def test_small_numbers_within_a_response_are_no_response(tmp_path: Path) -> None:
    """Behind a gap, in the middle of a frame, bytes look like a short response that is waited for."""
    wire = Wire(tmp_path / "payload").open().send(CLIENT, request(10, 2, 3, b"\0\1g"))
    lure = struct.pack(">ii", 6, 3) + b"\x9c\x02" + struct.pack(">i", 30) + b"audit-python-10" + bytes(50)
    whole = response(2, bytes(500) + lure)
    wire.lose(SERVER, 200).send(SERVER, whole[200:]).send(SERVER, response(3, b"yes"))
    assert found(wire) == [("answered", 3)]


def pieces_of(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def test_responses_alone_are_found_again_behind_a_hole(tmp_path: Path) -> None:
    """Each is sent in several packets, so that none tells by where it ends."""
    wire = Wire(tmp_path / "payload").open()
    for number in range(20):
        tell = response(number, bytes(250))
        if number == 9:
            wire.lose(SERVER, len(tell))
        else:
            for part in pieces_of(tell, 100):
                wire.send(SERVER, part)
    assert found(wire) == [("orphan_response", number) for number in range(20) if number != 9]


def test_older_responses_before_the_first_request(tmp_path: Path) -> None:
    wire = Wire(tmp_path / "payload")
    for number in range(5):
        for part in pieces_of(response(number, bytes(250)), 100):
            wire.send(SERVER, part, after_ms=30)
    wire.send(CLIENT, request(3, 1, 9, bytes(30))).send(SERVER, response(9, bytes(250)))
    assert found(wire) == [("answered", 9), *(("orphan_response", number) for number in range(5))]


def test_a_response_in_small_packets_before_its_request(tmp_path: Path) -> None:
    """The place is lost, and what tells where the response begins is captured 5 ms later."""
    wire = Wire(tmp_path / "payload").open().send(CLIENT, request(3, 1, 1)).lose(SERVER, 500)
    wire.send(CLIENT, b"", after_ms=30).send(SERVER, bytes(3), after_ms=100)
    for part in pieces_of(response(2, bytes(40)), 7):
        wire.send(SERVER, part, after_ms=100 if part.startswith(b"\0\0\0,") else 0.1)
    wire.send(CLIENT, request(3, 1, 2), after_ms=5).send(SERVER, response(3, bytes(40)), after_ms=100)
    assert ("answered", 2) in found(wire)


def test_numbers_before_a_hole_are_no_response(tmp_path: Path) -> None:
    """A late packet from a lost response begins like a response of 4352 bytes that is waited for."""
    wire = Wire(tmp_path / "payload").lose(SERVER, 700).send(SERVER, response(2, bytes(40)))
    wire.send(CLIENT, request(3, 1, 3)).packet(SERVER, 100, struct.pack(">ii", 0x1100, 3) + bytes(92))
    wire.send(SERVER, response(3, bytes(40)), after_ms=100)
    for number in range(4, 6):
        wire.send(CLIENT, request(3, 1, number), after_ms=30).send(SERVER, response(number, bytes(40)))
    assert sorted(found(wire)) == [*(("answered", number) for number in range(3, 6)), ("orphan_response", 2)]


def test_a_heartbeat_has_no_response_of_many_megabytes(tmp_path: Path) -> None:
    """The lost packets end in an ApiVersions response, whose numbers begin the next one."""
    wire = Wire(tmp_path / "payload").open().lose(SERVER, 100)
    wire.send(SERVER, struct.pack(">iih", 9 << 24 | 13, 9, 0) + bytes(100))
    for number in range(9, 15):
        wire.send(CLIENT, request(12, 0, number), after_ms=30).send(SERVER, response(number, b"ok"))
    assert found(wire) == [("answered", number) for number in range(9, 15)]


@pytest.mark.parametrize(("key", "records"), [(1, True), (78, True), (59, True), (3, False), (12, False)])
def test_fetches_have_responses_of_many_megabytes(key: int, records: bool, tmp_path: Path) -> None:
    wire = Wire(tmp_path / "payload").open().send(CLIENT, request(key, 0, 3)).lose(SERVER, 100)
    size = (16 << 20) + 1
    wire.send(SERVER, struct.pack(">ii", size, 3) + bytes(100), after_ms=100)
    assert found(wire) == [("answered" if records else "unanswered", 3)]


@pytest.mark.parametrize(("number", "status"), [(NEAR_WAITING, "answered"), (NEAR_WAITING + 1, "unanswered")])
def test_within_a_packet_responses_to_the_oldest_requests_are_found(
    number: int, status: str, tmp_path: Path
) -> None:
    """Some thousand requests may wait, and each byte of the packet might begin a response to any of them."""
    wire = Wire(tmp_path / "payload").open()
    for waiting in range(1, 101):
        wire.send(CLIENT, request(12, 0, waiting))
    wire.lose(SERVER, 200).send(SERVER, bytes(30) + response(number, b"yes"), after_ms=30)
    assert (status, number) in found(wire)
