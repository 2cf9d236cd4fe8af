"""`replay.read_order`: a read waits for writes in the order of their offsets."""

from __future__ import annotations

from kdissect.replay.load.captured_reads import CapturedReads
from kdissect.replay.pass_state import RequestGates
from kdissect.replay.read_order import ReadOrder
from tests.helpers.rewriting_cases import WHERE


def test_the_first_missing_write_is_named() -> None:
    captured, gates = CapturedReads(), RequestGates()
    for offset, request in ((10, 2), (0, 1), (20, 3)):
        captured.add_write(WHERE, offset, request)
    captured.finish()
    order = ReadOrder(captured, gates)
    assert order.missing_write(WHERE, 0) is None
    assert order.missing_write(WHERE, 20) == 1
    gates.end(2)
    assert order.missing_write(WHERE, 20) == 1
    gates.end(1)
    assert order.missing_write(WHERE, 20) is None
    assert order.missing_write(WHERE, 21) == 3
    assert order.missing_write(("other", 0), 21) is None
    assert captured.first_written(*WHERE) == 0
