"""From signals to incidents: every cause judges its cases, deeper layers first, and explains what it led to.

All cases are judged. Diagnoses are then taken in the order of layers and, within a layer, of impact. One
whose anchor an earlier one explains is dropped: its signals are consequences. The rest is ranked by
impact, notes last; of clients that cannot work and clients that work badly the former come first.

A signal that was over before an incident began is no consequence of it. It stays with the incident only if
no other one explains it, is told as what was before, and is no part of the impact.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from kdissect.report.incidents.cause import SECOND, Case, Cause, Diagnosis, Layer, SignalIndex
from kdissect.report.incidents.causes import CAUSES
from kdissect.report.incidents.impact import (
    RESTATES,
    ImpactContext,
    is_said_by,
    measure_impact,
    weigh,
    word_consequences,
)
from kdissect.report.model.findings import Finding, Severity
from kdissect.report.model.incidents import Impact, Incident, Signal, SubjectKind
from kdissect.report.signals.sources import KINDS

MAX_INCIDENTS = 200
MAX_EVIDENCE = 20

UNEXPLAINED, TIMES_AS_MUCH = ("latency_changed", "rate_changed"), 10
"""Causes that only say that something changed, and how much more they must hurt to stand in front."""

EARLY_NS = SECOND
"""A signal that ended this long before an incident began is none of its consequences."""


class Candidate(NamedTuple):
    """A diagnosis of a cause, indexes of its own signals and of those that it explains, impact and rank.

    The first of `own` is the anchor.
    """

    cause: Cause
    diagnosis: Diagnosis
    own: tuple[int, ...]
    explained: tuple[int, ...]
    impact: Impact
    weight: float


def find_incidents(
    signals: Sequence[Signal],
    span_ns: tuple[int, int],
    exchanges: int,
    causes: Sequence[Cause] = CAUSES,
    nodes: Collection[str] = (),
) -> tuple[tuple[Incident, ...], tuple[Signal, ...]]:
    """Return incidents by impact, and the signals with the index of the incident that explains each.

    `span_ns` is the first and the last time of the capture, `exchanges` the number of its exchanges. `nodes`
    are clients that are brokers or controllers.
    """
    index = SignalIndex(signals)
    context = ImpactContext(exchanges, nodes)
    candidates = [
        _candidate(cause, diagnosis, index, span_ns, context)
        for cause in causes
        for anchor in signals
        if anchor.kind in cause.anchors
        if (diagnosis := cause.judge(Case(anchor, index, span_ns))) is not None
    ]
    accepted = _hand_over(_accepted(candidates, signals, context), candidates, signals, context)
    accepted = _ranked(accepted)[:MAX_INCIDENTS]
    of_signal: dict[int, int] = {}
    for number, one in enumerate(accepted):
        for at in (*one.own, *one.explained):
            of_signal.setdefault(at, number)
    _follow_restated(signals, of_signal)
    incidents = tuple(_incident(one, number, signals, of_signal) for number, one in enumerate(accepted))
    joined = tuple(replace(signal, incident=of_signal.get(at)) for at, signal in enumerate(signals))
    return incidents, joined


def _follow_restated(signals: Sequence[Signal], of_signal: dict[int, int]) -> None:
    """Add signals that say again what explained signals say to the incident that explains those."""
    explained: dict[str, list[int]] = defaultdict(list)
    for at in of_signal:
        explained[signals[at].kind].append(at)
    for at, signal in enumerate(signals):
        better = [row for kind in RESTATES.get(signal.kind, ()) for row in explained[kind]]
        if at not in of_signal and is_said_by(signal, [signals[row] for row in better]):
            of_signal[at] = of_signal[better[0]]


def _rank(one: Candidate) -> tuple[bool, float, int]:
    """Return the place of an incident in a report: notes come last, else the greatest impact first.

    A change that nothing explains stands behind a cause that is known, unless it hurts many times as much.
    """
    severity = one.diagnosis.severity or one.cause.severity
    weight = one.weight / TIMES_AS_MUCH if one.cause.name in UNEXPLAINED else one.weight
    return severity is Severity.NOTE, -weight, one.diagnosis.begin_ns


def _ranked(accepted: Sequence[Candidate]) -> list[Candidate]:
    """Return incidents in the order of a report.

    Critical ones that lie with clients take the places of such in front: their clients cannot work at all.
    """
    ranked = sorted(accepted, key=_rank)
    places = [place for place, one in enumerate(ranked) if _lies_with_clients(one)]
    of_clients = sorted((ranked[place] for place in places), key=_rank_among_clients)
    for place, one in zip(places, of_clients, strict=True):
        ranked[place] = one
    return ranked


def _lies_with_clients(one: Candidate) -> bool:
    return one.cause.layer is Layer.CLIENT or one.diagnosis.subject.kind is SubjectKind.CLIENT


def _rank_among_clients(one: Candidate) -> tuple[bool, tuple[bool, float, int]]:
    """Return the place of an incident among those of clients.

    A client that waits, or asks too much, still works, however much that costs.
    """
    critical = (one.diagnosis.severity or one.cause.severity) is Severity.CRITICAL
    return not critical, _rank(one)


def _candidate(
    cause: Cause, diagnosis: Diagnosis, index: SignalIndex, span_ns: tuple[int, int], context: ImpactContext
) -> Candidate:
    own = tuple(map(index.position, diagnosis.core))
    linked = {at for link in cause.links for at in index.linked(diagnosis, link, span_ns[1])}
    explained = tuple(sorted(linked.difference(own)))
    return _measured(cause, diagnosis, own, explained, index.signals, context)


def _measured(
    cause: Cause,
    diagnosis: Diagnosis,
    own: tuple[int, ...],
    explained: tuple[int, ...],
    signals: Sequence[Signal],
    context: ImpactContext,
) -> Candidate:
    """Return a candidate with the impact and the rank of the signals that it has."""
    joined = [signals[at] for at in (*own, *explained) if at in own or not _is_early(signals[at], diagnosis)]
    impact = measure_impact(joined, KINDS, context)
    return Candidate(
        cause, diagnosis, own, explained, impact, weigh(joined, KINDS, impact, diagnosis.confidence)
    )


def _accepted(
    candidates: Sequence[Candidate], signals: Sequence[Signal], context: ImpactContext
) -> list[Candidate]:
    """Return the candidates whose anchor no other one explains, without signals that an earlier one has.

    The signals that are left to an incident measure what it hurt.
    """
    ordered = sorted(
        candidates,
        key=lambda one: (
            one.cause.layer,
            -one.weight,
            one.diagnosis.begin_ns,
            one.cause.name,
        ),
    )
    accepted: list[Candidate] = []
    taken: set[int] = set()
    for one in ordered:
        if one.own and not taken.issuperset(one.own) and one.own[0] not in taken:
            left = tuple(at for at in one.explained if at not in taken)
            accepted.append(_measured(one.cause, one.diagnosis, one.own, left, signals, context))
            taken.update(one.own, one.explained)
    return accepted


def _is_early(signal: Signal, diagnosis: Diagnosis) -> bool:
    """Return whether a signal was over before an incident began."""
    return signal.end_ns is not None and signal.end_ns < diagnosis.begin_ns - EARLY_NS


def _hand_over(
    accepted: Sequence[Candidate],
    candidates: Sequence[Candidate],
    signals: Sequence[Signal],
    context: ImpactContext,
) -> list[Candidate]:
    """Return the accepted candidates, with early signals of one where another one explains them in time."""
    links = {id(one.diagnosis): one.explained for one in candidates}
    explained = [list(one.explained) for one in accepted]
    for place, one in enumerate(accepted):
        for at in one.explained:
            if _is_early(signals[at], one.diagnosis):
                others = (
                    other
                    for other, rival in enumerate(accepted)
                    if at in links[id(rival.diagnosis)] and not _is_early(signals[at], rival.diagnosis)
                )
                if (better := next(others, None)) is not None:
                    explained[place].remove(at)
                    explained[better].append(at)
    return [
        _measured(one.cause, one.diagnosis, one.own, tuple(sorted(own)), signals, context)
        for one, own in zip(accepted, explained, strict=True)
    ]


def _incident(one: Candidate, number: int, signals: Sequence[Signal], of_signal: dict[int, int]) -> Incident:
    diagnosis = one.diagnosis
    led_to = [at for at in one.explained if of_signal[at] == number]
    own = [at for at in one.own if of_signal[at] == number]
    evidence = [row for at in (*own, *led_to) for row in signals[at].evidence]
    return Incident(
        cause=one.cause.name,
        severity=diagnosis.severity or one.cause.severity,
        subject=diagnosis.subject,
        begin_ns=diagnosis.begin_ns,
        end_ns=diagnosis.end_ns,
        headline=diagnosis.headline,
        consequences=_consequences(one, [signals[at] for at in led_to], [signals[at] for at in own]),
        impact=one.impact,
        confidence=diagnosis.confidence,
        speaks_for=diagnosis.speaks_for,
        speaks_against=diagnosis.speaks_against,
        signals=(*own, *led_to),
        evidence=tuple(evidence[:MAX_EVIDENCE]),
        means=diagnosis.means or one.cause.means,
        next=one.cause.next,
    )


def _consequences(one: Candidate, led_to: Sequence[Signal], own: Sequence[Signal]) -> tuple[str, ...]:
    """Return the sentences of consequences, then those of signals that were over before it began."""
    early = [signal for signal in led_to if _is_early(signal, one.diagnosis)]
    later = [signal for signal in led_to if not _is_early(signal, one.diagnosis)]
    before = word_consequences(early, KINDS, (*own, *later))
    return (*word_consequences(later, KINDS, own), *(f"before it: {sentence}" for sentence in before))


def mark_explained(findings: Sequence[Finding], signals: Sequence[Signal]) -> tuple[Finding, ...]:
    """Return findings with the index of an incident where incidents explain all signals of a finding."""
    of_kind: dict[str, list[int | None]] = {}
    for signal in signals:
        of_kind.setdefault(signal.kind, []).append(signal.incident)
    marked = []
    for finding in findings:
        incidents = of_kind.get(finding.name, [None])
        known = [number for number in incidents if number is not None]
        marked.append(replace(finding, incident=min(known) if len(known) == len(incidents) else None))
    return tuple(marked)
