"""Remains at the end of a capture, and data that connections give up."""

from tests.helpers.followed import brief, follow
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, request, response


def test_the_end_of_the_capture_inside_frames(wire: Wire) -> None:
    wire.open().send(CLIENT, request(3, 1, 1)).send(CLIENT, request(3, 1, 2, b"x" * 50)[:40])
    found, _ = follow(wire.send(SERVER, response(1, b"y" * 100)[:30]))
    assert brief(found) == [("answered", 1), ("unanswered", 2)]
    assert found[0].response_cut == len(response(1, b"y" * 100)) - 30
    assert found[1].request_cut == len(request(3, 1, 2, b"x" * 50)) - 40
