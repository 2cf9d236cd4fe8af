"""The profile as a table: its rows by service time, its columns by what it ranks."""

import pytest

from kdissect.report.build.build_report import build_report
from kdissect.report.model.summary import CaptureFacts, ProfileBy
from kdissect.report.partials import EMPTY
from kdissect.report.render.profile_table import NAMELESS, NOTES, TITLES, profile
from kdissect.report.render.terminal import Terminal
from tests.helpers.report_rows import FETCH, PRODUCE, exchange_of, many, report, unanswered

WIDE = Terminal(200)


def test_every_ranking_has_its_columns():
    assert TITLES.keys() == set(ProfileBy)
    assert NOTES.keys() | NAMELESS.keys() <= set(ProfileBy)


def test_a_report_without_exchanges_has_no_profile():
    assert profile(build_report(EMPTY, CaptureFacts()), WIDE) == []


@pytest.mark.parametrize("by", ProfileBy)
def test_the_columns_are_named_by_what_is_ranked(partial, by):
    heading, columns, *rows = profile(build_report(partial, CaptureFacts(), by=by), WIDE)
    assert "by total service time, 6.50ms in all" in heading
    assert NOTES.get(by, "") in heading
    assert columns.split()[0] == TITLES[by][0]
    assert rows or by is ProfileBy.GROUP


def test_rows_have_calls_share_and_errors(summary):
    lines = profile(summary, WIDE)
    words = lines[2].split()
    assert words[:5] == ["Produce", "9", "4", "61.5%", "2.00ms"]
    assert [line.split()[0] for line in lines[2:]] == ["Produce", "Metadata", "Fetch?", "(no"]


def test_without_a_response_there_is_no_service_time():
    heading, *_ = profile(report(unanswered(PRODUCE, 0)), WIDE)
    assert "no exchanges with a response" in heading


def test_rows_beyond_the_limit_are_counted():
    calls = [exchange_of(1, at, (at, f"Api{at}", 0), at) for at in range(14)]
    assert "4 more" in profile(report(calls), WIDE)[-1]


def test_a_row_counts_idle_waits_beside_its_service_time():
    calls = [*many(2, FETCH, 1), exchange_of(1, 9, FETCH, 9, idle_wait=True)]
    _, columns, row = profile(report(calls), WIDE)
    assert "idle" in columns
    assert row.split()[2] == "3"
