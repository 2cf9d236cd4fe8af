"""Segments repeated, reordered and overlapping: every byte comes once, in order."""

from tests.helpers.followed import brief, follow
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, request, response


def test_retransmission_reordering_and_overlap(wire: Wire) -> None:
    ask = request(3, 1, 1, bytes(range(256)) * 4)
    wire.open().send(CLIENT, ask[:200])
    wire.packet(CLIENT, 0, ask[:200])  # again
    wire.packet(CLIENT, 400, ask[400:600])  # early
    wire.packet(CLIENT, 100, ask[100:450])  # overlaps on both ends
    wire.packet(CLIENT, 550, ask[550:])
    found, conversations = follow(wire.send(SERVER, response(1)))
    assert brief(found) == [("answered", 1)]
    assert found[0].request == ask[4:]
    client = conversations.state.directions[0]
    assert client.lost_bytes == client.skipped_bytes == 0
    assert client.reordered == 1
    assert client.retransmitted == 3


def test_the_first_copy_wins(wire: Wire) -> None:
    ask = request(3, 1, 1, b"a" * 100)
    wire.open().send(CLIENT, ask[:60]).packet(CLIENT, 50, b"Z" * 10 + ask[60:])
    found, _ = follow(wire.send(SERVER, response(1)))
    assert found[0].request == ask[4:]
