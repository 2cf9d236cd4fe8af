"""Causes that lie with a server at which nobody listens: it is down, or it was not started yet.

broker_down       attempts are refused, and the capture does not show how it ended
broker_started    attempts are refused until it comes up, and nobody was served there before

Servers that come up while others are not up yet are one incident: a cluster that is started.
"""

from collections.abc import Sequence

from kdissect.report.incidents.cause import Case, Cause, Diagnosis, Layer, joined_core
from kdissect.report.incidents.lost_server_causes import (
    SOON_NS,
    announced,
    closed_last,
    refuses,
    shutdown_requests,
)
from kdissect.report.model.findings import Severity
from kdissect.report.signals.server_names import is_broker
from kdissect.report.wording import capitalized, counted, joined
from kdissect.text import format_clock

ANCHORS = ("attempts_refused",)
MOST_TOGETHER = 50
NAMED = 3


def broker_down(case: Case) -> Diagnosis | None:
    """A server refuses attempts to connect, and the capture does not show how it ended."""
    is_told = closed_last(case) and (shutdown_requests(case) or not announced(case))
    return None if is_told or _comes_up(case) else refuses(case)


def broker_started(case: Case) -> Diagnosis | None:
    """Servers at which nobody was served refused attempts to connect until they came up."""
    own = _started(case)
    if own is None:
        return None
    others = (
        _started(case.beside(signal))
        for signal in case.signals
        if signal.kind in ANCHORS and signal.subject != own.subject
    )
    found = [one for one in others if one is not None][:MOST_TOGETHER]
    together = sorted(_meeting(own, found), key=lambda one: (one.end_ns or 0, one.subject.name))
    return _headed(own, together)


def _comes_up(case: Case) -> bool:
    """Return whether a server serves clients for the first time of the capture after it refused some."""
    return not case.anchor.measures["talked_ns"] and case.anchor.end_ns is not None


def _started(case: Case) -> Diagnosis | None:
    return refuses(case) if _comes_up(case) else None


def _meeting(own: Diagnosis, others: Sequence[Diagnosis]) -> list[Diagnosis]:
    """Return a diagnosis and those others that it meets in time, and those that these meet."""
    chain, rest = [own], list(others)
    while met := [other for other in rest if any(_meet(one, other) for one in chain)]:
        chain += met
        rest = [other for other in rest if all(other is not known for known in met)]
    return chain


def _meet(one: Diagnosis, other: Diagnosis) -> bool:
    return one.begin_ns <= (other.end_ns or 0) and other.begin_ns <= (one.end_ns or 0)


def _brokers_first(name: str) -> tuple[bool, str]:
    return not is_broker(name), name


def _headed(own: Diagnosis, started: Sequence[Diagnosis]) -> Diagnosis:
    """Return one diagnosis of servers that came up: a warning if others served clients all the while."""
    core = joined_core((own, *started))
    begin = min(one.begin_ns for one in started)
    ends = [one.end_ns or 0 for one in started]
    last_refused = max(signal.measures["last_ns"] for signal in core)
    at = "at" if ends[-1] - last_refused <= SOON_NS else "by"
    when = f"{at} {format_clock(ends[-1])}"
    if ends[0] != ends[-1]:
        when = f"from {format_clock(ends[0])} to {format_clock(ends[-1])}"
    attempts = sum(signal.measures["attempts"] for signal in core)
    beside = any(signal.measures["beside"] for signal in core if signal.begin_ns == begin)
    names = joined(sorted((one.subject.name for one in started), key=_brokers_first), NAMED)
    return own._replace(
        begin_ns=begin,
        end_ns=ends[-1],
        headline=f"{capitalized(names)} came up {when}: {counted(attempts, 'attempt')} to connect "
        f"{'was' if attempts == 1 else 'were'} refused before, since {format_clock(begin)}",
        core=core,
        speaks_for=("nobody was served there before, and clients are from then on",),
        speaks_against=("it may have been down for long when the capture began",) if beside else (),
        severity=Severity.WARNING if beside else None,
    )


DOWN_CAUSES = (
    Cause(
        name="broker_down",
        layer=Layer.SERVER,
        severity=Severity.CRITICAL,
        anchors=ANCHORS,
        judge=broker_down,
        links=(),
        needs="three or more attempts to connect to a server are refused, over a second or more, and the "
        "capture does not show how it ended",
        against="its connections ended together: then it died or was stopped; it talks at another address: "
        "then it advertises a wrong one; it comes up, and nobody was served there before",
        means="No process listens at the address: the broker was down before the capture began, or hardly "
        "anybody was connected when it ended.",
        next="whether the broker runs; whether this is still its address; the bootstrap servers of the "
        "clients",
    ),
    Cause(
        name="broker_started",
        layer=Layer.SERVER,
        severity=Severity.NOTE,
        anchors=ANCHORS,
        judge=broker_started,
        links=(),
        needs="as broker_down, but the server comes up, and nobody was served there before; several are one "
        "incident if their times meet; a warning if other servers serve clients when it begins",
        against="it never comes up, or it served clients before",
        means="The server was started while the capture ran, and clients tried to connect before that.",
        next="whether it was meant to start at that time; how long it took; how long clients go on trying",
    ),
)
"""Both explain the same signals: `causes` adds the links."""
