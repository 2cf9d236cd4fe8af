"""The definitions of the timeline's tables: each has a limit, and a way to keep to it."""

import pytest

from kdissect.report.timeline.timeline_tables import (
    ACTIVITY,
    FIRST,
    TIMELINE_TABLES,
    TOPIC_ACTIVITY,
)


@pytest.mark.parametrize("part", TIMELINE_TABLES.values(), ids=TIMELINE_TABLES)
def test_every_table_is_limited_and_gives_up_keys_that_it_has(part):
    keys = {name for name, _ in part.keys}
    assert part.most
    assert bool(part.spare) != bool(part.earliest)
    assert {name for names in part.spare for name in names} <= keys
    assert not part.earliest or part.earliest in keys


@pytest.mark.parametrize("part", TIMELINE_TABLES.values(), ids=TIMELINE_TABLES)
def test_columns_are_unique_and_the_first_row_is_decided_by_columns_of_the_table(part):
    names = part.schema.names
    assert len(names) == len(set(names))
    assert set(part.order) <= set(names)
    assert bool(part.order) == bool(part.first)


def test_a_step_of_time_is_never_given_up():
    spare = {name for part in TIMELINE_TABLES.values() for names in part.spare for name in names}
    assert "step" not in spare


def test_topics_have_the_figures_of_all_traffic():
    assert set(ACTIVITY.sums) - set(TOPIC_ACTIVITY.sums) == {"error_responses"}
    assert ACTIVITY.first == TOPIC_ACTIVITY.first == FIRST
