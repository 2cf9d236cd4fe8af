"""The search for frames: who is the client is told by the bytes, and no byte is looked at again and again."""

import json
import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import kdissect
from kdissect.tables.build import dissect_batches
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, frame, request, response

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


def test_a_first_packet_cut_within_its_header(tmp_path: Path) -> None:
    wire = Wire(tmp_path / "payload").open().send(CLIENT, request(3, 1, 1)[:12], missing=9)
    for number in range(2, 5):
        wire.send(CLIENT, request(3, 1, number)).send(SERVER, response(number, bytes(40)))
    assert found(wire) == [("answered", number) for number in range(2, 5)]


WORK = """
import json, sys
from pathlib import Path
import numpy as np
from tests.streams import test_search
from kdissect.streams.tls.decrypt_stage import new_flow_processor

count = 0

def line(frame, event, argument):
    global count
    count += event == "line"
    return line

def lines(wire):
    global count
    splits, pieces = wire.splits()
    conversations = new_flow_processor(splits, np.full(93, 13, np.int64))
    count = 0
    sys.settrace(lambda frame, *_: line if "/streams/" in frame.f_code.co_filename else None)
    for piece in pieces:
        for _ in conversations.feed(piece):
            pass
    for _ in conversations.close():
        pass
    sys.settrace(None)
    return count

print(json.dumps({name: [lines(one) for one in test_search.byte_by_byte(name, Path("payload"))]
                  for name in test_search.STREAMS}))
"""

NOISE = random.Random(1)
SIZE = 1000  # bytes: far more than is looked at together
STREAMS: dict[
    str, tuple[int, bytes, bytes]
] = {  # who sends which bytes, and what the client has asked before
    "zeros": (CLIENT, b"", bytes(SIZE)),
    "random": (CLIENT, b"", NOISE.randbytes(SIZE)),
    "small numbers": (CLIENT, b"", bytes(NOISE.choices(range(3), k=SIZE))),
    "a large request": (CLIENT, b"", request(3, 1, 1, bytes(100_000))[:SIZE]),
    "weak headers": (CLIENT, b"", frame(struct.pack(">hhih", 3, 1, 1, -1) + bytes(86)) * 10),
    "answers": (SERVER, request(3, 1, 9), response(9, bytes(40)) * 20),
    "no answers": (SERVER, request(3, 1, 9), bytes(NOISE.choices(range(10), k=SIZE))),
}


def byte_by_byte(name: str, path: Path) -> list[Wire]:
    """Return the first half of a stream, and all of it, each byte in a packet."""
    side, asked, data = STREAMS[name]
    wires = []
    for size in (len(data) // 2, len(data)):
        wire = Wire(path)
        if asked:
            wire.open().send(CLIENT, asked).lose(SERVER, 100)
        for at in range(size):
            wire.send(side, data[at : at + 1], after_ms=30 if at == 0 else 0.001)
        wires.append(wire)
    return wires


@pytest.mark.slow
def test_work_grows_with_the_bytes_and_not_with_their_square(tmp_path: Path) -> None:
    """Counted in lines that are executed without the compiler."""
    root = Path(kdissect.__file__).parents[1]
    environment = os.environ | {
        "KDISSECT_JIT": "0",
        "PYTHONPATH": f"{root}:{Path(__file__).parents[2]}",
    }
    counted = subprocess.run(
        [sys.executable, "-c", WORK],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    work = json.loads(counted.stdout)
    assert set(work) == set(STREAMS)
    assert all(half > 300 for half, _ in work.values())
    assert {name: counts for name, counts in work.items() if counts[1] > 3 * counts[0]} == {}
