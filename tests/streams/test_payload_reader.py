"""Payload is read where segments point to, whatever their sizes and order."""

import random
from pathlib import Path

import numpy as np
import pytest

from kdissect.jit.many_rows import MANY_ROWS
from kdissect.streams.payload_reader import (
    BLOCK,
    LARGE,
    MANY_RANGES,
    MOST_BLOCKS,
    READ_THROUGH,
    CaptureChanged,
    plan,
    read_ranges,
)


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


@pytest.mark.parametrize("spread", [1 << 20, 5 << 20, MOST_BLOCKS * BLOCK - 1, 2 * MOST_BLOCKS * BLOCK])
def test_many_small_segments_are_read_by_few_ranges(spread: int) -> None:
    chance = np.random.default_rng(1)
    lengths = chance.integers(0, 300, MANY_ROWS + 500)
    offsets = 24 + chance.integers(0, spread, len(lengths))
    starts, stops, positions = plan(offsets, lengths, np.zeros_like(offsets))
    filled = lengths > 0
    assert (positions[~filled] == 0).all()
    # Each segment lies whole in the range that its position is in, at the same distance from its start.
    bases = np.cumsum(stops - starts) - (stops - starts)
    of = np.searchsorted(bases, positions[filled], "right") - 1
    assert (positions[filled] - bases[of] == offsets[filled] - starts[of]).all()
    assert (offsets[filled] + lengths[filled] <= stops[of]).all()
    assert starts[0] == offsets[filled].min()
    assert stops[-1] == (offsets + lengths)[filled].max()
    assert (starts[1:] > stops[:-1]).all()


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
