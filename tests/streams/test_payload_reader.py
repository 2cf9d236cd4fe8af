"""Payload is read where segments point to, whatever their sizes and order."""

import random
from pathlib import Path

import numpy as np
import pytest

from kdissect.array_types import Bytes, Int64s
from kdissect.capture.segment_index import CAPTURED, OFFSET, SEGMENT_COLUMNS
from kdissect.jit.many_rows import MANY_ROWS
from kdissect.jit.rows import COMPILED
from kdissect.streams.payload_reader import (
    LARGE,
    MANY_RANGES,
    MEDIUM,
    READ_THROUGH,
    plan,
    read_payload,
    read_ranges,
)
from kdissect.streams.split_segments import SplitSegments, segments_of_split
from kdissect.streams.unread_payload import CaptureChanged


@pytest.mark.parametrize("largest", [200, 3 * LARGE], ids=["small", "large"])
def test_every_segment_gets_its_bytes(tmp_path: Path, largest: int) -> None:
    chance = random.Random(1)
    data = chance.randbytes(400_000)
    path = tmp_path / "capture"
    path.write_bytes(data)
    lengths = np.array([chance.choice([0, largest // 2, largest]) for _ in range(40)])
    offsets = np.array([chance.randrange(len(data) - largest) for _ in lengths])
    streams = np.array([chance.randrange(4) for _ in lengths])
    starts, stops, positions = plan(offsets, lengths, streams)
    out = np.empty(int((stops - starts).sum()), np.uint8)
    read_ranges(str(path), starts, stops, out)
    for offset, length, position in zip(offsets, lengths, positions, strict=True):
        assert out[position : position + length].tobytes() == data[offset : offset + length]


def test_scattered_segments_get_their_bytes(tmp_path: Path) -> None:
    chance = random.Random(2)
    step = 3 * READ_THROUGH
    data = chance.randbytes(4 * MANY_RANGES * step)
    path = tmp_path / "capture"
    path.write_bytes(data)
    offsets = np.arange(0, len(data), step) + np.array(
        [chance.randrange(1000) for _ in range(4 * MANY_RANGES)]
    )
    lengths = np.array([chance.randrange(1, 300) for _ in offsets])
    starts, stops, positions = plan(offsets, lengths, np.zeros_like(offsets))
    assert len(starts) == len(offsets)  # holes are not read
    out = np.empty(int((stops - starts).sum()), np.uint8)
    read_ranges(str(path), starts, stops, out)
    for offset, length, position in zip(offsets, lengths, positions, strict=True):
        assert out[position : position + length].tobytes() == data[offset : offset + length]


class Arena:
    """Room for payload behind other bytes."""

    def __init__(self) -> None:
        self.bytes = np.empty(0, np.uint8)

    def room(self, size: int) -> tuple[Bytes, int]:
        self.bytes = np.full(7 + size, 255, np.uint8)
        return self.bytes[7:], 7


def segments_of(offsets: Int64s, lengths: Int64s, counts: Int64s) -> SplitSegments:
    segments = np.zeros((SEGMENT_COLUMNS, len(offsets)), np.int64, order="F")
    segments[OFFSET], segments[CAPTURED] = offsets, lengths
    return segments_of_split(segments, counts, np.zeros(len(counts), np.int64))


@pytest.mark.parametrize("order", ["ascending", "any"])
@pytest.mark.parametrize("count", [40, MANY_ROWS + 500])
@pytest.mark.parametrize("spread", [1 << 20, 64 << 20], ids=["dense", "thin"])
@pytest.mark.parametrize("longest", [300, 4 * MEDIUM])
def test_payload_is_read_however_it_lies(
    tmp_path: Path, order: str, count: int, spread: int, longest: int
) -> None:
    chance = np.random.default_rng(1)
    data = chance.integers(0, 255, spread + longest, np.uint8)
    path = tmp_path / "capture"
    path.write_bytes(data.tobytes())
    lengths = chance.integers(0, longest, count)
    offsets = chance.integers(0, spread, count)
    counts = np.array([count // 2, 0, count - count // 2])
    if order == "ascending":
        offsets = np.concatenate([np.sort(offsets[: counts[0]]), np.sort(offsets[counts[0] :])])
    arena = Arena()
    places = read_payload(str(path), segments_of(offsets, lengths, counts), arena.room)
    for offset, length, place in zip(offsets, lengths, places, strict=True):
        assert (arena.bytes[place : place + length] == data[offset : offset + length]).all()
    if COMPILED and order == "ascending" and count > MANY_ROWS and (spread == 1 << 20 or longest > 300):
        assert len(arena.bytes) == 7 + lengths.sum()  # nothing between


@pytest.mark.parametrize("count", [40, MANY_ROWS + 500])
@pytest.mark.parametrize("size", [10, 2 * MEDIUM])
def test_payload_of_a_capture_that_became_shorter_is_an_error(tmp_path: Path, count: int, size: int) -> None:
    path = tmp_path / "capture"
    path.write_bytes(bytes(size * count - 5))
    segments = segments_of(size * np.arange(count), np.full(count, size), np.array([count]))
    with pytest.raises(CaptureChanged, match="shorter"):
        read_payload(str(path), segments, Arena().room)


def test_nothing_is_planned_without_payload() -> None:
    starts, stops, positions = plan(np.arange(3), np.zeros(3, np.int64), np.arange(3))
    assert (len(starts), len(stops), positions.tolist()) == (0, 0, [0, 0, 0])


def test_a_capture_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(bytes(10))
    with pytest.raises(CaptureChanged, match="shorter"):
        read_ranges(str(path), np.array([5]), np.array([15]), np.empty(10, np.uint8))


def test_many_ranges_of_a_capture_that_became_shorter_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(bytes(10 * MANY_RANGES - 5))
    starts = 10 * np.arange(MANY_RANGES)
    with pytest.raises(CaptureChanged, match="shorter"):
        read_ranges(str(path), starts, starts + 10, np.empty(10 * MANY_RANGES, np.uint8))
