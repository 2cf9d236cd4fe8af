"""Which response belongs to which request, and what gets none."""

import struct

import pytest

from kdissect.jit.rows import array_of, rows_of
from kdissect.streams.flow_state import ExchangeRow
from kdissect.streams.tls.decrypt_stage import new_flow_processor
from tests.helpers.followed import VERSIONS, brief, follow, row
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, frame, request, response


def test_pipelined_requests_count_themselves_in_flight(wire: Wire) -> None:
    wire.open()
    for number in range(4):
        wire.send(CLIENT, request(1, 12, number))
    for number in range(4):
        wire.send(SERVER, response(number))
    found, _ = follow(wire)
    assert brief(found) == [("answered", number) for number in range(4)]
    assert [one.in_flight for one in found] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("version", "before_acks"),
    [
        (2, b""),
        (3, b"\xff\xff"),
        (8, b"\x00\x03txn"),
        (9, b"\x00\x00"),
        (9, b"\x00\x04txn"),
        (12, b"\x01\x07\x02hi\x00"),
    ],
)
@pytest.mark.parametrize(("acks", "status"), [(0, "no_response_expected"), (1, "answered"), (-1, "answered")])
def test_produce_with_acks_0_gets_no_answer(
    wire: Wire, version: int, before_acks: bytes, acks: int, status: str
) -> None:
    body = before_acks + struct.pack(">hi", acks, 1000) + (b"\1\0" if version >= 9 else bytes(4))
    wire.open().send(CLIENT, request(0, version, 1, body)).send(CLIENT, request(3, 1, 2))
    if acks:
        wire.send(SERVER, response(1))
    found, _ = follow(wire.send(SERVER, response(2)))
    assert brief(found) == [(status, 1), ("answered", 2)]


def test_an_id_used_again_and_again(wire: Wire) -> None:
    wire.open()
    for number in range(3):
        wire.send(CLIENT, request(18, 0, 0, b"%d" % number)).send(SERVER, response(0, b"%d" % number))
    found, _ = follow(wire)
    assert [(one.request[-1:], one.response[-1:]) for one in found] == [
        (b"0", b"0"),
        (b"1", b"1"),
        (b"2", b"2"),
    ]


def test_a_later_answer_means_that_the_earlier_request_has_none(wire: Wire) -> None:
    wire.open()
    for number in range(3):
        wire.send(CLIENT, request(3, 1, number))
    found, _ = follow(wire.send(SERVER, response(1)))
    assert brief(found) == [("unanswered", 0), ("answered", 1), ("unanswered", 2)]


def test_an_answer_without_a_request_at_the_start(wire: Wire) -> None:
    wire.send(SERVER, response(7, b"to whom?"))
    wire.send(CLIENT, request(3, 1, 8), after_ms=100).send(SERVER, response(8))
    found, _ = follow(wire)
    assert brief(found) == [("orphan_response", 7), ("answered", 8)]
    assert found[0].response == response(7, b"to whom?")[4:]


def test_a_response_captured_before_its_request(wire: Wire) -> None:
    wire.open().send(CLIENT, request(3, 1, 1)).send(SERVER, response(1))
    wire.send(SERVER, response(2)).send(CLIENT, request(3, 1, 2), after_ms=0.1)
    found, _ = follow(wire)
    assert brief(found) == [("answered", 1), ("answered", 2)]
    assert found[1].latency_ns == -100_000


def test_lost_responses_leave_requests_unanswered(wire: Wire) -> None:
    wire.open()
    for number in range(10):
        wire.send(CLIENT, request(3, 1, number, b"ask"))
        if number in (3, 4):
            wire.lose(SERVER, len(response(number, b"tell")))
        else:
            wire.send(SERVER, response(number, b"tell"), after_ms=30)
    found, conversations = follow(wire)
    assert [one.correlation_id for one in found if one.status == "unanswered"] == [3, 4]
    assert sum(one.status == "answered" for one in found) == 8
    assert array_of(conversations.state.directions)["lost_bytes"][1] == 2 * len(response(0, b"tell"))


def test_raw_sasl_tokens_after_handshake_0(wire: Wire) -> None:
    wire.open().send(CLIENT, request(17, 0, 1, b"\x00\x05PLAIN")).send(SERVER, response(1, b"\0\0\0\0\0\0"))
    wire.send(CLIENT, frame(b"\0alice\0secret")).send(SERVER, frame(b""))
    wire.send(CLIENT, request(3, 1, 2)).send(SERVER, response(2, b"x"))
    found, conversations = follow(wire)
    assert brief(found) == [("answered", 1), ("answered", 2)]
    assert (
        array_of(conversations.state.directions)["skipped_bytes"][0]
        == array_of(conversations.state.directions)["skipped_bytes"][1]
        == 0
    )
    for splits in (1, 3, 9):
        found, _ = follow(wire, splits, tokens=True)
        assert brief(found) == [("sasl_token", 0), ("answered", 1), ("answered", 2)]
        assert (found[0].request, found[0].response) == (b"\0alice\0secret", b"")
        assert [one.ordinal for one in found] == [-1, 0, 1]


def test_a_response_captured_before_its_request_is_kept_from_split_to_split(wire: Wire) -> None:
    wire.open().send(CLIENT, request(3, 1, 1)).send(SERVER, response(1, b"first"))
    wire.send(SERVER, response(2, b"early")).send(CLIENT, request(3, 1, 2))
    for splits in range(1, 8):
        made, pieces = wire.splits(splits)
        conversations = new_flow_processor(made, VERSIONS)
        rows = [
            (row(exchange, harvest.arena).response, exchange.response.start > 0)
            for piece in pieces
            for harvest in conversations.feed(piece)
            for exchange in rows_of(ExchangeRow, harvest.exchanges)
        ]
        assert rows == [(response(1, b"first")[4:], True), (response(2, b"early")[4:], True)]


def test_gssapi_tokens_without_any_handshake(wire: Wire) -> None:
    wire.open()
    for _ in range(3):
        wire.send(CLIENT, frame(b"\x60\x48" + b"t" * 70)).send(SERVER, frame(b"\x60" + b"u" * 50))
    wire.send(CLIENT, request(3, 1, 2)).send(SERVER, response(2, b"x"))
    assert brief(follow(wire)[0]) == [("answered", 2)]
