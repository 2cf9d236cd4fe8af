"""Brokers compared with each other, and what is wrong with the capture itself."""

import re
from typing import Any

import pytest

from kdissect.report.build.build_report import build_report
from kdissect.report.model.summary import CaptureFacts
from kdissect.report.partials import summarise
from kdissect.tables.schemas import CONNECTIONS, EXCHANGES
from tests.helpers import paper_capture
from tests.helpers.finding_cases import (
    FindingCase,
    check_case,
    check_recorded_case,
    findings_of,
    manifest_entry,
)
from tests.helpers.paper_capture import MS
from tests.helpers.report_rows import (
    PRODUCE,
    connection,
    exchange_of,
    many,
)


def two_brokers(slow_ns: int) -> tuple[Any, ...]:
    rows = many(150, PRODUCE, 10, MS) + many(150, PRODUCE, 10, slow_ns, number=2)
    return rows, [], [connection(1), connection(2, server_host="10.0.0.2")]


CASES: dict[str, FindingCase] = {
    "slow_broker": FindingCase(
        fires=two_brokers(9 * MS),
        quiet=two_brokers(2 * MS),
        incident="limping.pcapng",
    ),
    "clock_steps": FindingCase(
        fires=(many(2, PRODUCE, 1, -5),),
        quiet=(many(2, PRODUCE, 1, 5),),
        incident="clock-step.pcapng",
    ),
    "capture_loss": FindingCase(
        fires=([], [], [connection(1, lost_bytes=500)]),
        quiet=([], [], [connection(1, lost_bytes=5)]),
        incident="starved.pcapng",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_rule_fires_and_is_quiet(name: str) -> None:
    check_case(name, CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_a_finding_has_a_recorded_incident_and_a_quiet_capture(name: str) -> None:
    check_recorded_case(name, CASES[name])


def test_a_capture_that_says_what_it_dropped():
    for dropped, expected in ((10, 1), (0, 0)):
        facts = CaptureFacts(packets=100, dropped_packets=dropped)
        found = build_report(
            summarise({"connections": paper_capture.table([connection(1)], CONNECTIONS)}), facts
        ).findings
        assert [one.name for one in found] == ["capture_loss"] * expected


def loss_told(*connections):
    """Return the sentence about what the capture of these connections lacks."""
    tables = {"connections": paper_capture.table(list(connections), CONNECTIONS)}
    (found,) = build_report(summarise(tables), CaptureFacts(packets=100)).findings
    return found.title


def test_a_capture_of_cut_packets_says_that_errors_are_behind_the_cut():
    title = loss_told(connection(1, lost_bytes=500, cut_bytes=500))
    assert title.endswith("missing since packets are cut: names and errors behind the cut cannot be told")


def test_a_capture_of_one_direction_says_whose():
    one_way = {"server_rtt_ns": None, "client_acks": 0, "server_acks": 0, "closed_by": None}
    title = loss_told(connection(1, bytes_to_server=500, bytes_to_client=0, **one_way))
    assert "with only what clients sent on 1 connection: latencies, and" in title
    title = loss_told(connection(1, bytes_to_server=0, bytes_to_client=500, **one_way))
    assert "with only what servers sent on 1 connection: latencies, and" in title


def test_what_a_starved_capture_lacks_is_told():
    assert manifest_entry("starved.pcapng")["dropped_packets"] > 0
    finding = findings_of("starved.pcapng")["capture_loss"]
    assert {row.subject.split(" ")[0] for row in finding.evidence} == {"reader", "writer"}


def test_where_the_clock_went_back():
    (row,) = findings_of("clock-step.pcapng")["clock_steps"].evidence
    first = int(re.search(r"from packet (\d+) on", manifest_entry("clock-step.pcapng")["edited"])[1])
    assert row.place.request_packet == first
    assert (
        "by up to 2.50s" in row.detail or "by up to 2.49s" in row.detail
    )  # less the time between the two packets


def test_processors_that_time_packets_are_no_clock_that_was_set():
    """Packets of several processors are out of step by µs, or by ms if one is kept from its work."""
    rows = [exchange_of(1, 0, PRODUCE, 0)]
    tables = {
        "exchanges": paper_capture.table(rows, EXCHANGES),
        "connections": paper_capture.table([connection(1)], CONNECTIONS),
    }
    for step_ns, is_told in ((23_000, False), (2_700_000, False), (10_000_000, True)):
        facts = CaptureFacts(clock_steps=3, largest_clock_step_ns=step_ns)
        summary = build_report(summarise(tables), facts)
        assert ("clock_steps" in {finding.name for finding in summary.findings}) is is_told
        assert ("clock_steps" in {counter.name for counter in summary.doubts}) is is_told
