"""Incidents of recorded captures whose cause is known, and of partials that are merged in any order."""

from dataclasses import replace

import numpy as np
import pytest

from kdissect.protocol.error_codes import ErrorCode
from kdissect.report.build.build_report import build_report
from kdissect.report.incidents.cause import Cause, Layer, Link, Relation
from kdissect.report.incidents.client_links import stated
from kdissect.report.incidents.join import MAX_INCIDENTS, find_incidents
from kdissect.report.model.findings import Severity
from kdissect.report.model.incidents import Subject, SubjectKind
from kdissect.report.partials import merge, summarise
from kdissect.report.signals.make_signal import make_signal
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


def signal(kind, name, begin_ns, *, wait_ns=0, clients=(), **measures):
    return make_signal(
        kind,
        (SubjectKind.CLIENT, name),
        (begin_ns, None),
        f"{kind} of {name}",
        wait_ns=wait_ns,
        clients=clients,
        measures=measures,
    )


def cause(name, layer, anchor, *links):
    return Cause(name, layer, Severity.WARNING, (anchor,), stated(1.0), links, "", "", "", "")


def test_what_one_incident_explains_adds_nothing_to_the_rank_of_another():
    """Both could explain the wait; it belongs to the deeper one."""
    found = (
        signal("batches_tiny", "writer", 0, clients=["writer"]),
        signal("latency_rose", "broker", 1, clients=["writer", "other"]),
        signal("client_latency_rose", "writer", 2, wait_ns=60 * 10**9, clients=["writer"]),
    )
    waits = ("client_latency_rose",)
    table = (
        cause("slow", Layer.SERVER, "latency_rose", Link(waits, Relation.ANYWHERE)),
        cause("tiny", Layer.CLIENT, "batches_tiny", Link(waits, Relation.CLIENT)),
    )
    first, second = find_incidents(found, (0, 10**10), 100, table)[0]
    assert (first.cause, first.impact.wait_ns) == ("slow", 60 * 10**9)
    assert (second.cause, second.impact.wait_ns) == ("tiny", 0)


@pytest.mark.parametrize(("wait_s", "first"), [(9, "lag"), (90, "latency_changed")])
def test_a_change_without_a_reason_stands_behind_a_known_cause_unless_it_hurts_much_more(wait_s, first):
    found = (
        signal("latency_rose", "writer", 0, wait_ns=wait_s * 10**9, clients=["writer"]),
        signal("lag_grew", "reader", 1, clients=["reader"]),
    )
    table = (
        cause("lag", Layer.CLIENT, "lag_grew"),
        cause("latency_changed", Layer.SYMPTOM, "latency_rose"),
    )
    assert find_incidents(found, (0, 10**10), 100, table)[0][0].cause == first


def test_an_incident_that_begins_with_what_another_explains_is_kept():
    """Two brokers are restarted in turn: the handover of the second also follows from the first."""
    found = (
        signal("connections_ended", "one", 0),
        signal("leadership_left", "two", 1),
        signal("connections_ended", "two", 2),
    )

    def judge(case):
        near = case.near(("leadership_left",), Relation.SUBJECT)
        return stated(1.0)(case)._replace(core=(case.anchor, *near))

    stopped = cause(
        "stopped", Layer.SERVER, "connections_ended", Link(("leadership_left",), Relation.ANYWHERE)
    )
    incidents, _ = find_incidents(found, (0, 10**10), 100, (stopped._replace(judge=judge),))
    assert [one.subject.name for one in incidents] == ["one", "two"]


@pytest.mark.parametrize(("code", "explained"), [(6, True), (3, False)])
def test_a_link_may_be_for_some_error_codes_only(code, explained):
    found = (signal("latency_rose", "broker", 0), signal("errors_repeated", "topic", 1, code=code))
    link = Link(("errors_repeated",), Relation.ANYWHERE, codes=frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER}))
    _, signals = find_incidents(found, (0, 10**10), 100, (cause("slow", Layer.SERVER, "latency_rose", link),))
    assert (signals[1].incident == 0) is explained


