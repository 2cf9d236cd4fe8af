"""Small segments come out of windows of the file, wherever the windows begin and end."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from kdissect.array_types import Bytes, Int64s
from kdissect.capture.segment_index import CAPTURED, OFFSET, SEGMENT_COLUMNS
from kdissect.streams import payload_windows
from kdissect.streams.payload_windows import SHORTER, UNORDERED, take_from_windows


@contextmanager
def opened(path: Path) -> Iterator[int]:
    with path.open("rb") as file:
        yield file.fileno()


def segments_of(offsets: Int64s, lengths: Int64s) -> Int64s:
    segments = np.zeros((SEGMENT_COLUMNS, len(offsets)), np.int64, order="F")
    segments[OFFSET], segments[CAPTURED] = offsets, lengths
    return segments


@pytest.fixture
def capture(tmp_path: Path) -> tuple[Path, Bytes]:
    data = np.random.default_rng(3).integers(0, 256, 300_000, np.uint8)
    path = tmp_path / "capture"
    path.write_bytes(data.tobytes())
    return path, data


@pytest.mark.parametrize("window", [1, 7, 512, 64 << 10])
@pytest.mark.parametrize("longest", [1, 90, 2000])
def test_each_segment_gets_its_bytes_once(
    capture: tuple[Path, Bytes], window: int, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, data = capture
    monkeypatch.setattr(payload_windows, "WINDOW", window)
    monkeypatch.setattr(payload_windows, "WINDOW_OF_PIECE", 1)
    chance = np.random.default_rng(window + longest)
    counts = np.array([0, 200, 1, 0, 99, 300, 0])
    offsets = np.concatenate([np.sort(chance.integers(0, len(data) - longest, count)) for count in counts])
    lengths = chance.integers(0, longest + 1, len(offsets))
    out = np.empty(lengths.sum(), np.uint8)
    with opened(path) as descriptor:
        taken, positions = take_from_windows(descriptor, segments_of(offsets, lengths), counts, out)
    assert taken == len(out)
    filled = lengths > 0
    order = np.argsort(positions[filled])
    assert (np.diff(positions[filled][order]) == lengths[filled][order][:-1]).all()
    for offset, length, position in zip(offsets, lengths, positions, strict=True):
        assert (out[position : position + length] == data[offset : offset + length]).all()


def test_nothing_is_read_without_payload(capture: tuple[Path, Bytes]) -> None:
    segments = segments_of(np.arange(5), np.zeros(5, np.int64))
    with opened(capture[0]) as descriptor:
        taken, positions = take_from_windows(descriptor, segments, np.array([5]), np.empty(0, np.uint8))
    assert (taken, positions.tolist()) == (0, [0] * 5)


@pytest.mark.parametrize("lengths", [[10, 10], [10, 200_000]])
def test_a_file_that_ends_before_a_segment_is_told(capture: tuple[Path, Bytes], lengths: list[int]) -> None:
    path, data = capture
    segments = segments_of(np.array([20, len(data) - 5]), np.array(lengths))
    with opened(path) as descriptor:
        taken, _ = take_from_windows(descriptor, segments, np.array([2]), np.empty(sum(lengths), np.uint8))
    assert taken == SHORTER


def test_segments_that_do_not_ascend_are_told(capture: tuple[Path, Bytes]) -> None:
    segments = segments_of(np.array([500, 20]), np.array([10, 10]))
    with opened(capture[0]) as descriptor:
        taken, _ = take_from_windows(descriptor, segments, np.array([2]), np.empty(20, np.uint8))
    assert taken == UNORDERED
