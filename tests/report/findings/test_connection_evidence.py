"""Connections as evidence: which are chosen, how they are grouped, and where they are."""

import numpy as np
import pytest

from kdissect.report.findings.connection_evidence import (
    chosen_evidence,
    client_label,
    connection_evidence,
    group_connections,
    host_labels,
    select_connections,
    server_label,
)
from kdissect.report.partials import summarise
from tests.helpers.paper_capture import T
from tests.helpers.report_rows import connection, context_of, report, tables


@pytest.fixture
def context():
    rows = [connection(1, first_time_ns=T + 9), connection(2, first_time_ns=T, lost_bytes=5), connection(3)]
    partial = summarise(tables([], [], rows))
    return context_of(partial, report([], [], rows))


def test_connections_are_chosen_by_mask_or_number_and_ordered_by_time(context):
    lossy = context.facts.columns.ints("lost_bytes") > 0
    assert [row["connection"] for row in select_connections(context, lossy)] == [2]
    assert [row["connection"] for row in select_connections(context, np.array([0, 1]))] == [2, 1]
    (row,) = select_connections(context, lossy, "lost_bytes")
    assert row["lost_bytes"] == 5


def test_groups_with_the_most_connections_come_first():
    rows = [connection(at, client_host=host) for at, host in enumerate(("b", "a", "c", "c"))]
    groups = group_connections(rows, lambda row: row["client_host"])
    assert [(subject, len(group)) for subject, group in groups] == [("c", 2), ("a", 1), ("b", 1)]


def test_labels_name_both_ends():
    row = connection(1, server_host="::1")
    assert (client_label(row), server_label(row)) == ("client-1 at 10.1.0.1", "[::1]:9092")
    assert server_label(row | {"server_host": None}) == "?:9092"
    hosts = host_labels(connection(at, client_host=f"h{at % 5}") for at in range(9))
    assert hosts == "h0, h1, h2 and 2 more"


def test_evidence_has_the_span_of_all_and_the_place_of_the_first():
    rows = [connection(1, first_time_ns=T, last_time_ns=None), connection(2, first_time_ns=T - 5)]
    evidence = connection_evidence("who", "what", rows)
    assert (evidence.count, evidence.first_time_ns, evidence.last_time_ns) == (
        2,
        T - 5,
        rows[1]["last_time_ns"],
    )
    assert evidence.place is not None
    assert (evidence.place.connection, evidence.place.client_port, evidence.place.request_packet) == (
        1,
        40001,
        None,
    )
    assert connection_evidence("who", "what", rows, count=70).count == 70


@pytest.mark.parametrize("chosen", [[0, 1], [0], [2], [1, 2], [True, False, True]])
def test_evidence_of_what_was_chosen_is_that_of_its_rows(context, chosen):
    numbers = np.array(chosen)
    plain = connection_evidence("who", "what", select_connections(context, numbers))
    assert chosen_evidence(context, "who", "what", numbers) == plain
    assert chosen_evidence(context, "who", "what", numbers, count=70).count == 70
    assert plain.place is not None


def test_times_that_are_missing_are_not_in_the_span():
    rows = [connection(1, last_time_ns=None), connection(2, last_time_ns=None)]
    partial = summarise(tables([], [], rows))
    untimed = context_of(partial, report([], [], rows))
    assert chosen_evidence(untimed, "who", "what", np.array([0, 1])).last_time_ns is None
