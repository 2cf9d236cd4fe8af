"""Impact of an incident, and its rank."""

from dataclasses import replace

import pytest

from kdissect.report.incidents.impact import (
    CLIENT_WEIGHT,
    ImpactContext,
    measure_impact,
    weigh,
    word_consequences,
)
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.sources import KINDS

SECOND = 10**9


def signal(kind: str, requests: int, wait_s: float = 0, clients: tuple[str, ...] = ()) -> Signal:
    return make_signal(
        kind,
        (SubjectKind.SERVER, "broker 1"),
        (0, None),
        "…",
        requests=requests,
        wait_ns=round(wait_s * SECOND),
        clients=clients,
    )


def rank(*signals: Signal, confidence: float = 1.0) -> float:
    return weigh(signals, KINDS, measure_impact(signals, KINDS, ImpactContext(1000)), confidence)


def test_requests_that_waited_and_were_answered_count_by_their_seconds() -> None:
    slow = signal("latency_rose", 500, wait_s=10)
    assert measure_impact([slow], KINDS, ImpactContext(1000)).requests == 500
    assert rank(slow) == 10
    assert rank(slow, signal("unanswered_cut", 39)) == 10 + 39
    assert rank(signal("errors_repeated", 39), confidence=0.5) == 39 / 2


def test_signals_that_count_the_same_requests_count_once() -> None:
    both = (signal("server_silent", 8, wait_s=5), signal("latency_rose", 20, wait_s=3))
    impact = measure_impact(both, KINDS, ImpactContext(1000))
    assert (impact.requests, impact.wait_ns) == (20, 5 * SECOND)


def test_latency_that_rises_once_more_while_it_is_high_counts_once() -> None:
    rise = signal("latency_rose", 20, wait_s=9)
    spans = ((0, 90), (20, 90), (30, 40), (95, None))
    rises = [
        replace(rise, begin_ns=begin, end_ns=end, wait_ns=(9 - n) * SECOND)
        for n, (begin, end) in enumerate(spans)
    ]
    impact = measure_impact(rises, KINDS, ImpactContext(1000))
    assert (impact.requests, impact.wait_ns) == (40, 15 * SECOND)
    elsewhere = replace(rises[1], subject=replace(rise.subject, name="broker 2"))
    assert measure_impact([rises[0], elsewhere], KINDS, ImpactContext(1000)).wait_ns == 17 * SECOND


def test_requests_that_were_answered_in_time_hurt_nobody() -> None:
    """A consumer that commits all the time does not stand before a path on which three clients hang."""
    commits = signal("commits_storm", 472, clients=("feed at 10.1.0.11",))
    silent = signal("path_silent", 0, clients=("a", "b", "c"))
    assert measure_impact([commits], KINDS, ImpactContext(1000)).requests == 0
    assert rank(commits, confidence=0.85) < rank(silent, confidence=0.6)


def test_replicas_are_no_clients() -> None:
    hurt = signal("errors_repeated", 0, clients=("billing at 10.1.0.9", "broker-2-fetcher-0 at 10.1.0.2"))
    assert measure_impact([hurt], KINDS, ImpactContext(1000)).clients == ("billing at 10.1.0.9",)
    assert rank(hurt) == CLIENT_WEIGHT


def test_nodes_are_no_clients() -> None:
    hurt = signal("errors_repeated", 0, clients=("1 at 10.1.0.9", "1 at 10.1.0.2"))
    context = ImpactContext(1000, frozenset({"1 at 10.1.0.2"}))
    assert measure_impact([hurt], KINDS, context).clients == ("1 at 10.1.0.9",)


def test_what_a_better_signal_says_is_not_said_again() -> None:
    refused = make_signal("attempts_refused", (SubjectKind.SERVER, "broker 1"), (0, None), "refused")
    again = make_signal("refused_connections", (SubjectKind.SERVER, "broker 1"), (0, None), "again")
    other = make_signal("refused_connections", (SubjectKind.SERVER, "broker 2"), (0, None), "of another")
    assert word_consequences([again, other], KINDS, [refused]) == ("of another",)
    assert word_consequences([again], KINDS) == ("again",)


