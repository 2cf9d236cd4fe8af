"""A search looks at every byte once: no byte is looked at again and again."""

import json
import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import kdissect
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, frame, request, response


@pytest.fixture(params=[False, True], ids=["higher-port", "lower-port"])
def wire(request: pytest.FixtureRequest, tmp_path: Path) -> Wire:
    """A connection whose server has the higher port, or the lower one as usual, and no handshake."""
    return Wire(tmp_path / "payload", server_is_a=request.param)


WORK = """
import json, sys
from pathlib import Path
import numpy as np
from tests.streams import test_search_work
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

print(json.dumps({name: [lines(one) for one in test_search_work.byte_by_byte(name, Path("payload"))]
                  for name in test_search_work.STREAMS}))
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
