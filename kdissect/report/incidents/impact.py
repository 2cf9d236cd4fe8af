"""Impact of an incident on clients, and its consequences in sentences."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from kdissect.protocol.error_codes import error_name
from kdissect.report.incidents.replica_causes import LATENCY
from kdissect.report.model.incidents import Impact, Signal, Subject
from kdissect.report.signals.client_names import BROKERS_OWN
from kdissect.report.signals.kinds import SignalCounts, SignalKind, sentence_of

SECOND = 10**9
BROKERS = re.compile(rf"(?:{BROKERS_OWN.pattern}) at ")
"""Clients that brokers themselves are, and nobody who asks whom an incident hurt."""

CLIENT_WEIGHT = 2.0
"""A client that is touched weighs as much as so many seconds of waiting, or as many failed requests."""


class ImpactContext(NamedTuple):
    """The number of all exchanges of the capture, and the clients that are brokers or controllers."""

    exchanges: int
    nodes: Collection[str] = ()


def measure_impact(
    signals: Iterable[Signal], kinds: Mapping[str, SignalKind], context: ImpactContext
) -> Impact:
    """Return the impact of the signals of one incident.

    Signals that count the same thing may count the same requests: of them the largest counts.
    """
    clients: set[str] = set()
    wait_ns: dict[str, int] = defaultdict(int)
    signals = tuple(signals)
    for signal in signals:
        clients.update(
            name for name in signal.clients if not BROKERS.match(name) and name not in context.nodes
        )
    signals = _without_nested_rises(signals)
    for signal in signals:
        wait_ns[signal.kind] += signal.wait_ns
    of = _requests(signals, kinds)
    requests = sum(of.values())
    return Impact(
        clients=tuple(sorted(clients)),
        requests=requests,
        delayed=of.get(SignalCounts.WAITS, 0),
        failed=of.get(SignalCounts.ERRORS, 0),
        cut=of.get(SignalCounts.CUT, 0),
        attempts=of.get(SignalCounts.ATTEMPTS, 0),
        other=of.get(SignalCounts.OTHER, 0),
        errors=_errors(signals, kinds),
        wait_ns=max(wait_ns.values(), default=0),
        share=min(requests / context.exchanges, 1.0) if context.exchanges else 0.0,
    )


def _without_nested_rises(signals: Sequence[Signal]) -> tuple[Signal, ...]:
    """Return signals without rises of latency within the time of a longer one of the same subject.

    Latency that rises once more while it is high is a signal of its own, and its requests are those of both.
    """
    kept: dict[tuple[str, Subject], list[Signal]] = defaultdict(list)
    nested: set[int] = set()
    for signal in sorted(signals, key=lambda one: (one.begin_ns, -_end_ns(one))):
        if signal.kind in LATENCY:
            others = kept[signal.kind, signal.subject]
            if any(_end_ns(signal) <= _end_ns(other) for other in others):
                nested.add(id(signal))
            else:
                others.append(signal)
    return tuple(signal for signal in signals if id(signal) not in nested)


def _end_ns(signal: Signal) -> float:
    return inf if signal.end_ns is None else signal.end_ns


def _errors(signals: Sequence[Signal], kinds: Mapping[str, SignalKind]) -> tuple[str, ...]:
    """Return the names of the errors of the kind whose refused requests stand for all."""
    codes: dict[str, set[int]] = defaultdict(set)
    requests: dict[str, int] = defaultdict(int)
    for signal in signals:
        if kinds[signal.kind].counts is SignalCounts.ERRORS:
            requests[signal.kind] += signal.requests
            codes[signal.kind].add(signal.measures.get("code", 0))
    most = max(requests, key=lambda kind: (requests[kind], 0 not in codes[kind]), default="")
    return tuple(sorted(error_name(code) for code in codes[most] if code))


def _requests(signals: Sequence[Signal], kinds: Mapping[str, SignalKind]) -> dict[SignalCounts, int]:
    """Return the requests of signals by what they are: for each, those of the kind that has the most.

    Requests that were neither refused nor late, as those of a client that asks too often, hurt nobody.
    """
    by_kind: dict[str, int] = defaultdict(int)
    for signal in signals:
        by_kind[signal.kind] += signal.requests
    largest: dict[SignalCounts, int] = defaultdict(int)
    for name, requests in by_kind.items():
        counts = kinds[name].counts
        if counts is not SignalCounts.NOTHING:
            largest[counts] = max(largest[counts], requests)
    return largest


def _waits(signal: Signal, kinds: Mapping[str, SignalKind]) -> bool:
    return kinds[signal.kind].counts is SignalCounts.WAITS


def weigh(
    signals: Sequence[Signal], kinds: Mapping[str, SignalKind], impact: Impact, confidence: float
) -> float:
    """Return the rank: seconds of waiting, failed requests and clients, times confidence.

    A request that waited and was answered has not failed: its seconds count, and not the request. It counts
    as one second if nobody knows how long it waited.
    """
    of = _requests([one for one in signals if not one.wait_ns or not _waits(one, kinds)], kinds)
    failed = sum(of.values())
    return confidence * (impact.wait_ns / SECOND + failed + CLIENT_WEIGHT * len(impact.clients))


RESTATES: Mapping[str, tuple[str, ...]] = {
    "authentication_failed": ("credentials_refused", "mechanism_refused"),
    "commit_failed": ("commits_refused",),
    "connection_churn": ("connections_storm", "closed_while_waiting", "closed_after_acks_none"),
    "corrupt_records": ("records_damaged", "timestamps_refused"),
    "errors_repeated": (
        "commits_refused",
        "credentials_refused",
        "group_kind_refused",
        "login_out_of_turn",
        "mechanism_refused",
        "offsets_gone",
        "protocol_refused",
        "records_damaged",
        "records_oversized",
        "replicas_missing",
        "right_missing",
        "settings_refused",
        "timestamps_refused",
        "topic_missing",
    ),
    "lag_growing": ("lag_grew",),
    "leader_moved": ("leadership_left",),
    "member_expired": ("member_lost", "poll_exceeded"),
    "metadata_storm": ("metadata_storm_began",),
    "not_authorized": ("right_missing",),
    "producer_fenced": ("producer_fenced_out",),
    "rebalance_storm": ("rebalances_by_topics",),
    "records_too_large": ("records_oversized",),
    "refused_connections": ("attempts_refused",),
    "retriable_errors_lasted": ("records_damaged", "replicas_missing", "topic_missing"),
    "setting_refused": ("settings_refused",),
    "throttled": ("quota_applied",),
    "tiny_batches": ("batches_tiny",),
    "tls_failed": ("tls_handshake_failed",),
    "transactions_open": ("transaction_open",),
    "unanswered_cut": ("connections_ended",),
}
"""Kinds that say again, for the same clients, what a signal of another kind says better."""

MEASURED_TWICE = ("lag_grew",)
"""Kinds of which two signals of one subject and its topics are one fact: lag by fetches, and by commits."""


def word_consequences(
    signals: Sequence[Signal], kinds: Mapping[str, SignalKind], own: Sequence[Signal] = ()
) -> tuple[str, ...]:
    """Return one sentence for each kind of signal, the greatest impact first.

    Kinds that tell first stand in front. A sentence that the signals of the cause itself (`own`), or others,
    say already is left out, and so is the same fact measured in another way.
    """
    known = (*own, *signals)
    facts = {_fact(one) for one in own if one.kind in MEASURED_TWICE}
    signals = [
        signal
        for signal in signals
        if _fact(signal) not in facts
        and not is_said_by(signal, [one for one in known if one.kind in RESTATES.get(signal.kind, ())])
    ]
    by_kind: dict[str, list[Signal]] = {}
    for signal in sorted(signals, key=lambda row: (-row.wait_ns, -row.requests, row.begin_ns)):
        by_kind.setdefault(signal.kind, []).append(signal)
    ranked = sorted(
        by_kind.items(),
        key=lambda item: (
            not kinds[item[0]].tells_first,
            -sum(row.wait_ns for row in item[1]) / SECOND - sum(row.requests for row in item[1]),
            item[0],
        ),
    )
    return tuple(sentence_of(kinds[name], rows) for name, rows in ranked)


def is_said_by(signal: Signal, better: Sequence[Signal]) -> bool:
    """Return whether better signals are about all clients and servers of a signal.

    One that names no server, such as that of a reader's lag, is about all of them.
    """
    clients = {name for one in better for name in one.clients}
    servers = {name for one in better for name in one.servers}
    return (
        bool(better)
        and clients.issuperset(signal.clients)
        and (servers.issuperset(signal.servers) or not all(one.servers for one in better))
    )


def _fact(signal: Signal) -> tuple[str, Subject, tuple[str, ...]]:
    """Return what signals that measure one fact in several ways have in common."""
    return signal.kind, signal.subject, signal.topics
