"""Runs of dense moments, which storms and tiny batches are found by."""

from kdissect.report.signals.load_signals import WINDOW_NS, dense_span

SECOND = 10**9


def every(step_ns: int, count: int, begin: int = 0) -> list[tuple[int, int]]:
    return [(begin + number * step_ns, 1) for number in range(count)]


def test_a_run_is_dated_to_its_first_and_last_moment():
    quiet = [(number * SECOND, 1) for number in range(20)]
    storm = every(SECOND // 20, 200, begin=20 * SECOND)
    found = dense_span(quiet + storm, 10)
    assert found is not None
    begin, end, count = found
    assert 20 * SECOND - WINDOW_NS <= begin <= 20 * SECOND
    assert end == storm[-1][0]
    assert count >= 200


def test_a_burst_that_is_over_in_a_moment_is_no_run():
    assert dense_span(every(SECOND // 1000, 500), 10) is None
    assert dense_span([(0, 1000)], 10) is None
    assert dense_span([], 10) is None


def test_a_pace_below_the_rate_is_no_run():
    assert dense_span(every(SECOND // 5, 500), 10) is None
