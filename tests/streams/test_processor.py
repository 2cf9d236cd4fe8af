"""Conversations on a made-up wire.

Every exchange whose bytes are there is found, however the capture is split.
"""

import random
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from kdissect.jit.rows import array_of, rows_of
from kdissect.streams.flow_state import PROTOCOL_NAMES, STATUS_NAMES, ExchangeRow
from kdissect.streams.processor import FlowProcessor
from kdissect.streams.tls.decrypt_stage import new_flow_processor
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, frame, request, response

VERSIONS = np.full(93, 13, np.int64)


class Found(NamedTuple):
    ordinal: int
    status: str
    api_key: int
    correlation_id: int
    in_flight: int
    request: bytes
    response: bytes
    request_cut: int  # bytes that the frame should have and the capture has not
    response_cut: int
    latency_ns: int


CONNECTION_COUNTS = ["first_ns", "last_ns", "packets", "duplicates", "requests", "responses", "unanswered"]
DIRECTION_COUNTS = ["lost_bytes", "skipped_bytes", "reordered", "retransmitted"]


def follow(wire: Wire, splits: int = 1, tokens: bool = False) -> tuple[list[Found], FlowProcessor]:
    made, pieces = wire.splits(splits)
    conversations = new_flow_processor(made, VERSIONS, tokens=tokens)
    found = []
    for piece in pieces:
        for harvest in conversations.feed(piece):
            found += [row(exchange, harvest.arena) for exchange in rows_of(ExchangeRow, harvest.exchanges)]
    for harvest in conversations.close():
        found += [row(exchange, harvest.arena) for exchange in rows_of(ExchangeRow, harvest.exchanges)]
    return sorted(found), conversations


def row(exchange, arena) -> Found:
    def side(first):
        return arena[first.start : first.stop].tobytes()

    return Found(
        exchange.ordinal,
        STATUS_NAMES[exchange.status],
        exchange.api_key,
        exchange.correlation_id,
        exchange.in_flight,
        side(exchange.request),
        side(exchange.response),
        exchange.request.frame_stop - exchange.request.stop,
        exchange.response.frame_stop - exchange.response.stop,
        exchange.response.first_byte_ns - exchange.request.last_byte_ns,
    )


def brief(found: list[Found]) -> list[tuple[str, int]]:
    return [(one.status, one.correlation_id) for one in found]


@pytest.fixture
def wire(tmp_path: Path) -> Wire:
    return Wire(tmp_path / "payload")


@pytest.fixture(params=[False, True], ids=["client-is-a", "server-is-a"])
def either(request, tmp_path: Path) -> Wire:
    return Wire(tmp_path / "payload", server_is_a=request.param)


def test_one_after_another(either: Wire) -> None:
    either.open()
    for number in range(5):
        either.send(CLIENT, request(3, 5, number, b"ask")).send(SERVER, response(number, b"tell"), after_ms=7)
    found, conversations = follow(either.close())
    assert brief(found) == [("answered", number) for number in range(5)]
    assert [one.latency_ns for one in found] == [7_000_000] * 5
    assert {one.in_flight for one in found} == {1}
    assert found[0].request == request(3, 5, 0, b"ask")[4:]
    assert found[4].response == response(4, b"tell")[4:]
    assert PROTOCOL_NAMES[array_of(conversations.state.connections)["protocol"][0]] == "kafka"


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


def test_a_start_in_the_middle_of_frames(wire: Wire) -> None:
    ask, tell = request(3, 1, 1, b"q" * 300), response(1, b"r" * 300)
    wire.send(CLIENT, ask[150:]).send(SERVER, tell[77:])
    for number in range(2, 6):
        wire.send(CLIENT, request(3, 1, number)).send(SERVER, response(number, b"!"))
    found, conversations = follow(wire)
    assert brief(found) == [("answered", number) for number in range(2, 6)]
    assert array_of(conversations.state.directions)["skipped_bytes"][0] == len(ask) - 150
    assert array_of(conversations.state.directions)["skipped_bytes"][1] == len(tell) - 77


@pytest.mark.parametrize("name", [b"a\tb", b"\x1b[31m", "\u202e\u00e9".encode(), b"\x7f"])
@pytest.mark.parametrize("opened", [True, False])
def test_clients_may_call_themselves_anything(wire: Wire, name: bytes, opened: bool) -> None:
    if opened:
        wire.open()
    for number in range(4):
        wire.send(CLIENT, request(3, 1, number, client=name))
        wire.send(SERVER, response(number, b"tell"))
    found, _ = follow(wire)
    assert brief(found) == [("answered", number) for number in range(4)]


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


def test_the_end_of_the_capture_inside_frames(wire: Wire) -> None:
    wire.open().send(CLIENT, request(3, 1, 1)).send(CLIENT, request(3, 1, 2, b"x" * 50)[:40])
    found, _ = follow(wire.send(SERVER, response(1, b"y" * 100)[:30]))
    assert brief(found) == [("answered", 1), ("unanswered", 2)]
    assert found[0].response_cut == len(response(1, b"y" * 100)) - 30
    assert found[1].request_cut == len(request(3, 1, 2, b"x" * 50)) - 40


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


