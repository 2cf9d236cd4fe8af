"""The times, APIs and errors that filters take."""

import pytest

from kdissect.cli.filter_options import (
    TimeArgument,
    duration_argument,
    time_argument,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("+30s", TimeArgument("+30s", True, 30 * 10**9)),
        ("5m", TimeArgument("5m", True, 300 * 10**9)),
        ("+1.5ms", TimeArgument("+1.5ms", True, 1_500_000)),
        ("2026-11-21T04:00:00Z", TimeArgument("2026-11-21T04:00:00Z", False, 1_795_233_600_000_000_000)),
        (
            "2026-11-21T05:00:00+01:00",
            TimeArgument("2026-11-21T05:00:00+01:00", False, 1_795_233_600_000_000_000),
        ),
        (
            "2026-11-21T04:00:00.25Z",
            TimeArgument("2026-11-21T04:00:00.25Z", False, 1_795_233_600_250_000_000),
        ),
    ],
)
def test_times(text: str, expected: TimeArgument) -> None:
    assert time_argument(text) == expected
    assert expected.absolute(7) == expected.time_ns + (7 if expected.from_start else 0)
    assert duration_argument("2h") == 7200 * 10**9
