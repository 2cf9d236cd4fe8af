"""Filters of programs mean what those of the commands mean."""

from datetime import UTC, datetime, timedelta

import pytest

from kdissect.errors import UsageError
from kdissect.library.filter_arguments import Moment, check_moments, name_fields, time_fields
from kdissect.tables.filters import Filter


def test_one_name_or_several() -> None:
    fields = name_fields(api="Fetch", topic=["a", "b*"], error="any", broker=3)
    assert Filter(**fields) == Filter(
        apis=frozenset({1}), topics=("a", "b*"), errors=frozenset({None}), brokers=("3",)
    )


@pytest.mark.parametrize(
    "moment", ["+2s", timedelta(seconds=2), datetime(1970, 1, 1, 0, 0, 12, tzinfo=UTC), 12 * 10**9, "0:00:12"]
)
def test_times_may_be_written_in_many_ways(moment: Moment) -> None:
    assert time_fields(moment, None, 10 * 10**9) == {"since_ns": 12 * 10**9, "until_ns": None}


@pytest.mark.parametrize("moment", ["noon", datetime(2026, 1, 1)])  # noqa: DTZ001 - what is refused
def test_what_is_no_time_is_refused(moment: Moment) -> None:
    with pytest.raises(UsageError):
        check_moments(moment)


@pytest.mark.parametrize(
    ("names", "meant"), [({"api": "Fetsch"}, "Fetch"), ({"error": "NOT_LEADER"}, "NOT_LEADER_OR_FOLLOWER")]
)
def test_unknown_names_are_refused_with_the_nearest_one(names: dict[str, str], meant: str) -> None:
    with pytest.raises(UsageError, match=f"is not an .*; did you mean '{meant}'"):
        name_fields(**names)
