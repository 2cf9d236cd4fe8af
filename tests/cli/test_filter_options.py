"""The times, APIs and errors that filters take."""

import argparse

import pytest

from kdissect.cli.filter_options import (
    api_argument,
    duration_argument,
    error_argument,
    time_argument,
)
from kdissect.tables.time_expressions import Origin, TimeExpression


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("+30s", TimeExpression("+30s", Origin.START, 30 * 10**9)),
        ("5m", TimeExpression("5m", Origin.START, 300 * 10**9)),
        ("+1.5ms", TimeExpression("+1.5ms", Origin.START, 1_500_000)),
        (
            "2026-11-21T04:00:00Z",
            TimeExpression("2026-11-21T04:00:00Z", Origin.EPOCH, 1_795_233_600_000_000_000),
        ),
        (
            "2026-11-21T05:00:00+01:00",
            TimeExpression("2026-11-21T05:00:00+01:00", Origin.EPOCH, 1_795_233_600_000_000_000),
        ),
        (
            "2026-11-21T04:00:00.25Z",
            TimeExpression("2026-11-21T04:00:00.25Z", Origin.EPOCH, 1_795_233_600_250_000_000),
        ),
    ],
)
def test_times(text: str, expected: TimeExpression) -> None:
    assert time_argument(text) == expected
    assert expected.absolute(7) == expected.time_ns + (7 if expected.origin is Origin.START else 0)
    assert duration_argument("2h") == 7200 * 10**9


DAY = 1_795_219_200_000_000_000
"""Midnight of 2026-11-21, UTC."""


@pytest.mark.parametrize(
    ("text", "after_midnight_ns"),
    [
        ("04:00", 4 * 3600 * 10**9),
        ("4:00", 4 * 3600 * 10**9),
        ("21:23:05.632", (21 * 3600 + 23 * 60 + 5) * 10**9 + 632_000_000),
        ("05:00+01:00", 4 * 3600 * 10**9),
    ],
)
def test_a_time_of_day_is_of_the_day_of_the_capture(text: str, after_midnight_ns: int) -> None:
    assert time_argument(text).absolute(DAY + 12 * 3600 * 10**9) == DAY + after_midnight_ns


def test_a_time_after_midnight_is_the_next_day_for_a_capture_that_starts_before() -> None:
    ten_minutes = 600 * 10**9
    assert time_argument("00:10").absolute(DAY - ten_minutes) == DAY + ten_minutes
    assert time_argument("23:50").absolute(DAY + ten_minutes) == DAY - ten_minutes


def test_a_time_without_zone_is_utc() -> None:
    assert time_argument("2026-11-21T04:00:00").time_ns == time_argument("2026-11-21T04:00:00Z").time_ns


@pytest.mark.parametrize("text", ["25:00", "tomorrow", "2026-13-01T00:00:00", "7", "5 parsecs"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"is not a (time|duration); examples"):
        time_argument(text)


def test_near_names_are_suggested() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="did you mean 'NOT_LEADER_OR_FOLLOWER'"):
        error_argument("NOT_LEADER")
    with pytest.raises(argparse.ArgumentTypeError, match="did you mean 'ListOffsets'"):
        api_argument("list-ofsets")
