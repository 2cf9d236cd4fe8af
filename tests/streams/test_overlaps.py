"""Segments sent again with other bytes.

The first ones count, and each conflict is counted, wherever splits are cut.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kdissect.array_types import Bools, Int64s
from kdissect.capture.segment_index import (
    CAPTURED,
    FLAG_RST,
    FLAG_SYN,
    FLAGS,
    OFFSET,
    PACKET,
    SEGMENT_COLUMNS,
    SEQ,
)
from kdissect.jit.rows import array_of
from kdissect.protocol.schema.registry import highest_versions
from kdissect.streams import overlaps
from kdissect.streams.flow_state import DIFFERS, PROBES, REPEATS
from kdissect.streams.overlaps import (
    AT,
    COMPARED_FIELDS,
    HOW,
    NEAR_BYTES,
    NEAR_PACKETS,
    NUMBER,
    PLACE,
    SEQUENCE,
    SIZE,
    Conflicts,
    _is_whole,
    _Near,
    compare,
)
from kdissect.streams.split_segments import IN_FILE, SplitSegments
from kdissect.streams.state_pools import new_state, with_more_connections
from kdissect.streams.tls.decrypt_stage import new_flow_processor
from kdissect.tables.build import dissect_batches
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, request, response

ASK = request(3, 1, 1, bytes(range(200)))
OTHER = ASK[:150] + b"\xff" + ASK[151:]


def again(wire: Wire, payload: bytes, start: int = 0, stop: int | None = None, after_ms: float = 300) -> Wire:
    return wire.packet(CLIENT, start, payload[start:stop], after_ms=after_ms)


# The segments after ASK and its response: segments sent again, how many of them conflict, how many repeat.
CASES: dict[str, tuple[Callable[[Wire], Wire], int, int]] = {
    "the same bytes": (lambda wire: again(wire, ASK), 0, 1),
    "one byte differs": (lambda wire: again(wire, OTHER), 1, 1),
    "it differs elsewhere": (lambda wire: again(wire, OTHER, 0, 150), 0, 1),
    "a part that differs": (lambda wire: again(wire, OTHER, 140, 160), 1, 1),
    "right, wrong, right": (lambda wire: again(again(again(wire, ASK), OTHER), ASK), 1, 3),
    "wrong twice": (lambda wire: again(again(wire, OTHER), OTHER), 2, 2),
    "a keep-alive probe": (lambda wire: wire.packet(CLIENT, len(ASK) - 1, b"\x7f"), 0, 0),
    "new bytes behind": (
        lambda wire: wire.packet(CLIENT, 100, OTHER[100:] + request(3, 1, 2)),
        1,
        1,
    ),
    "after many others": (lambda wire: again(many(wire, 200), OTHER), 1, 1),
    "after too many others": (lambda wire: again(many(wire, 260), OTHER), 0, 1),
}


def many(wire: Wire, count: int) -> Wire:
    for number in range(count):
        wire.send(CLIENT, request(3, 1, number + 2))
    return wire


@pytest.mark.parametrize("splits", [1, 3, 50])
@pytest.mark.parametrize("case", CASES)
def test_each_case(tmp_path: Path, case: str, splits: int) -> None:
    happens, conflicts, repeats = CASES[case]
    wire = Wire(tmp_path / "payload").open().send(CLIENT, ASK).send(SERVER, response(1))
    made, pieces = happens(wire).splits(splits)
    conversations = new_flow_processor(made, np.array(highest_versions(), np.int64))
    for piece in pieces:
        for _ in conversations.feed(piece):
            pass
    assert array_of(conversations.state.directions)["conflicts"][:2].tolist() == [conflicts, 0]
    assert array_of(conversations.state.directions)["retransmitted"][0] == repeats


def test_bytes_that_wait_behind_a_hole(tmp_path: Path) -> None:
    wire = Wire(tmp_path / "payload").open()
    wire.packet(CLIENT, 100, ASK[100:]).packet(CLIENT, 90, OTHER[90:]).packet(CLIENT, 0, ASK[:100])
    made, pieces = wire.send(SERVER, response(1)).splits()
    tables = list(dissect_batches(pieces, made))
    (exchange,) = tables[0]["exchanges"].to_pylist()
    assert (exchange["status"], exchange["request_bytes"]) == ("answered", len(ASK) - 4)
    assert tables[-1]["connections"]["conflicting_segments"].to_pylist() == [1]


@pytest.mark.parametrize("wrong", [None, *range(0, 40, 3)])
@pytest.mark.parametrize("start", [0, 1, 8, 13])
@pytest.mark.parametrize("in_arena", [True, False])
def test_every_byte_is_compared(wrong: int | None, start: int, in_arena: bool) -> None:
    sent = np.arange(100, 140, dtype=np.uint8)
    again = sent.copy()
    if wrong is not None:
        again[wrong] ^= 1
    arena = np.concatenate([np.zeros(3, np.uint8), again[start:], sent])
    rows = np.zeros((2, COMPARED_FIELDS), np.int64)
    rows[:, SEQUENCE], rows[:, SIZE] = (500, 500 + start), (40, 40 - start)
    rows[:, HOW], rows[:, AT] = (0, REPEATS), (3 + 40 - start if in_arena else ~0, 3)
    compare(rows, arena, sent, np.zeros(2, np.bool_), False)
    assert (rows[1, HOW] & DIFFERS != 0) == (wrong is not None and wrong >= start)


def of_streams(segments: Int64s, streams: Int64s) -> SplitSegments:
    """Return segments of one piece, whose flags and directions are given."""
    numbers, counts = segments[PACKET] & IN_FILE, np.array([len(streams)])
    last = int(numbers.max()), int(segments[OFFSET].max())
    return SplitSegments(segments, counts, streams >> 1, streams, 0, 0, *last)


@pytest.mark.parametrize("packets", [1, NEAR_PACKETS // 2])
@pytest.mark.parametrize("size", [100, NEAR_BYTES // 4])
def test_only_splits_that_are_far_are_left_out(packets: int, size: int) -> None:
    conflicts, state = Conflicts(), new_state(np.array(highest_versions(), np.int64))
    for split in range(5):
        segments = np.zeros((SEGMENT_COLUMNS, 2), np.int64, order="F")
        segments[PACKET] = 2 * split * packets, (2 * split + 1) * packets
        segments[OFFSET] = 2 * split * size, (2 * split + 1) * size
        segments[CAPTURED] = 10
        found = of_streams(segments, np.zeros(2, np.int64))
        conflicts.count("capture", found, False, np.zeros(2, np.int64), state)
    number, place = 10 * packets, 10 * size
    judged = np.zeros((SEGMENT_COLUMNS, 2), np.int64, order="F")
    judged[PACKET], judged[CAPTURED], judged[FLAGS] = number, 10, REPEATS
    near = conflicts._seen_near(_Near(judged, np.zeros(2, np.int64), np.arange(2), 1), number, place)
    seen = conflicts._seen()
    left_out = seen[: len(seen) - len(near)]
    assert (near == seen[len(left_out) :]).all()
    assert ((number - left_out[:, NUMBER] > NEAR_PACKETS) | (place - left_out[:, PLACE] > NEAR_BYTES)).all()
    assert len(near) == (2 if packets > 1 else 4 if size > 100 else 10)


def repeating_splits(path: Path, chance: np.random.Generator) -> Iterator[tuple[Int64s, Int64s]]:
    """Return segments of five directions and their places in `path`, 2,000 a split; some repeat bytes."""
    path.write_bytes(chance.integers(0, 2, 5000, np.uint8).tobytes())
    packet = 0
    for _ in range(4):
        segments = np.zeros((SEGMENT_COLUMNS, 2000), np.int64, order="F")
        segments[PACKET] = packet + np.arange(2000)
        segments[OFFSET] = chance.integers(100, 4990, 2000)
        segments[CAPTURED] = chance.integers(0, 4, 2000)
        segments[SEQ] = chance.integers(0, 3000, 2000)
        kinds = (0, FLAG_SYN, FLAG_RST, PROBES, REPEATS)
        segments[FLAGS] = chance.choice(kinds, 2000, p=(0.92, 0.01, 0.01, 0.03, 0.03))
        packet += 2000
        yield segments, chance.integers(0, 5, 2000)


def equal_before(path: str, places: Int64s, keys: Int64s, repeats: Bools) -> Int64s:
    """Return the last segment with the same key, of every second one that repeats."""
    last: dict[tuple[int, ...], int] = {}
    found = np.full(len(keys), -1, np.int64)
    for row, key in enumerate(map(tuple, keys.tolist())):
        if repeats[row] and places[row] % 2:
            found[row] = last.get(key, -1)
        last[key] = row
    return found


def judged(splits: Iterable[tuple[Int64s, Int64s]], path: Path) -> tuple[Counter[str], list[Any]]:
    """Return what is counted of splits: sums by field, and all of it with the flags of the segments."""
    state = with_more_connections(new_state(np.array(highest_versions(), np.int64)), 3)
    conflicts, flags = Conflicts(), []
    for segments, streams in splits:
        state = state._replace(arena=np.fromfile(path, np.uint8))
        conflicts.count(str(path), of_streams(segments, streams), True, segments[OFFSET], state)
        flags.append(segments[FLAGS].tolist())
    directions, connections = array_of(state.directions), array_of(state.connections)
    sums = Counter(conflicts=directions["conflicts"].sum(), duplicates=connections["duplicates"].sum())
    return sums, [directions.tolist(), connections.tolist(), flags]


@pytest.mark.parametrize("seed", range(5))
def test_the_chosen_segments_suffice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    path = tmp_path / "capture"
    monkeypatch.setattr(overlaps, "earlier_copies", equal_before)
    some = judged(repeating_splits(path, np.random.default_rng(seed)), path)

    def choose_all(
        self: _Near, segments: Int64s, streams: Int64s, least: int, are_new: bool = False
    ) -> Int64s:
        late = np.flatnonzero((segments[PACKET] & IN_FILE >= least) & (self.left[streams] >= 0))
        return late[_is_whole(segments, late)]

    monkeypatch.setattr(_Near, "choose", choose_all)
    every = judged(repeating_splits(path, np.random.default_rng(seed)), path)
    assert some == every
    assert min(some[0].values()) > 0
