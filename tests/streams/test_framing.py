"""Frames of streams in step: over many segments, with gaps, cut by the capture."""

from kdissect.jit.rows import array_of
from tests.helpers.followed import brief, follow
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, request, response


def test_frames_over_many_segments_and_many_frames_in_one(wire: Wire) -> None:
    asks = b"".join(request(3, 1, number, b"x" * 700 * number) for number in range(6))
    tells = b"".join(response(number, b"y" * 900) for number in range(6))
    wire.open()
    for start in range(0, len(asks), 333):
        wire.send(CLIENT, asks[start : start + 333])
    found, _ = follow(wire.send(SERVER, tells))
    assert brief(found) == [("answered", number) for number in range(6)]
    assert found[5].request == request(3, 1, 5, b"x" * 3500)[4:]


def test_byte_by_byte(wire: Wire) -> None:
    wire.open()
    for byte in request(3, 1, 1, b"slow") + request(3, 1, 2, b"slow"):
        wire.send(CLIENT, bytes([byte]))
    for byte in response(1, b"too") + response(2, b"too"):
        wire.send(SERVER, bytes([byte]))
    found, _ = follow(wire)
    assert brief(found) == [("answered", 1), ("answered", 2)]


def test_a_gap_inside_a_frame_costs_its_tail_but_not_the_pair(wire: Wire) -> None:
    asks = [request(3, 1, number, b"q" * 500) for number in range(3)]
    wire.open().send(CLIENT, asks[0]).send(SERVER, response(0))
    wire.send(CLIENT, asks[1][:100]).lose(CLIENT, 300).send(CLIENT, asks[1][400:])
    wire.send(SERVER, response(1)).send(CLIENT, asks[2]).send(SERVER, response(2), after_ms=100)
    found, conversations = follow(wire.send(SERVER, b"", after_ms=100))
    assert brief(found) == [("answered", number) for number in range(3)]
    assert found[1].request == asks[1][4:100]
    assert found[1].request_cut == len(asks[1]) - 100
    assert array_of(conversations.state.directions)["lost_bytes"][0] == 300


def test_packets_cut_by_the_capture_keep_pairs_and_latency(wire: Wire) -> None:
    wire.open()
    for number in range(4):
        ask, tell = request(3, 1, number, b"q" * 400), response(number, b"r" * 400)
        wire.send(CLIENT, ask[:60], missing=len(ask) - 60)
        wire.send(SERVER, tell[:60], missing=len(tell) - 60, after_ms=5)
    found, conversations = follow(wire)
    assert brief(found) == [("answered", number) for number in range(4)]
    assert array_of(conversations.state.directions)["cut_bytes"][:2].tolist() == [
        4 * (len(ask) - 60),
        4 * (len(tell) - 60),
    ]
    assert (
        array_of(conversations.state.directions)["lost_bytes"][:2]
        <= array_of(conversations.state.directions)["cut_bytes"][:2]
    ).all()
    assert [one.latency_ns for one in found] == [5_000_000] * 4
    assert {len(one.response) for one in found} == {56}
    assert {one.response_cut for one in found} == {len(response(0, b"r" * 400)) - 60}
