"""Segments get their bytes where their stream has them, by a window or by a call of their own."""

from pathlib import Path

import numpy as np
import pytest

from kdissect.array_types import Bytes, Int64s
from kdissect.streams.ordered_reads import ALONE, HOLE, WINDOW, read_in_order

FILE_BYTES = 8 * WINDOW


@pytest.fixture
def capture(tmp_path: Path) -> tuple[Path, Bytes]:
    data = np.random.default_rng(5).integers(0, 256, FILE_BYTES, np.uint8)
    path = tmp_path / "capture"
    path.write_bytes(data.tobytes())
    return path, data


def taken(path: Path, offsets: Int64s, lengths: Int64s, streams: Int64s) -> tuple[bool, Bytes, Int64s]:
    """Return whether all segments were read, and the bytes of the streams one behind another."""
    order = np.argsort(streams, kind="stable")
    positions = np.empty(len(offsets), np.int64)
    positions[order] = np.cumsum(lengths[order]) - lengths[order]
    out = np.zeros(int(lengths.sum()), np.uint8)
    with path.open("rb") as file:
        done = read_in_order(file.fileno(), offsets, lengths, positions, np.flatnonzero(lengths), out)
    return done, out, order


@pytest.mark.parametrize("longest", [90, HOLE, ALONE - 1, 3 * ALONE, WINDOW + 1])
@pytest.mark.parametrize("count", [1, 2, 40, 400])
def test_each_segment_gets_its_bytes(capture: tuple[Path, Bytes], longest: int, count: int) -> None:
    path, data = capture
    chance = np.random.default_rng(longest + count)
    lengths = chance.integers(0, longest + 1, count)
    offsets = chance.integers(0, FILE_BYTES - longest, count)
    done, out, order = taken(path, offsets, lengths, chance.integers(0, 5, count))
    plain = [data[offset : offset + length] for offset, length in zip(offsets, lengths, strict=True)]
    assert done
    assert (out == np.concatenate([plain[row] for row in order])).all()


@pytest.mark.parametrize("size", [100, ALONE])
def test_a_file_may_end_within_a_segment(capture: tuple[Path, Bytes], size: int) -> None:
    offsets = np.arange(3) * size + FILE_BYTES - 3 * size + 1
    done, _, _ = taken(capture[0], offsets, np.full(3, size), np.zeros(3, np.int64))
    assert not done
    done, _, _ = taken(capture[0], offsets - 1, np.full(3, size), np.zeros(3, np.int64))
    assert done


def test_nothing_is_read_without_segments(capture: tuple[Path, Bytes]) -> None:
    nothing = np.empty(0, np.int64)
    assert taken(capture[0], nothing, nothing, nothing)[0]
