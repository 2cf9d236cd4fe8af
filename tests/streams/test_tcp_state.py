"""Opening, end, identity and clock of connections."""

import pytest

from kdissect.capture.segment_index import FLAG_ACK, FLAG_FIN, FLAG_RST, FLAG_SYN
from kdissect.jit.rows import array_of
from tests.helpers.followed import brief, follow
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, request, response

FAR = 1 << 28  # from the sequence numbers of the connection before


def talk_on_used_ports(wire: Wire, answers: str) -> Wire:
    """Another connection follows on the same ports, with the same ids.

    Its SYN, at least, was not captured.
    """
    wire.send(CLIENT, request(3, 1, 1)).send(SERVER, response(1, b"old"))
    wire.send(CLIENT, request(3, 1, 2)).send(CLIENT, request(3, 1, 3, b"part")[:20])
    wire.lose(CLIENT, FAR).lose(SERVER, FAR)
    if answers == "SYN-ACK":
        wire.accept()
    for number in range(1, 4):
        if answers != "alone":
            wire.send(CLIENT, request(3, 1, number))
        wire.send(SERVER, response(number, b"new"))
    return wire


@pytest.mark.parametrize("answers", ["asked", "alone", "SYN-ACK"])
def test_a_port_pair_used_again_without_its_opening(wire: Wire, answers: str) -> None:
    talk_on_used_ports(wire.open(), answers)
    whole, conversations = follow(wire)
    status, ordinals = ("orphan_response", [-1] * 3) if answers == "alone" else ("answered", [3, 4, 5])
    assert [(one.status, one.ordinal, one.correlation_id, one.response[4:]) for one in whole] == sorted(
        [
            ("answered", 0, 1, b"old"),
            ("unanswered", 1, 2, b""),
            ("unanswered", 2, 3, b""),
            *((status, ordinals[number], number + 1, b"new") for number in range(3)),
        ],
        key=lambda one: one[1:],
    )
    directions = array_of(conversations.state.directions)[:2]
    assert (directions["lost_bytes"] + directions["skipped_bytes"]).sum() == 0
    for splits in (2, 3, 5, 9):
        assert follow(wire, splits)[0] == whole


@pytest.mark.parametrize("flags", [FLAG_SYN | FLAG_ACK, FLAG_SYN | FLAG_ACK | FLAG_FIN | FLAG_RST])
def test_a_damaged_segment_does_not_make_the_client_a_server(wire: Wire, flags: int) -> None:
    wire.open().send(CLIENT, request(3, 1, 1)).send(SERVER, response(1))
    wire.flagged(CLIENT, flags)
    wire.send(CLIENT, request(3, 1, 2)).send(SERVER, response(2))
    for splits in (1, 2, 7):
        whole, conversations = follow(wire, splits)
        assert brief(whole) == [("answered", 1), ("answered", 2)]
        assert array_of(conversations.state.connections)["client_side"][0] == CLIENT