def test_a_port_pair_used_again_is_another_connection(tmp_path: Path) -> None:
    first = Wire(tmp_path / "first").open().send(CLIENT, request(3, 1, 1))
    second = Wire(tmp_path / "second", isn=(77, 88), now_ns=first.now_ns + 1_000_000_000)
    second.open().send(CLIENT, request(3, 1, 1)).send(SERVER, response(1))
    (one,), (piece,) = first.splits()
    (other,), (next_piece,) = second.splits(first_index=1)
    conversations = new_flow_processor([one, other], VERSIONS)
    rows = []
    for pieces in (piece, next_piece):
        for harvest in conversations.feed(pieces):
            rows += [row(exchange, harvest.arena) for exchange in rows_of(ExchangeRow, harvest.exchanges)]
    for harvest in conversations.close():
        rows += [row(exchange, harvest.arena) for exchange in rows_of(ExchangeRow, harvest.exchanges)]
    assert len(conversations.endpoints) == len(set(conversations.identities)) == 2
    assert sorted(brief(rows)) == [("answered", 1), ("unanswered", 1)]


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


@pytest.mark.parametrize("handshake", [True, False])
@pytest.mark.parametrize(
    "talk",
    [
        b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n" * 50,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" + bytes(18),
        b"*3\r\n$3\r\nSET\r\n$5\r\nkafka\r\n$5\r\nvalue\r\n" * 40,
        struct.pack(">ii", 8, 80877103)
        + struct.pack(">ii", 40, 196608)
        + b"user\0me\0database\0orders\0\0".ljust(32, b"\0"),
        b"AMQP\x00\x00\x09\x01"
        + b"\x01\x00\x00\x00\x00\x00\x0c\x00\x0a\x00\x0b\x00\x00\x00\x00\x00\x00\xce" * 20,
        bytes(4096),
        random.Random(1).randbytes(20_000),
    ],
    ids=["http", "http2", "redis", "postgres", "amqp", "zeros", "random"],
)
def test_what_is_not_kafka_gives_no_frames(wire: Wire, talk: bytes, handshake: bool) -> None:
    if handshake:
        wire.open()
    for start in range(0, len(talk), 1000):
        wire.send(CLIENT, talk[start : start + 1000]).send(SERVER, talk[start : start + 1000][::-1])
    found, conversations = follow(wire)
    assert found == []
    assert PROTOCOL_NAMES[array_of(conversations.state.connections)["protocol"][0]] == "unknown"


def test_tls_is_recognised(wire: Wire) -> None:
    hello = b"\x16\x03\x01\x00\x50\x01" + b"h" * 79
    data = b"\x17\x03\x03\x01\x00" + random.Random(2).randbytes(256)
    found, conversations = follow(wire.open().send(CLIENT, hello).send(SERVER, hello).send(CLIENT, data * 5))
    assert found == []
    assert PROTOCOL_NAMES[array_of(conversations.state.connections)["protocol"][0]] == "tls"


def test_a_long_conversation_is_the_same_in_any_number_of_splits(either: Wire) -> None:
    chance = random.Random(3)
    either.open()
    waiting: list[int] = []
    for number in range(120):
        ask = request(chance.choice([0, 1, 3]), 1, number, b"\0\1" + chance.randbytes(chance.randrange(2000)))
        for start in range(0, len(ask), 700):
            either.send(CLIENT, ask[start : start + 700])
        waiting.append(number)
        while waiting and chance.random() < 0.6:
            tell = response(waiting.pop(0), chance.randbytes(chance.randrange(3000)))
            if chance.random() < 0.05:
                either.lose(SERVER, len(tell))
                continue
            for start in range(0, len(tell), 1400):
                if chance.random() < 0.02:
                    either.lose(SERVER, len(tell[start : start + 1400]))
                else:
                    either.send(SERVER, tell[start : start + 1400], after_ms=chance.choice([1, 30]))
    whole, conversations = follow(either)
    assert sum(one.status == "answered" for one in whole) > 90
    for splits in (2, 3, 10, 61):
        parts, again = follow(either, splits)
        assert parts == whole
        count = len(conversations.endpoints)
        connections, others = (array_of(one.state.connections)[:count] for one in (conversations, again))
        assert (connections[CONNECTION_COUNTS] == others[CONNECTION_COUNTS]).all()
        directions, others = (array_of(one.state.directions)[:2] for one in (conversations, again))
        assert (directions[DIRECTION_COUNTS] == others[DIRECTION_COUNTS]).all()


def test_large_segments_of_both_sides_at_once(wire: Wire) -> None:
    """Large segments are read stream by stream; overlaps and early ones must still find their place."""
    chance = random.Random(7)
    asks = [request(1, 9, number, chance.randbytes(90_000)) for number in range(12)]
    tells = [response(number, chance.randbytes(60_000)) for number in range(12)]
    wire.open()
    for ask, tell in zip(asks, tells, strict=True):
        base = wire.sent[CLIENT]
        cuts = [0, 30_000, 61_000, len(ask)]
        for part in chance.sample(range(3), 3):  # in any order, each reaching back over the one before
            start, stop = max(0, cuts[part] - chance.choice([0, 500])), cuts[part + 1]
            wire.packet(CLIENT, base + start, ask[start:stop])
            wire.send(SERVER, b"")  # both directions between each other in the file
        wire.lose(CLIENT, len(ask))
        for start in range(0, len(tell), 20_000):
            wire.send(SERVER, tell[start : start + 20_000])
    whole, _ = follow(wire)
    assert [one.request for one in whole] == [ask[4:] for ask in asks]
    assert [one.response for one in whole] == [tell[4:] for tell in tells]
    for splits in (2, 5, 40):
        assert follow(wire, splits)[0] == whole
