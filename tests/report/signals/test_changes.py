"""Changes of level in a series: found where they are, and not where there is only noise."""

import numpy as np
import pytest

from kdissect.report.signals.changes import MAX_SEGMENTS, Series, find_segments

STEPS = 600


def series(rng, levels, deviation=1.0, rate=2.0):
    """Return a series whose level is that of `levels`, a list of (first step, level)."""
    level = np.zeros(STEPS)
    for start, value in levels:
        level[start:] = value
    count = rng.poisson(rate, STEPS)
    values = [rng.normal(level[step], deviation, count[step]) for step in range(STEPS)]
    return Series(
        count.astype(np.int64),
        np.array([own.sum() for own in values]),
        np.array([(own**2).sum() for own in values]),
    )


@pytest.mark.parametrize("seed", range(20))
def test_noise_has_one_level(seed):
    assert len(find_segments(series(np.random.default_rng(seed), []))) == 1


@pytest.mark.parametrize("seed", range(10))
def test_a_rise_and_its_end_are_found_within_two_percent(seed):
    segments = find_segments(series(np.random.default_rng(seed), [(200, 3.0), (400, 0.0)]))
    assert [segment.start for segment in segments[1:]] == pytest.approx([200, 400], abs=12)
    assert segments[1].mean == pytest.approx(3.0, abs=0.3)


def test_a_few_values_are_no_level():
    rng = np.random.default_rng(1)
    whole = series(rng, [])
    whole.total[300] += 100.0
    whole.squares[300] += 5_000.0
    assert len(find_segments(whole)) == 1


def test_segments_are_bounded_and_cover_the_series():
    rng = np.random.default_rng(2)
    segments = find_segments(series(rng, [(step, step / 10) for step in range(0, STEPS, 30)], 0.1))
    assert 1 < len(segments) <= MAX_SEGMENTS
    assert [segment.stop for segment in segments[:-1]] == [segment.start for segment in segments[1:]]
    assert (segments[0].start, segments[-1].stop) == (0, STEPS)


def test_an_empty_series_has_one_segment():
    empty = np.zeros(STEPS)
    assert len(find_segments(Series(empty.astype(np.int64), empty, empty))) == 1


def test_a_level_that_comes_back_is_found_if_asked_for() -> None:
    values = np.array([30.0] * 16 + [3.0] * 16 + [30.0] * 26) + np.arange(58) % 3
    series = Series(np.ones(58, np.int64), values, values**2)
    assert len(find_segments(series, 8)) == 1
    assert [(one.start, one.stop) for one in find_segments(series, 8, comes_back=True)] == [
        (0, 16),
        (16, 32),
        (32, 58),
    ]


def test_noise_has_no_level_that_comes_back() -> None:
    values = np.random.default_rng(7).normal(30, 3, 80)
    series = Series(np.ones(80, np.int64), values, values**2)
    assert len(find_segments(series, 8, comes_back=True)) == 1
