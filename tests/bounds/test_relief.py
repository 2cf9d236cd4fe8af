"""A crowd of connections that together hold more than may be held, and one that holds little amid them."""

import struct
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from kdissect.capture.segment_index import (
    FLAG_ACK,
    FLAG_B_TO_A,
    FLAG_SYN,
    SEGMENT_COLUMNS,
)
from kdissect.jit.rows import array_of, rows_of
from kdissect.protocol.schema.registry import highest_versions
from kdissect.streams.endpoints import Endpoints
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import STATUS_NAMES, ExchangeRow
from kdissect.streams.processor import FlowProcessor
from kdissect.streams.tls.decrypt_stage import new_flow_processor
from tests.bounds.hazards import response

CROWD, ROUNDS, PART = 200, 20, 1000
REQUEST = 22  # bytes of the shortest
MOST_HELD = 1 << 20
MODEST = CROWD  # the row of the one amid them
VERSIONS = np.array(highest_versions(), np.int64)
Said = tuple[int, int, int, bytes]  # row of the connection, side, position in its stream, bytes


def request(correlation: int, size: int = 0) -> bytes:
    """Return a request for metadata that has or claims so many bytes more than its REQUEST."""
    return struct.pack(">ihhih4si", REQUEST - 4 + size, 3, 1, correlation, 4, b"many", 0)


def behind_holes(row: int, turn: int) -> Iterator[Said]:
    yield row, 0, 100 + turn * PART, bytes(PART)


def halves_of_frames(row: int, turn: int) -> Iterator[Said]:
    yield row, 0, turn * PART, (request(7, ROUNDS * PART) + bytes(PART))[:PART] if turn == 0 else bytes(PART)


def without_answers(row: int, turn: int) -> Iterator[Said]:
    yield row, 0, turn * PART, request(turn, PART - REQUEST) + bytes(PART - REQUEST)


def of_nobody_knows_what(row: int, turn: int) -> Iterator[Said]:
    yield row, 0, 5000 + turn * PART, b"\xee" * PART


KINDS = (behind_holes, halves_of_frames, without_answers, of_nobody_knows_what)


def told(kind: Callable[[int, int], Iterator[Said]]) -> Iterator[Said]:
    """Yield what all of them say, in turns, and the modest one: its second request comes before its first,
    and is answered."""
    first, second = request(1), request(2)
    yield MODEST, 0, len(first), second
    for turn in range(ROUNDS):
        for row in range(CROWD):
            yield from kind(row, turn)
    yield MODEST, 0, 0, first
    yield MODEST, 1, 0, response(1, b"")[1] + response(2, b"")[1]
    if kind is halves_of_frames:
        for row in range(CROWD):
            yield row, 0, ROUNDS * PART, bytes(REQUEST)
            yield row, 1, 0, response(7, b"")[1]


def found(kind: Callable[[int, int], Iterator[Said]], slab: int) -> tuple[list, FlowProcessor, int]:
    """Return the exchanges, the conversations, and the most that was held between two slabs."""
    conversations = new_flow_processor((), VERSIONS, most_held=MOST_HELD)
    columns, rows, payload = [], [], []

    def add(row: int, side: int, sequence: int, data: bytes, flags: int) -> None:
        time = 10**18 + len(columns) * 1000
        flags |= FLAG_B_TO_A if side else 0
        columns.append((time, len(columns), 0, len(data), 0, sequence & 0xFFFFFFFF, 1, flags))
        rows.append(row)
        payload.append(data)

    for row in range(CROWD + 1):
        conversations.new_connection(Endpoints(bytes(16), 10_000 + row, bytes(16), 9092), 10**18)
        if kind is not of_nobody_knows_what or row == MODEST:
            add(row, 0, 0, b"", FLAG_SYN)
            add(row, 1, 0, b"", FLAG_SYN | FLAG_ACK)
    for row, side, position, data in told(kind):
        add(row, side, position + 1, data, FLAG_ACK)

    def taken(harvest: ExchangeBatch) -> Iterator[tuple]:
        for one in rows_of(ExchangeRow, harvest.exchanges):
            request = one.request
            held, claimed = request.stop - request.start, request.frame_stop - request.start
            yield one.connection, one.correlation_id, STATUS_NAMES[one.status], held, claimed

    segments = np.array(columns, np.int64).reshape(-1, SEGMENT_COLUMNS)
    exchanges, peak = [], 0
    for start in range(0, len(columns), slab):
        part = slice(start, start + slab)
        fed = conversations.feed_plain(
            np.ascontiguousarray(segments[part].T), np.array(rows[part]), b"".join(payload[part])
        )
        for harvest in fed:
            exchanges += taken(harvest)
        peak = max(peak, int(conversations.state.counters.held))
    for harvest in conversations.close():
        exchanges += taken(harvest)
    return sorted(exchanges), conversations, peak


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.slow
def test_together_they_hold_no_more_than_they_may(kind: Callable[[int, int], Iterator[Said]]) -> None:
    exchanges, conversations, peak = found(kind, 101)
    overheld = array_of(conversations.state.connections)["overheld"][: CROWD + 1]
    assert MOST_HELD // 2 < peak <= MOST_HELD + 2 * PART
    assert overheld[:CROWD].min() > 0
    assert overheld[MODEST] == 0
    assert [(one[1], one[2]) for one in exchanges if one[0] == MODEST] == [(1, "answered"), (2, "answered")]
    if kind is halves_of_frames:  # paired, though their bodies are gone
        crowd = [one for one in exchanges if one[0] != MODEST]
        assert [one[:3] for one in crowd] == [(row, 7, "answered") for row in range(CROWD)]
        assert all(500 < one[3] < ROUNDS * PART for one in crowd)
        assert all(one[4] == REQUEST - 4 + ROUNDS * PART for one in crowd)
    if kind is without_answers:
        assert sum(one[2] == "unanswered" for one in exchanges) == CROWD * ROUNDS
        assert all(one[3] == one[4] for one in exchanges)
    if kind is of_nobody_knows_what:
        assert (
            array_of(conversations.state.directions)["skipped_bytes"][: 2 * CROWD].sum()
            == CROWD * ROUNDS * PART
        )
    whole, other, _ = found(kind, 1 << 20)
    assert whole == exchanges
    for field in ("skipped_bytes", "overfull_holes"):
        assert (
            array_of(other.state.directions)[field] == array_of(conversations.state.directions)[field]
        ).all()
    assert (
        array_of(other.state.connections)["overheld"] == array_of(conversations.state.connections)["overheld"]
    ).all()
