"""Connections that hang behind bytes that nobody saw: the path lost them, unless they were acknowledged."""

from collections.abc import Sequence

import pytest

from kdissect.report.model.summary import Summary
from tests.helpers.made_paths import CLIENT_HOSTS, causes, pair_connections, report_of, traffic
from tests.helpers.report_rows import PRODUCE, Row, exchange_of

CLIENT = CLIENT_HOSTS[0]
HOLE = {"lost_bytes": 2896, "unacknowledged_bytes_to_server": 3143}
SEEN_BY_THE_SERVER = {"lost_bytes": 2896, "unacknowledged_bytes_to_server": 0}


def report(stuck: int, hole: dict[str, int], exchanges: Sequence[Row] = ()) -> Summary:
    """Return the report about two hosts, of which one has some connections with a hole."""
    connections = [row | {"responses": 5} for row in pair_connections()]
    for row in [row for row in connections if row["client_host"] == CLIENT][:stuck]:
        row |= hole
    return report_of(traffic(), connections=connections, exchanges=exchanges)


def test_three_connections_that_hang_behind_a_hole() -> None:
    summary = report(3, HOLE)
    (incident,) = summary.incidents
    assert (incident.cause, incident.subject.name) == ("large_packets_lost", f"host {CLIENT}")
    assert f"Large packets from host {CLIENT} never arrive" in incident.headline
    assert "3 connections wait for 8.48 KiB that never came, while small ones pass" in incident.headline
    assert "capture_loss" not in [finding.name for finding in summary.findings]


def test_a_hole_comes_after_the_last_answer() -> None:
    """The connections were there before: what they asked until then was answered."""
    answered = [exchange_of(number, 0, PRODUCE, 8_000 + number) for number in (1, 2, 3)]
    (incident,) = report(3, HOLE, answered).incidents
    assert incident.begin_ns == min(row["response_last_ns"] for row in answered)


def test_bytes_that_were_acknowledged_are_missing_in_the_capture() -> None:
    assert "capture_loss" in [finding.name for finding in report(3, SEEN_BY_THE_SERVER).findings]


@pytest.mark.parametrize(("stuck", "hole"), [(2, HOLE), (4, HOLE), (3, SEEN_BY_THE_SERVER)])
def test_few_holes_a_host_without_any_response_and_losses_of_the_capture_are_none(
    stuck: int, hole: dict[str, int]
) -> None:
    assert causes(report(stuck, hole)) == []
