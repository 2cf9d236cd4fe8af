"""Frames of both directions are read as soon as one of them shows what the connection speaks."""

from pathlib import Path

from tests.helpers.followed import brief, follow
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, request, response


def test_the_other_direction_is_read_when_one_shows_the_protocol(wire: Wire) -> None:
    for number in range(3):
        wire.send(SERVER, response(number, bytes(20)), after_ms=1)
    wire.send(CLIENT, b"".join(request(3, 1, number) for number in range(3)), after_ms=1)
    found, processor = follow(wire)
    assert brief(found) == [("answered", number) for number in range(3)]
    assert processor.state.counters.read_next == -1


def test_a_frame_of_which_too_little_was_captured_is_left_out(wire: Wire) -> None:
    wire.open().send(CLIENT, request(3, 1, 1)).send(SERVER, response(1))
    cut = request(3, 1, 2, bytes(50))
    wire.send(CLIENT, cut[:9], missing=len(cut) - 9)
    wire.send(CLIENT, request(3, 1, 3)).send(SERVER, response(3))
    found, processor = follow(wire.close())
    assert brief(found) == [("answered", 1), ("answered", 3)]
    assert processor.state.directions[0].skipped_bytes == 0


def test_a_size_that_no_frame_has_is_counted_and_searched_past(tmp_path: Path) -> None:
    wire = Wire(tmp_path / "payload").open().send(CLIENT, request(3, 1, 1)).send(SERVER, response(1))
    wire.send(CLIENT, b"\x7f\xff\xff\xff" + bytes(40))
    wire.send(CLIENT, request(3, 1, 2)).send(SERVER, response(2))
    found, processor = follow(wire.close())
    assert brief(found) == [("answered", 1), ("answered", 2)]
    assert processor.state.directions[0].oversized_frames == 1
    assert processor.state.directions[0].skipped_bytes == 44
