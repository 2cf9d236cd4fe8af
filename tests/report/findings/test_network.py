"""Slow and lossy networks, requests behind long polls, and consumers that fall behind."""

from typing import Any

import pytest

from tests.helpers import paper_capture
from tests.helpers.finding_cases import FindingCase, check_case, check_recorded_case
from tests.helpers.paper_capture import MS
from tests.helpers.report_rows import (
    FETCH,
    METADATA,
    PRODUCE,
    connection,
    exchange_of,
    many,
    report,
)


def fetched(lags: list[int], step_ms: int) -> tuple[Any, ...]:
    """Fetches of one partition, so many records behind."""
    rows = [
        paper_capture.partition(1, at, 1, 0, None, topic="orders", offset=10_000, high_watermark=10_000 + lag)
        for at, lag in enumerate(lags)
    ]
    return many(len(lags), FETCH, step_ms), rows


def shared(polls: bool) -> list[dict[str, Any]]:
    """Requests sent while another is under way, on a connection that polls or does not."""
    rows = many(20, METADATA, 600, 400 * MS, in_flight=2)
    return rows + ([exchange_of(1, 90, FETCH, 5, 500 * MS, idle_wait=True)] if polls else [])


FAR = {"server_rtt_ns": 20 * MS, "client_rtt_ns": 20 * MS}


CASES: dict[str, FindingCase] = {
    "network_slow": FindingCase(
        fires=(many(30, PRODUCE, 100, 45 * MS), [], [connection(1, **FAR)]),
        quiet=(many(30, PRODUCE, 100, 450 * MS), [], [connection(1, **FAR)]),
        incident="rough-link.pcapng",
    ),
    "behind_long_poll": FindingCase(
        fires=(shared(polls=True),),
        quiet=(shared(polls=False),),
        incident="expired.pcapng",
    ),
    "lag_growing": FindingCase(
        fires=fetched([0, 300, 700, 1200], 2000),
        quiet=fetched([0, 1200, 900, 100], 2000),
        incident="neglect.pcapng",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_rule_fires_and_is_quiet(name: str) -> None:
    check_case(name, CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_a_finding_has_a_recorded_incident_and_a_quiet_capture(name: str) -> None:
    check_recorded_case(name, CASES[name])


def test_the_network_that_loses_segments():
    lossy = connection(1, packets=5000, retransmitted_segments=100)
    (finding,) = report(many(3, PRODUCE, 1), [], [lossy]).findings
    assert finding.name == "network_slow"
    assert finding.evidence[0].subject == "10.1.0.1 to 10.0.0.1"
    assert finding.evidence[0].detail == "1 connection: 2.0% of packets retransmitted"
    assert not report(
        many(3, PRODUCE, 1), [], [connection(1, packets=5000, retransmitted_segments=19)]
    ).findings


def test_lag_is_of_all_partitions_and_connections_of_a_client():
    exchanges, partitions = fetched([0, 400], 3000)
    other = [
        paper_capture.partition(2, at, 1, 1, None, topic="orders", offset=5, high_watermark=5 + 300 * at)
        for at in (0, 1)
    ]
    again = [row | {"client_id": "client-1"} for row in many(2, FETCH, 5500, number=2)]
    ends = [connection(1), connection(2, client_host="10.1.0.1", client_id="client-1")]
    (finding,) = report(exchanges + again, [*partitions, *other], ends).findings
    (row,) = finding.evidence
    assert (row.subject, row.count) == ("client-1 at 10.1.0.1: orders", 700)
    assert row.detail.startswith("from 0 to 700 records behind in 5.50s, 2 partitions")
