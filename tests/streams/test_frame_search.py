"""The search for the next frame: behind a gap, from the middle, and no byte again and again."""

from kdissect.jit.rows import array_of
from tests.helpers.followed import brief, follow
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, request, response


def test_a_gap_over_a_length_is_left_behind_at_the_next_header(wire: Wire) -> None:
    wire.open()
    for number in range(10):
        if number == 4:
            wire.lose(CLIENT, len(request(3, 1, number, b"lost")))
        else:
            wire.send(CLIENT, request(3, 1, number, b"here"))
        wire.send(SERVER, response(number), after_ms=30)
    found, _ = follow(wire)
    kept = [one for one in found if one.status == "answered"]
    assert [one.correlation_id for one in kept] == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert brief([one for one in found if one.status != "answered"]) == [("orphan_response", 4)]


def test_a_start_in_the_middle_of_frames(wire: Wire) -> None:
    ask, tell = request(3, 1, 1, b"q" * 300), response(1, b"r" * 300)
    wire.send(CLIENT, ask[150:]).send(SERVER, tell[77:])
    for number in range(2, 6):
        wire.send(CLIENT, request(3, 1, number)).send(SERVER, response(number, b"!"))
    found, conversations = follow(wire)
    assert brief(found) == [("answered", number) for number in range(2, 6)]
    assert array_of(conversations.state.directions)["skipped_bytes"][0] == len(ask) - 150
    assert array_of(conversations.state.directions)["skipped_bytes"][1] == len(tell) - 77
