"""The engine stops between two steps and goes on at the same place: sizes of pools and slabs do not show."""

from pathlib import Path

import numpy as np
import pytest

from kdissect.capture.segment_index import SEGMENT_COLUMNS, TIME
from kdissect.jit.rows import rows_of
from kdissect.streams import engine
from kdissect.streams.engine import FLUSH_AT
from kdissect.streams.flow_state import ExchangeRow, State
from kdissect.streams.segment_loop import advance
from kdissect.streams.tls.decrypt_stage import new_flow_processor
from tests.helpers.followed import VERSIONS, Found, brief, follow, row
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, request, response

MANY = 3000  # more than any pool has room for at first
LARGE = 60_000  # bytes of a segment


def sent_in_parts(wire: Wire, side: int, data: bytes, size: int) -> None:
    for at in range(0, len(data), size):
        wire.send(side, data[at : at + size])


def test_segments_of_thousands_of_frames_lose_none(tmp_path: Path) -> None:
    wire = Wire(tmp_path / "payload").open()
    sent_in_parts(wire, CLIENT, b"".join(request(3, 1, number) for number in range(MANY)), LARGE)
    sent_in_parts(wire, SERVER, b"".join(response(number) for number in range(MANY)), LARGE)
    found, processor = follow(wire.close())
    assert brief(found) == [("answered", number) for number in range(MANY)]
    assert [one.in_flight for one in found] == list(range(1, MANY + 1))
    direction = processor.state.directions[0]
    assert direction.payload_bytes == sum(len(request(3, 1, number)) for number in range(MANY))
    assert direction.retransmitted == 0


def test_the_loop_gets_descriptors_of_one_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the largest kernel: another layout, of what TLS protected, would have it compiled once more."""
    layouts = set()

    def advance_and_note(state: State, segments: np.ndarray, *others: object) -> tuple[int, int]:
        layouts.add((segments.flags.f_contiguous, segments.flags.c_contiguous))
        return advance(state, segments, *others)

    monkeypatch.setattr(engine, "advance", advance_and_note)
    wire = Wire(tmp_path / "payload").open()
    wire.send(CLIENT, request(3, 1, 1))
    wire.send(SERVER, response(1))
    found, processor = follow(wire.close())
    assert brief(found) == [("answered", 1)]
    for count in (2, 1, 0):
        columns = np.zeros((SEGMENT_COLUMNS, count), np.int64)
        columns[TIME] = 10**9
        list(processor.feed_plain(columns, np.zeros(count, np.int64), b""))
    assert layouts == {(True, False)}


def test_batches_are_flushed_when_the_table_is_full(tmp_path: Path) -> None:
    wire = Wire(tmp_path / "payload").open()
    for first in range(0, 2 * FLUSH_AT, 1000):
        numbers = range(first, first + 1000)
        sent_in_parts(wire, CLIENT, b"".join(request(3, 1, number) for number in numbers), LARGE)
        sent_in_parts(wire, SERVER, b"".join(response(number) for number in numbers), LARGE)
    found, processor = follow(wire.close())
    assert [one.correlation_id for one in found] == list(range(len(found)))
    assert len(found) >= 2 * FLUSH_AT >= len(processor.state.exchanges)


def of_batches(wire: Wire, splits: int, batch_bytes: int) -> list[list[Found]]:
    made, pieces = wire.splits(splits)
    processor = new_flow_processor(made, VERSIONS, batch_bytes=batch_bytes)
    batches = [
        [row(exchange, batch.arena) for exchange in rows_of(ExchangeRow, batch.exchanges)]
        for piece in pieces
        for batch in processor.feed(piece)
    ]
    return batches + [
        [row(exchange, batch.arena) for exchange in rows_of(ExchangeRow, batch.exchanges)]
        for batch in processor.close()
    ]


def exchanges_of(batches: list[list[Found]]) -> list[Found]:
    return [one for batch in batches for one in batch]


def test_exchanges_of_several_splits_come_in_one_batch(tmp_path: Path) -> None:
    wire = Wire(tmp_path / "payload").open()
    for number in range(200):
        sent_in_parts(wire, CLIENT, request(3, 1, number, bytes([number]) * 3000), 700)
        sent_in_parts(wire, SERVER, response(number, bytes([number]) * 2000), 1400)
    wire.close()
    plain = of_batches(wire, 20, 0)
    together = of_batches(wire, 20, 1 << 20)
    some = of_batches(wire, 20, 300_000)
    assert exchanges_of(plain) == exchanges_of(together) == exchanges_of(some)
    assert len(exchanges_of(plain)) == 200
    assert len(plain) == 20 > len(some) > len(together)
    # Payload of 5 KB each, and frames of many segments, which are assembled, take as much again.
    assert 300_000 // 20_000 < max(map(len, some)) < 300_000 // 5000


def test_nothing_waits_in_a_task_of_many_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(tmp_path / "payload").open()
    for number in range(40):
        wire.send(CLIENT, request(3, 1, number)).send(SERVER, response(number))
    assert len(of_batches(wire.close(), 5, 1 << 20)) == 1
    monkeypatch.setattr(engine, "MOST_CONNECTIONS", 0)
    assert of_batches(wire, 5, 1 << 20) == of_batches(wire, 5, 0)


def test_nothing_waits_behind_a_split_that_filled_a_batch(tmp_path: Path) -> None:
    wire = Wire(tmp_path / "payload").open()
    for first in range(0, FLUSH_AT + 4000, 1000):
        numbers = range(first, first + 1000)
        sent_in_parts(wire, CLIENT, b"".join(request(3, 1, number) for number in numbers), LARGE)
        sent_in_parts(wire, SERVER, b"".join(response(number) for number in numbers), LARGE)
    assert list(map(len, of_batches(wire.close(), 1, 1 << 30))) == list(map(len, of_batches(wire, 1, 0)))
