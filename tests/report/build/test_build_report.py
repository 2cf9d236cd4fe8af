"""The figures of the hand-made capture, worked out on paper."""

import gc
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from kdissect.memory import collector_paused
from kdissect.report.build.build_report import build_report
from kdissect.text import DAY_NS
from tests.helpers.paper_capture import MS, US, T
from tests.helpers.told_cluster import cluster, name_of
from tests.helpers.told_groups import partial_of


def test_totals(summary):
    totals = summary.totals
    assert (totals.exchanges, totals.answered, totals.no_response_expected) == (9, 6, 1)
    assert (totals.unanswered, totals.orphan_responses) == (1, 1)
    assert (totals.unanswered_closed, totals.unanswered_open, totals.unanswered_lossy) == (1, 0, 0)
    assert (totals.error_responses, totals.errors, totals.faults, totals.untimed) == (1, 1, 1, 1)
    assert totals.request_bytes == 1000 + 7 * 100
    assert totals.response_bytes == 5 * 60 + 5000 + 40
    assert (totals.throttled, totals.throttle_ms, totals.throttle_max_ms) == (1, 200, 200)
    assert (totals.acks_none, totals.acks_leader, totals.acks_all) == (1, 1, 2)
    assert (totals.pipelined, totals.in_flight_max) == (1, 2)
    assert (totals.transfer_ns, totals.transfer_max_ns) == (6 * 10 * US, 10 * US)
    assert totals.doubtful == 4
    assert totals.first_time_ns == T
    assert totals.last_time_ns == T + 1500 * MS


def test_service_time_has_no_idle_waits_and_no_impossible_latency(summary):
    service, idle = summary.totals.service, summary.totals.idle
    assert (service.count, service.sum_ns, service.min_ns, service.max_ns) == (4, 6500 * US, 500 * US, 3 * MS)
    assert service.mean_ns == 1625 * US
    assert service.p50_ns == pytest.approx(1 * MS, rel=0.005)  # rank 2 of 4
    assert service.p90_ns == pytest.approx(3 * MS, rel=0.005)  # rank 4 of 4
    # Deviations of 0.5, 1, 2 and 3 ms from 1.625 ms: variance 0.921875 ms², over the mean 0.5673 ms.
    assert service.variance_to_mean_ns == pytest.approx(567_308, rel=0.02)
    assert (idle.count, idle.sum_ns, idle.p50_ns) == (1, 500 * MS, 500 * MS)


def test_doubts(summary):
    assert [(doubt.name, doubt.count, doubt.of) for doubt in summary.doubts] == [
        ("lost_bytes", 500, 10_000),
        ("midstream_connections", 1, 2),
        ("unmatched", 2, 8),
        ("faults", 1, 9),
        ("untimed", 1, 6),
        ("encrypted_bytes", 500, 10_000),
    ]


@pytest.mark.parametrize("was_on", [True, False])
def test_the_collector_is_as_it_was_when_a_report_is_made_or_fails(was_on):
    (gc.enable if was_on else gc.disable)()
    try:
        with suppress(KeyError), collector_paused():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() is was_on
    finally:
        gc.enable()


def test_sentences_of_a_capture_over_midnight_have_dates(tmp_path: Path) -> None:
    story, _ = cluster(lambda node, at_ms: (80 if node == 2 and at_ms > 15_000 else 3) + at_ms % 2)
    partial, facts = partial_of(story, tmp_path)
    over_midnight = replace(facts, first_time_ns=(facts.first_time_ns or 0) - DAY_NS)
    for capture, clock in ((facts, "15:06:55."), (over_midnight, "2025-06-15 15:06:55.")):
        summary = build_report(partial, capture)
        (incident,) = (one for one in summary.incidents if one.subject.name == name_of(2))
        (signal,) = (one for one in summary.signals if one.kind == "latency_rose")
        assert f" at {clock}" in incident.headline
        assert f" at {clock}" in signal.sentence
