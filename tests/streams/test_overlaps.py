"""Segments sent again with other bytes.

The first ones count, and each conflict is counted, wherever splits are cut.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kdissect.jit.rows import array_of
from kdissect.protocol.schema.registry import highest_versions
from kdissect.streams.tls.decrypt_stage import new_flow_processor
from kdissect.tables.build import dissect_batches
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, request, response

ASK = request(3, 1, 1, bytes(range(200)))
OTHER = ASK[:150] + b"\xff" + ASK[151:]


def again(wire: Wire, payload: bytes, start: int = 0, stop: int | None = None, after_ms: float = 300) -> Wire:
    return wire.packet(CLIENT, start, payload[start:stop], after_ms=after_ms)


# The segments after ASK and its response: segments sent again, how many of them conflict, how many repeat.
CASES: dict[str, tuple[Callable[[Wire], Wire], int, int]] = {
    "the same bytes": (lambda wire: again(wire, ASK), 0, 1),
    "one byte differs": (lambda wire: again(wire, OTHER), 1, 1),
    "it differs elsewhere": (lambda wire: again(wire, OTHER, 0, 150), 0, 1),
    "a part that differs": (lambda wire: again(wire, OTHER, 140, 160), 1, 1),
    "right, wrong, right": (lambda wire: again(again(again(wire, ASK), OTHER), ASK), 1, 3),
    "wrong twice": (lambda wire: again(again(wire, OTHER), OTHER), 2, 2),
    "a keep-alive probe": (lambda wire: wire.packet(CLIENT, len(ASK) - 1, b"\x7f"), 0, 0),
    "new bytes behind": (
        lambda wire: wire.packet(CLIENT, 100, OTHER[100:] + request(3, 1, 2)),
        1,
        1,
    ),
    "after many others": (lambda wire: again(many(wire, 200), OTHER), 1, 1),
    "after too many others": (lambda wire: again(many(wire, 260), OTHER), 0, 1),
}


def many(wire: Wire, count: int) -> Wire:
    for number in range(count):
        wire.send(CLIENT, request(3, 1, number + 2))
    return wire


@pytest.mark.parametrize("splits", [1, 3, 50])
@pytest.mark.parametrize("case", CASES)
def test_each_case(tmp_path: Path, case: str, splits: int) -> None:
    happens, conflicts, repeats = CASES[case]
    wire = Wire(tmp_path / "payload").open().send(CLIENT, ASK).send(SERVER, response(1))
    made, pieces = happens(wire).splits(splits)
    conversations = new_flow_processor(made, np.array(highest_versions(), np.int64))
    for piece in pieces:
        for _ in conversations.feed(piece):
            pass
    assert array_of(conversations.state.directions)["conflicts"][:2].tolist() == [conflicts, 0]
    assert array_of(conversations.state.directions)["retransmitted"][0] == repeats


def test_bytes_that_wait_behind_a_hole(tmp_path: Path) -> None:
    wire = Wire(tmp_path / "payload").open()
    wire.packet(CLIENT, 100, ASK[100:]).packet(CLIENT, 90, OTHER[90:]).packet(CLIENT, 0, ASK[:100])
    made, pieces = wire.send(SERVER, response(1)).splits()
    tables = list(dissect_batches(pieces, made))
    (exchange,) = tables[0]["exchanges"].to_pylist()
    assert (exchange["status"], exchange["request_bytes"]) == ("answered", len(ASK) - 4)
    assert tables[-1]["connections"]["conflicting_segments"].to_pylist() == [1]
