"""Connections of the page: troubled and busy ones first, and round trips by client and broker."""

import pytest

from kdissect.report.build.build_report import build_report
from kdissect.report.build.page import connection_panel as module
from kdissect.report.build.page.connection_panel import describe_connections, round_trips
from kdissect.report.build.page.page_names import NOT_SINGLED_OUT, PageNames
from kdissect.report.model.summary import CaptureFacts
from kdissect.report.partials import summarise
from kdissect.report.query.connection_facts import read_connection_facts
from tests.helpers.paper_capture import T
from tests.helpers.report_rows import PRODUCE, connection, exchange_of, tables


def names_of(*connections):
    partial = summarise(
        tables([exchange_of(row["connection"], 0, PRODUCE, 0) for row in connections], [], connections)
    )
    return PageNames(build_report(partial, CaptureFacts()), partial, read_connection_facts(partial), T)


def test_kafka_comes_first_then_trouble_then_traffic():
    names = names_of(
        connection(1, protocol="unknown", lost_bytes=9),
        connection(2),
        connection(3, bytes_to_server=9000),
        connection(4, closed="rst"),
        connection(5, closed="rst", zero_windows=1),
    )
    found = describe_connections(names)
    assert [row["client_port"] - 40000 for row in found["rows"]] == [5, 4, 3, 2, 1]
    assert [row["number"] for row in found["rows"]] == [4, 3, 2, 1, 0]
    assert found["omitted"] == 0


def test_connections_beyond_the_limit_are_counted(monkeypatch):
    monkeypatch.setattr(module, "MOST_CONNECTIONS", 2)
    found = describe_connections(names_of(*(connection(at) for at in range(5))))
    assert (len(found["rows"]), found["omitted"]) == (2, 3)


def test_a_row_has_numbers_for_names_and_times_from_the_first_step():
    (row,) = describe_connections(names_of(connection(1, first_time_ns=T + 5, last_time_ns=T + 9)))["rows"]
    assert (row["client"], row["broker"], row["label"]) == (0, 0, "client-1")
    assert (row["from"], row["to"], row["server_rtt_ns"]) == (5, 9, 200_000)


@pytest.mark.parametrize(
    ("more", "security"),
    [
        ({}, None),
        ({"tls_version": "TLS 1.3", "tls_alert": None}, {"tls_version": "TLS 1.3"}),
        (
            {"sasl_mechanism": "PLAIN", "sasl_outcome": "failed"},
            {"sasl_mechanism": "PLAIN", "sasl_outcome": "failed"},
        ),
    ],
)
def test_security_is_shown_where_there_is_any(more, security):
    (row,) = describe_connections(names_of(connection(1, **more)))["rows"]
    assert row["security"] == security


def test_round_trips_have_a_median_and_a_maximum_for_each_pair():
    ends = {"client_host": "10.1.0.1", "client_id": "client-1"}
    names = names_of(
        *(connection(at, server_rtt_ns=rtt, **ends) for at, rtt in ((1, 100), (2, 300), (3, 900), (4, -7))),
        connection(5, server_rtt_ns=None, client_rtt_ns=None),
    )
    assert round_trips(names) == [[0, 0, 4, 300, 900, None, None]]


def test_a_broker_without_calls_is_not_singled_out():
    ends = {"server_host": "10.0.0.9", "server_rtt_ns": 5, "client_rtt_ns": 6}
    partial = summarise(tables([], [], [connection(1, **ends)]))
    names = PageNames(build_report(partial, CaptureFacts()), partial, read_connection_facts(partial), T)
    assert round_trips(names) == [[NOT_SINGLED_OUT, NOT_SINGLED_OUT, 1, 5, 5, 6, 6]]
