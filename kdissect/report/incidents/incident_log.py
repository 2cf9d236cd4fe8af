"""Changes of incidents from report to report: opened, updated, closed.

Reports on captures that go on name the same incident again and again, with another end, more impact, or a
clearer headline. An incident of a new report is a known one if cause and subject are the same and both
overlap, give or take NEAR_NS. It is closed when its end is CLOSED_NS ago, or when no report has named it for
so long: another cause explains it by then, or it has left the window. If it lasted to the end of the last
report that named it, that is its end, and its headline says the time.

Some news is told at once: an end, another severity, other clients, other words. Mere growth of figures is
told after GROWTH_NS, and later after a quarter of the incident's age.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from kdissect.report.model.incidents import Incident
from kdissect.report.wording import with_end
from kdissect.text import format_clock, spans_midnight

NS_PER_S = 1_000_000_000
NEAR_NS = 5 * NS_PER_S
CLOSED_NS = 10 * NS_PER_S
FORGOTTEN_NS = 3600 * NS_PER_S
GROWTH_NS, GROWTH_SHARE = 5 * NS_PER_S, 4
FIGURES = re.compile(r"(?:\d{4}-\d\d-\d\d )?[\d.,:]+")
"""Figures and times of a sentence; times get their date once the captures go on past midnight."""


class ChangeKind(StrEnum):
    """Change of an incident."""

    OPENED = "opened"
    UPDATED = "updated"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class KnownIncident:
    """An incident as the last report that names it has it."""

    number: int
    cause: str
    severity: str
    subject_kind: str
    subject: str
    begin_ns: int
    end_ns: int | None
    headline: str
    clients: tuple[str, ...]
    requests: int
    wait_ns: int
    confidence: float
    last_ns: int = 0  # end of the last report that names it
    closed: bool = False
    told_ns: int = 0  # end of the report whose change was told last
    grown: bool = False  # since then


@dataclass(frozen=True, slots=True)
class IncidentChange:
    """One line of the log."""

    change: ChangeKind
    incident: KnownIncident


class IncidentLog:
    """Numbers incidents, and tells what changed since the report before."""

    def __init__(self, carried: Sequence[dict[str, Any]] = ()) -> None:
        """Go on with what `carried` returned."""
        self._known = [KnownIncident(**{**one, "clients": tuple(one["clients"])}) for one in carried]

    def carried(self) -> list[dict[str, Any]]:
        """Return what is known, as plain values."""
        return [asdict(one) for one in self._known]

    def update(self, incidents: Iterable[Incident], now_ns: int) -> list[IncidentChange]:
        """Return what changed by a report that ends at `now_ns`, in order of the numbers of incidents."""
        changes: list[IncidentChange] = []
        known = {one.number: one for one in self._known}
        left = set(known)
        for incident in sorted(incidents, key=lambda one: one.begin_ns):
            number = next((one for one in sorted(left) if _is_same(known[one], incident, now_ns)), None)
            if number is None:
                number = max(known, default=0) + 1
                known[number] = _known(number, incident, now_ns)
                changes.append(IncidentChange(ChangeKind.OPENED, known[number]))
            else:
                left.discard(number)
                known[number], is_told = _updated(known[number], _known(number, incident, now_ns))
                if is_told:
                    changes.append(IncidentChange(ChangeKind.UPDATED, known[number]))
        for number, one in known.items():
            end_ns = one.last_ns if number in left else one.end_ns
            if not one.closed and end_ns is not None and now_ns - end_ns >= CLOSED_NS:
                known[number] = _closed(one)
                changes.append(IncidentChange(ChangeKind.CLOSED, known[number]))
        newest = max(known, default=0)
        self._known = [
            one
            for one in known.values()
            if not one.closed or now_ns - one.last_ns < FORGOTTEN_NS or one.number == newest
        ]
        return sorted(changes, key=lambda change: change.incident.number)


def _known(number: int, incident: Incident, now_ns: int) -> KnownIncident:
    return KnownIncident(
        number=number,
        cause=incident.cause,
        severity=incident.severity.value,
        subject_kind=incident.subject.kind.value,
        subject=incident.subject.name,
        begin_ns=incident.begin_ns,
        end_ns=incident.end_ns,
        headline=incident.headline,
        clients=incident.impact.clients,
        requests=incident.impact.requests,
        wait_ns=incident.impact.wait_ns,
        confidence=incident.confidence,
        last_ns=now_ns,
        told_ns=now_ns,
    )


def _closed(one: KnownIncident) -> KnownIncident:
    """Return an incident as closed, whose end is known."""
    last = format_clock(one.last_ns, date=spans_midnight(one.begin_ns, one.last_ns))
    return replace(
        one,
        closed=True,
        end_ns=one.last_ns if one.end_ns is None else one.end_ns,
        headline=with_end(one.headline, last),
    )


def _updated(before: KnownIncident, after: KnownIncident) -> tuple[KnownIncident, bool]:
    """Return an incident as the new report has it, and whether its change is told now."""
    now_ns = after.last_ns
    grown = before.grown or _shown(after) != _shown(before)
    patience_ns = max(GROWTH_NS, (now_ns - after.begin_ns) // GROWTH_SHARE)
    is_due = grown and now_ns - before.told_ns >= patience_ns
    is_told = not before.closed and (is_due or _news(after) != _news(before))
    told_ns = now_ns if is_told else before.told_ns
    return replace(after, closed=before.closed, told_ns=told_ns, grown=grown and not is_told), is_told


def _news(one: KnownIncident) -> tuple[object, ...]:
    """Return what is told at once."""
    return one.end_ns is None, one.severity, one.clients, FIGURES.sub("", one.headline)


def _shown(one: KnownIncident) -> KnownIncident:
    """Return an incident without what changes with every report."""
    return replace(one, last_ns=0, told_ns=0, closed=False, grown=False)


def _is_same(known: KnownIncident, incident: Incident, now_ns: int) -> bool:
    same = (known.cause, known.subject_kind, known.subject) == (
        incident.cause,
        incident.subject.kind.value,
        incident.subject.name,
    )
    known_end = known.end_ns if known.end_ns is not None else known.last_ns
    end = incident.end_ns if incident.end_ns is not None else now_ns
    return same and incident.begin_ns <= known_end + NEAR_NS and known.begin_ns <= end + NEAR_NS
