"""Questions of rules about an observation and their context."""

from dataclasses import replace

import pytest

from kdissect.protocol.error_codes import ErrorCode
from kdissect.report.findings.observations import Observation
from kdissect.report.partials import summarise
from tests.helpers.report_rows import HEARTBEAT, PRODUCE, context_of, failing, report, tables, unanswered


@pytest.fixture(scope="module")
def context():
    rows = [*failing(1, HEARTBEAT, 25, [0, 10]), *failing(2, PRODUCE, 6, [5]), *unanswered(PRODUCE, 90)]
    return context_of(summarise(tables(rows)), report(rows))


def test_observations_are_chosen_by_kind(context):
    assert [one.api for one in context.of_kind("unanswered")] == ["Produce"]
    times = [one.first_ns for one in context.of_kind("error")]
    assert len(times) == 2
    assert times == sorted(times)
    assert context.of_kind("throttled") == []


def test_errors_are_chosen_by_code(context):
    (expired,) = context.errors({ErrorCode.UNKNOWN_MEMBER_ID})
    assert (expired.exchanges, expired.error, expired.client) == (
        2,
        "UNKNOWN_MEMBER_ID",
        "client-1 at 10.1.0.1",
    )
    assert len(context.errors([6, 25])) == 2
    assert context.errors(()) == []


def test_names_of_an_observation(context):
    (moved,) = context.errors([6])
    assert (moved.api, moved.error, moved.partition) == ("Produce", "NOT_LEADER_OR_FOLLOWER", None)
    located = moved._replace(location=replace(moved.location, topic="orders", partition=7))
    assert located.partition == "orders-7"
    assert isinstance(located, Observation)
    assert moved._replace(api_key=None).api == "?"