def test_partitions_that_moved_stand_in_front() -> None:
    moved = make_signal("leaders_moved", (SubjectKind.SERVER, "broker 1"), (0, None), "moved")
    assert word_consequences([signal("server_silent", 8, wait_s=5), moved], KINDS) == ("moved", "…")


def test_a_signal_that_names_no_server_says_what_a_finding_says_of_its_client() -> None:
    """A finding names a broker, since its evidence has a packet; the lag of a reader is about no broker."""
    grew = make_signal("lag_grew", (SubjectKind.CLIENT, "reader"), (0, None), "grew", topics=["orders"])
    again = make_signal(
        "lag_growing", (SubjectKind.CLIENT, "reader"), (0, None), "again", servers=["broker 1"]
    )
    assert word_consequences([again], KINDS, [grew]) == ()


def test_lag_by_commits_is_not_told_beside_that_by_fetches() -> None:
    grew, commits, other = (
        make_signal("lag_grew", (SubjectKind.CLIENT, "reader"), (0, None), sentence, topics=[topic])
        for sentence, topic in (("fetches", "orders"), ("commits", "orders"), ("of another topic", "clicks"))
    )
    assert word_consequences([commits, other], KINDS, [grew]) == ("of another topic",)


def test_requests_are_counted_by_their_fate_with_the_errors_that_are_known() -> None:
    refused = replace(signal("topic_missing", 20), measures={"code": 3})
    found = (
        refused,
        signal("latency_rose", 242, wait_s=6),
        signal("unanswered_cut", 5),
        signal("attempts_refused", 9),
    )
    impact = measure_impact(found, KINDS, ImpactContext(1000))
    assert (impact.delayed, impact.failed, impact.cut, impact.attempts, impact.requests) == (
        242,
        20,
        5,
        9,
        276,
    )
    assert impact.errors == ("UNKNOWN_TOPIC_OR_PARTITION",)


def test_findings_of_late_requests_are_no_failures() -> None:
    """A slow broker or a quota fails no request; each counts as a second if its wait is not known."""
    for kind in ("slow_broker", "throttled", "behind_long_poll"):
        assert measure_impact([signal(kind, 242)], KINDS, ImpactContext(1000)).failed == 0
    assert rank(signal("slow_broker", 242)) == 242
    assert measure_impact([signal("transactions_open", 7)], KINDS, ImpactContext(1000)).requests == 0


def test_only_errors_of_the_requests_that_are_counted_are_named() -> None:
    few = replace(signal("offsets_gone", 3), measures={"code": 1})
    assert measure_impact([few], KINDS, ImpactContext(1000)).errors == ("OFFSET_OUT_OF_RANGE",)
    assert measure_impact([few, signal("topic_recreated", 107)], KINDS, ImpactContext(1000)).errors == ()


FACTS = {
    "member_expired": "poll_exceeded",
    "rebalance_storm": "rebalances_by_topics",
    "retriable_errors_lasted": "replicas_missing",
    "tls_failed": "tls_handshake_failed",
    "corrupt_records": "records_damaged",
}


@pytest.mark.parametrize(("again", "better"), FACTS.items())
def test_a_finding_that_says_again_what_a_signal_says_is_left_out(again: str, better: str) -> None:
    own, other = (
        make_signal(kind, (SubjectKind.CLIENT, "a at 10.1.0.2"), (0, 10**9), f"says {kind}")
        for kind in (better, again)
    )
    assert word_consequences((other,), KINDS, (own,)) == ()
    stranger = make_signal(again, (SubjectKind.CLIENT, "b at 10.1.0.3"), (0, 10**9), "says more")
    assert word_consequences((stranger,), KINDS, (own,)) == ("says more",)
