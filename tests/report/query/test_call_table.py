"""Calls grouped by columns of calls and connections, on the capture worked out on paper."""

import pytest

from kdissect.report.partials import summarise
from kdissect.report.query.call_table import CallTable
from kdissect.report.query.connection_facts import read_connection_facts
from tests.helpers import paper_capture


@pytest.fixture(scope="module")
def calls():
    partial = summarise(paper_capture.tables())
    return CallTable(partial, read_connection_facts(partial))


def test_groups_by_a_column_of_connections_are_complete(calls):
    ranked = calls.group_by((), ("client_host",))
    assert sorted(ranked.keys[0]) == ["10.1.0.1", "10.1.0.2"]
    assert sum(ranked.figures.of(group).exchanges for group in ranked.order) == calls.totals().exchanges == 9
    assert ranked.connections.tolist() == [1, 1]


def test_the_order_is_by_service_time(calls):
    ranked = calls.group_by(("api_name",))
    totals = [ranked.figures.service.total[group] for group in ranked.order]
    assert totals == sorted(totals, reverse=True)
    assert ranked.keys[0][ranked.order[0]] == "Produce"
    assert sum(totals) == calls.service_ns


def test_connections_of_a_group_are_counted_once(calls):
    ranked = calls.group_by()
    assert ranked.connections.tolist() == [2]
