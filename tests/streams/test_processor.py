"""Conversations on a made-up wire: every exchange is found, however the capture is split."""

import gc
import random
import weakref
from pathlib import Path

import numpy as np

from kdissect.capture.segment_index import (
    FLAG_ACK,
    FLAG_B_TO_A,
    FLAG_SYN,
    FLAGS,
    SEGMENT_COLUMNS,
    SEQ,
    UnpackedPieces,
)
from kdissect.jit.rows import array_of, rows_of
from kdissect.streams.flow_state import PROTOCOL_NAMES, ExchangeRow
from kdissect.streams.processor import _opened_by
from kdissect.streams.tls.decrypt_stage import new_flow_processor
from tests.helpers.followed import VERSIONS, brief, follow, row
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, request, response

CONNECTION_COUNTS = ["first_ns", "last_ns", "packets", "duplicates", "requests", "responses", "unanswered"]


DIRECTION_COUNTS = ["lost_bytes", "skipped_bytes", "reordered", "retransmitted"]


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


def test_a_processor_is_freed_when_nobody_holds_it(wire: Wire) -> None:
    """Its arenas are large, so they may not wait for the garbage collector."""
    wire.open().send(CLIENT, request(3, 1, 1)).send(SERVER, response(1))
    gc.disable()
    try:
        _, processor = follow(wire.close())
        gone = weakref.ref(processor)
        del processor
        assert gone() is None
    finally:
        gc.enable()


def test_payload_is_let_go_when_all_connections_have_ended(wire: Wire) -> None:
    """Tables of connections take memory of their own behind that."""
    wire.open().send(CLIENT, request(3, 1, 1)).send(SERVER, response(1))
    _, processor = follow(wire.close())
    assert len(processor.state.arena) == 1


def test_only_a_bare_syn_opens() -> None:
    flags = [FLAG_SYN, FLAG_SYN | FLAG_ACK, FLAG_SYN | FLAG_B_TO_A, FLAG_ACK, FLAG_SYN]
    segments = np.zeros((SEGMENT_COLUMNS, len(flags)), np.int64)
    segments[FLAGS], segments[SEQ] = flags, [10, 11, 12, 13, 14]
    counts = np.array([1, 1, 0, 1, 2])  # the third piece has no segment, the last one begins with an ACK
    heads = np.where(counts, np.cumsum(counts) - counts, -1)
    found = _opened_by(UnpackedPieces(segments, heads)).tolist()
    assert found == [10, -1, -1, 1 << 32 | 12, -1]
