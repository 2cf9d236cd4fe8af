"""Positions by partition: who is held up, and how far behind a client is between two fetches."""

from kdissect.report.signals.log_positions import Lag


def test_the_least_lag_since_a_time_begins_with_what_is_known_next() -> None:
    lag = Lag([0, 10, 20, 30], [5, 1, 9, 7], 5, 20)
    assert [lag.least_since(time) for time in (0, 10, 15, 20, 30)] == [1, 1, 7, 7, 7]
