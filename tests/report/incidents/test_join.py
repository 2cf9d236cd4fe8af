"""Incidents of recorded captures whose cause is known, and of partials that are merged in any order."""

import numpy as np
import pytest

from kdissect.report.build.report import build_report
from kdissect.report.incidents.join import MAX_INCIDENTS
from kdissect.report.partials import merge, summarise
from kdissect.report.timeline.grid import SIGNAL_STEPS, grid_over
from tests.helpers import recorded


def causes(name):
    summary = recorded.analyzed(name)[0]
    return [(incident.cause, incident.subject.name) for incident in summary.incidents]


def test_a_broker_that_stood_still_is_named_with_its_moment():
    summary = recorded.analyzed("pause.pcapng")[0]
    incident = summary.incidents[0]
    assert incident.cause == "broker_frozen"
    assert incident.subject.name == "broker 2 (127.0.0.1:29486)"
    assert incident.end_ns - incident.begin_ns == pytest.approx(14 * 10**9, abs=10**9)
    assert len(incident.impact.clients) == 3
    assert incident.impact.wait_ns > 60 * 10**9


def test_a_killed_broker_and_a_stopped_one_are_told_apart():
    """Both lost partitions before they ended, but only the killed one was still at work."""
    assert causes("broker-restart.pcapng")[:2] == [
        ("broker_killed", "broker 3 (127.0.0.1:28678)"),
        ("broker_stopped", "broker 2 (127.0.0.1:28386)"),
    ]


def test_signals_and_incidents_refer_to_each_other():
    summary = recorded.analyzed("broker-restart.pcapng")[0]
    assert 0 < len(summary.incidents) <= MAX_INCIDENTS
    for number, incident in enumerate(summary.incidents):
        for at in incident.signals:
            assert summary.signals[at].incident == number
    explained = [finding for finding in summary.findings if finding.incident is not None]
    assert {"refused_connections", "leader_moved"} <= {finding.name for finding in explained}


def test_the_order_in_which_partials_are_merged_changes_nothing():
    seen, batches = recorded.dissected("pause.pcapng")
    steps = grid_over(seen.earliest_time_ns, seen.latest_time_ns, SIGNAL_STEPS)
    whole = recorded.analyzed("pause.pcapng")[0]
    partials = [summarise(batch, None, steps) for batch in batches]
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(partials))
        half = len(order) // 2
        parts = [merge(partials[at] for at in order[:half]), merge(partials[at] for at in order[half:])]
        summary = build_report(merge(parts), whole.capture)
        assert (summary.incidents, summary.signals) == (whole.incidents, whole.signals)
