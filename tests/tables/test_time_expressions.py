"""Times and durations as people write them."""

import pytest

from kdissect.tables.time_expressions import Origin, parse_duration, parse_time

DAY = 86_400 * 10**9


@pytest.mark.parametrize(("text", "ns"), [("50ms", 50_000_000), ("1.5s", 1_500_000_000), ("2m", 120 * 10**9)])
def test_durations(text: str, ns: int) -> None:
    assert parse_duration(text) == ns


@pytest.mark.parametrize("text", ["99999999999h", "9" * 400 + "s"])
def test_durations_are_bounded(text: str) -> None:
    with pytest.raises(ValueError, match="is longer than 100 years"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "origin", "ns"),
    [
        ("+30s", Origin.START, 30 * 10**9),
        ("9:05", Origin.MIDNIGHT, (9 * 3600 + 5 * 60) * 10**9),
        ("1970-01-01T00:00:01Z", Origin.EPOCH, 10**9),
        ("1970-01-01T00:00:01.000000999Z", Origin.EPOCH, 10**9 + 999),  # as dump prints it
        ("00:00:01.000000999", Origin.MIDNIGHT, 10**9 + 999),
        ("1970-01-01 00:00:01.500 UTC", Origin.EPOCH, 1_500_000_000),  # as the header of a report has it
        ("00:00:01.500 UTC", Origin.MIDNIGHT, 1_500_000_000),
        ("1795470667161539001", Origin.EPOCH, 1_795_470_667_161_539_001),  # as JSON and tables have it
    ],
)
def test_times(text: str, origin: Origin, ns: int) -> None:
    assert parse_time(text)[1:] == (origin, ns)


def test_a_time_of_day_is_the_one_nearest_to_the_start() -> None:
    start = 5 * DAY - 60 * 10**9  # 23:59
    assert parse_time("0:01").absolute(start) == 5 * DAY + 60 * 10**9


@pytest.mark.parametrize(
    "text", ["", "yesterday", "25:00", "5 parsecs", "UTC", " UTC", "1795470667", "3:00+02:00 UTC"]
)
def test_what_is_no_time_is_one_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        parse_time(text)