def test_a_finding_that_says_again_what_an_incident_explains_belongs_to_it():
    found = (
        signal("metadata_storm", "writer", 0, clients=["writer"]),  # its first request came long before
        signal("topic_missing", "writer", 60 * 10**9, clients=["writer"]),
        signal("metadata_storm_began", "writer", 60 * 10**9, clients=["writer"]),
    )
    link = Link(("metadata_storm", "metadata_storm_began"), Relation.CLIENT)
    missing = cause("missing", Layer.CLIENT, "topic_missing", link)
    _, signals = find_incidents(found, (0, 10**11), 100, (missing,))
    assert [one.incident for one in signals] == [0, 0, 0]


def over(kind, name, begin_s, end_s, **facts):
    return replace(signal(kind, name, begin_s * 10**9, **facts), end_ns=end_s * 10**9)


def test_what_was_over_before_an_incident_is_told_as_such_and_hurts_nobody_by_it():
    found = (
        over("leaders_moved", "broker", 5, 6, wait_ns=10**9),
        signal("connections_ended", "broker", 10 * 10**9),
        over("latency_rose", "broker", 10, 20, wait_ns=3 * 10**9),
    )
    link = Link(("leaders_moved", "latency_rose"), Relation.ANYWHERE, before_ns=15 * 10**9)
    table = (cause("died", Layer.SERVER, "connections_ended", link),)
    ((died,), signals) = find_incidents(found, (0, 10**11), 100, table)
    assert died.consequences == ("latency_rose of broker", "before it: leaders_moved of broker")
    assert died.impact.wait_ns == 3 * 10**9
    assert [one.incident for one in signals] == [0, 0, 0]


def test_an_earlier_incident_gets_what_was_over_before_a_later_one():
    """A broker is restarted and gets its partitions back, then another one dies."""
    found = (
        over("leadership_left", "one", 1, 2),
        over("leaders_moved", "two", 5, 6),
        signal("connections_ended", "two", 10 * 10**9, wait_ns=60 * 10**9),
    )
    link = Link(("leaders_moved",), Relation.ANYWHERE, before_ns=15 * 10**9, after_ns=10 * 10**9)
    table = (
        cause("died", Layer.SERVER, "connections_ended", link),
        cause("stopped", Layer.SERVER, "leadership_left", link),
    )
    died, stopped = find_incidents(found, (0, 10**11), 100, table)[0]
    assert (died.cause, died.consequences) == ("died", ())
    assert (stopped.cause, stopped.consequences) == ("stopped", ("leaders_moved of two",))


@pytest.mark.parametrize("wait_s", [80, 8_000])
def test_clients_that_cannot_work_stand_before_those_that_wait(wait_s):
    found = (
        signal("client_latency_rose", "writer", 0, wait_ns=wait_s * 10**9),
        signal("tls_handshake_failed", "reader", 1, wait_ns=9 * 10**9),
    )
    table = (
        cause("slow", Layer.CLIENT, "client_latency_rose"),
        cause("broken", Layer.CLIENT, "tls_handshake_failed")._replace(severity=Severity.CRITICAL),
    )
    assert find_incidents(found, (0, 10**10), 100, table)[0][0].cause == "broken"


def test_a_fenced_producer_stands_before_a_client_that_connects_all_the_time():
    first, second = recorded.analyzed("habits.pcapng")[0].incidents[:2]
    assert (first.cause, second.cause) == ("zombie_producer", "connection_storm")


def test_a_slow_server_stands_before_one_client_that_cannot_work_if_it_hurts_more():
    found = (
        signal("latency_rose", "broker", 0, wait_ns=80 * 10**9),
        signal("tls_handshake_failed", "reader", 1, wait_ns=9 * 10**9),
    )
    found = (replace(found[0], subject=Subject(kind=SubjectKind.SERVER, name="broker")), found[1])
    table = (
        cause("slow", Layer.SERVER, "latency_rose"),
        cause("broken", Layer.CLIENT, "tls_handshake_failed")._replace(severity=Severity.CRITICAL),
    )
    assert find_incidents(found, (0, 10**10), 100, table)[0][0].cause == "slow"
