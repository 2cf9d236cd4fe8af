"""Payload is read where segments point to, whatever their sizes and order."""

import random
from pathlib import Path

import numpy as np
import pytest

from kdissect.streams.payload_reader import LARGE, CaptureChanged, plan, read_ranges


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


def test_nothing_is_planned_without_payload() -> None:
    starts, stops, positions = plan(np.arange(3), np.zeros(3, np.int64), np.arange(3))
    assert (len(starts), len(stops), positions.tolist()) == (0, 0, [0, 0, 0])


def test_a_capture_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(bytes(10))
    with pytest.raises(CaptureChanged, match="shorter"):
        read_ranges(str(path), np.array([5]), np.array([15]), np.empty(10, np.uint8))
