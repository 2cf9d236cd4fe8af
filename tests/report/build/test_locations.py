"""Errors, faults and first occurrences, each with its place in the capture worked out on paper."""

from kdissect.report.build.locations import error_rows, fault_rows, first_locations, first_seen_rows
from kdissect.report.partials import summarise
from kdissect.report.query.connection_facts import read_connection_facts
from kdissect.report.query.topic_names import TopicNames
from tests.helpers.paper_capture import MS, T
from tests.helpers.report_rows import PRODUCE, exchange_of, failing, report, tables


def test_the_error_is_counted_once_and_knows_its_partition(summary):
    (error,) = summary.errors
    assert (error.error_code, error.error_name, error.exchanges, error.partitions) == (
        6,
        "NOT_LEADER_OR_FOLLOWER",
        1,
        1,
    )
    first = error.first
    assert (first.time_ns, first.request_packet, first.response_packet) == (T + 103 * MS, 12, 13)
    assert (first.topic, first.partition, first.client_id, first.client_host) == (
        "orders",
        0,
        "orders-app",
        "10.1.0.1",
    )


def test_the_fault_has_a_shape_and_an_example(summary):
    (fault,) = summary.faults
    assert fault.shape == "response.responses[#].partitions: length # of # left (offset #)"
    assert fault.first.detail == "response.responses[3].partitions: length 70000 of 12 left (offset 41)"
    assert (fault.api_name, fault.api_version, fault.exchanges, fault.first.topic) == ("Fetch", 13, 1, None)


def test_errors_are_ranked_by_exchanges_then_partitions():
    calls = [*failing(1, PRODUCE, 58, [0]), *failing(2, PRODUCE, 29, [5, 6])]
    assert [row.error_code for row in report(calls).errors] == [29, 58]


def test_only_the_most_frequent_faults_are_kept_and_the_others_counted():
    calls = [exchange_of(1, at, PRODUCE, at, fault="abc"[at % 3] * (at % 3 + 1)) for at in range(7)]
    partial = summarise(tables(calls))
    facts, names = read_connection_facts(partial), TopicNames(partial)
    kept = first_seen_rows(partial, facts, names, most_faults=1)
    assert kept.omitted == 2
    (fault,) = fault_rows(kept.rows)
    assert (fault.shape, fault.exchanges) == ("a", 3)
    assert error_rows(kept.rows) == ()


def test_first_locations_are_found_by_kind_and_api_version(partial):
    rows = first_seen_rows(partial, read_connection_facts(partial), TopicNames(partial), 10).rows
    locations = first_locations(rows)
    assert locations["unanswered", 0, 9].request_packet == 18
    assert locations["orphan", None, None].response_packet == 29
    assert {kind for kind, _, _ in locations} == {"unanswered", "orphan", "throttled", "slowest"}
