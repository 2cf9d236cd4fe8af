"""Incidents for the page: each with lanes, on which its signals lie, one lane for each subject."""

from typing import Any

from kdissect.report.build.page.page_names import PageNames
from kdissect.report.model.incidents import Incident, Signal

MOST_INCIDENTS, MOST_LANES, MOST_IN_LANE, MOST_EVIDENCE = 20, 12, 40, 20
Plain = dict[str, Any]


def describe_incidents(names: PageNames) -> list[Plain]:
    """Return the incidents with the greatest impact, times as those of the page."""
    summary = names.summary
    return [_incident(names, incident, summary.signals) for incident in summary.incidents[:MOST_INCIDENTS]]


def _incident(names: PageNames, incident: Incident, signals: tuple[Signal, ...]) -> Plain:
    lanes: dict[tuple[str, str], list[Plain]] = {}
    for at in incident.signals:
        signal = signals[at]
        lane = lanes.setdefault((signal.subject.kind.value, signal.subject.name), [])
        if len(lane) < MOST_IN_LANE:
            lane.append(_bar(names, signal))
    return {
        "cause": incident.cause,
        "severity": incident.severity.value,
        "title": incident.headline,
        "from": names.since(incident.begin_ns),
        "to": _end(names, incident.end_ns),
        "means": incident.means,
        "next": incident.next,
        "confidence": incident.confidence,
        "consequences": list(incident.consequences),
        "reasons": [f"for: {reason}" for reason in incident.speaks_for]
        + [f"against: {reason}" for reason in incident.speaks_against],
        "lanes": [
            {"kind": kind, "subject": subject, "bars": bars}
            for (kind, subject), bars in list(lanes.items())[:MOST_LANES]
        ],
        "lanes_omitted": max(len(lanes) - MOST_LANES, 0),
        "evidence": [
            {
                "subject": row.subject,
                "detail": row.detail,
                "count": row.count,
                "from": names.since(row.first_time_ns),
                "to": names.since(row.last_time_ns),
                "place": names.location(row.place),
            }
            for row in incident.evidence[:MOST_EVIDENCE]
        ],
    }


def _bar(names: PageNames, signal: Signal) -> Plain:
    return {
        "kind": signal.kind,
        "text": signal.sentence,
        "from": names.since(signal.begin_ns),
        "to": _end(names, signal.end_ns),
    }


def _end(names: PageNames, end_ns: int | None) -> int | None:
    return names.since(names.summary.capture.last_time_ns if end_ns is None else end_ns)
