"""Runs of dense moments, which storms and tiny batches are found by."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kdissect.report.signals.dense_spans import WINDOW_NS, dense_span

SECOND = 10**9
Pairs = list[tuple[int, int]]


def span_of(pairs: Pairs, rate: int) -> tuple[int, int, int] | None:
    """Return the dense span of pairs of time and count."""
    times, counts = np.array(pairs, np.int64).reshape(-1, 2).T
    return dense_span(times, counts, rate)


def plain_span(pairs: Pairs, rate: int) -> tuple[int, int, int] | None:
    """Return the same, one window after the other."""
    best, run = None, None
    for at, (begin, _) in enumerate(pairs):
        inside = [pair for pair in pairs[at:] if pair[0] < begin + WINDOW_NS]
        stop = at + len(inside)
        enough = sum(count for _, count in inside) * SECOND >= rate * WINDOW_NS
        if enough and len(inside) >= WINDOW_NS // SECOND and inside[-1][0] - begin >= WINDOW_NS // 2:
            run = (run[0] if run and at <= run[1] else at, stop)
            count = sum(count for _, count in pairs[run[0] : stop])
            if best is None or count > best[2]:
                best = pairs[run[0]][0], inside[-1][0], count
    return best


def every(step_ns: int, count: int, begin: int = 0) -> list[tuple[int, int]]:
    return [(begin + number * step_ns, 1) for number in range(count)]


def test_a_run_is_dated_to_its_first_and_last_moment():
    quiet = [(number * SECOND, 1) for number in range(20)]
    storm = every(SECOND // 20, 200, begin=20 * SECOND)
    found = span_of(quiet + storm, 10)
    assert found is not None
    begin, end, count = found
    assert 20 * SECOND - WINDOW_NS <= begin <= 20 * SECOND
    assert end == storm[-1][0]
    assert count >= 200


def test_a_burst_that_is_over_in_a_moment_is_no_run():
    assert span_of(every(SECOND // 1000, 500), 10) is None
    assert span_of([(0, 1000)], 10) is None
    assert span_of([], 10) is None


def test_a_pace_below_the_rate_is_no_run():
    assert span_of(every(SECOND // 5, 500), 10) is None


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40)), max_size=60), st.integers(1, 6))
def test_the_span_is_that_of_one_window_after_the_other(pairs: Pairs, rate: int) -> None:
    ordered = sorted((time * SECOND // 2, count) for time, count in pairs)
    assert span_of(ordered, rate) == plain_span(ordered, rate)
