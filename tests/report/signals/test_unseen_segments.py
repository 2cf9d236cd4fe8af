"""Connections that hang behind bytes that nobody saw: the path lost them, unless they were acknowledged."""

import pytest

from kdissect.report.model.summary import Summary
from tests.helpers.made_paths import CLIENT_HOSTS, causes, pair_connections, report_of, traffic

CLIENT = CLIENT_HOSTS[0]
HOLE = {"lost_bytes": 2896, "unacknowledged_bytes_to_server": 3143}
SEEN_BY_THE_SERVER = {"lost_bytes": 2896, "unacknowledged_bytes_to_server": 0}


def report(stuck: int, hole: dict[str, int]) -> Summary:
    """Return the report about two hosts, of which one has some connections with a hole."""
    connections = [row | {"responses": 5} for row in pair_connections()]
    for row in [row for row in connections if row["client_host"] == CLIENT][:stuck]:
        row |= hole
    return report_of(traffic(), connections=connections)


def test_three_connections_that_hang_behind_a_hole() -> None:
    summary = report(3, HOLE)
    (incident,) = summary.incidents
    assert (incident.cause, incident.subject.name) == ("large_packets_lost", f"host {CLIENT}")
    assert f"Large packets from host {CLIENT} never arrive" in incident.headline
    assert "3 connections hang behind 8.48 KiB that nobody acknowledged" in incident.headline
    assert "capture_loss" not in [finding.name for finding in summary.findings]


def test_bytes_that_were_acknowledged_are_missing_in_the_capture() -> None:
    assert "capture_loss" in [finding.name for finding in report(3, SEEN_BY_THE_SERVER).findings]


@pytest.mark.parametrize(("stuck", "hole"), [(2, HOLE), (4, HOLE), (3, SEEN_BY_THE_SERVER)])
def test_few_holes_a_host_without_any_response_and_losses_of_the_capture_are_none(
    stuck: int, hole: dict[str, int]
) -> None:
    assert causes(report(stuck, hole)) == []
