"""Incidents of one report after the other: what is the same, what is new, what is over."""

from dataclasses import replace

import pytest

from kdissect.report.incidents.incident_log import CLOSED_NS, NS_PER_S, ChangeKind, IncidentLog
from kdissect.report.model.findings import Severity
from kdissect.report.model.incidents import Impact, Incident, Subject, SubjectKind

FROZEN = Incident(
    cause="broker_frozen", severity=Severity.CRITICAL,
    subject=Subject(kind=SubjectKind.SERVER, name="broker 2"),
    begin_ns=100 * NS_PER_S, end_ns=None, headline="broker 2 froze", consequences=(),
    impact=Impact(clients=("a",), requests=3, delayed=3, failed=0, cut=0, attempts=0, other=0, errors=(),
                  wait_ns=5, share=0.1), confidence=1.0, speaks_for=(),
    speaks_against=(), signals=(), evidence=(), means="", next="",
)  # fmt: skip
S = NS_PER_S


def told(log: IncidentLog, now_s: int, *incidents: Incident) -> list[tuple[str, int]]:
    return [(change.change.value, change.incident.number) for change in log.update(incidents, now_s * S)]


def test_an_incident_opens_grows_and_ends() -> None:
    log = IncidentLog()
    assert told(log, 101, FROZEN) == [("opened", 1)]
    assert told(log, 106, FROZEN) == []
    longer = replace(FROZEN, headline="broker 2 froze, 12 requests waited")
    assert told(log, 111, longer) == [("updated", 1)]
    over = replace(longer, end_ns=112 * S)
    assert told(log, 116, over) == [("updated", 1)]
    assert told(log, 112 + CLOSED_NS // S, over) == [("closed", 1)]
    assert told(log, 130, over) == []


def test_what_is_new_is_told_at_once_and_growth_from_time_to_time() -> None:
    log = IncidentLog()

    def at(now_s: int, **changes: object) -> bool:
        headline = f"broker 2 froze for {now_s - 100}.0s"
        incident = replace(FROZEN, **{"headline": headline, **changes})  # type: ignore[arg-type]
        return bool(told(log, now_s, incident))

    assert [second for second in range(101, 161) if at(second)] == [101, 106, 111, 116, 122, 130, 140, 154]
    assert at(161, headline="broker 2 froze, and clients left")
    assert not at(162, headline="broker 2 froze, and clients left", impact=replace(FROZEN.impact, wait_ns=9))
    assert at(163, headline="broker 2 froze, and clients left", severity=Severity.WARNING)
    assert at(164, headline="broker 2 froze, and clients left", severity=Severity.WARNING, end_ns=164 * S)
    # Growth that was not told is told later, although nothing has changed since.
    last = {"headline": "broker 2 froze", "severity": Severity.WARNING, "end_ns": 164 * S}
    assert at(165, **last)
    assert not at(166, **{**last, "end_ns": 166 * S})
    assert [second for second in range(167, 190) if at(second, **{**last, "end_ns": 185 * S})] == [187]


def test_one_that_no_report_names_any_more_is_closed() -> None:
    log = IncidentLog()
    told(log, 101, FROZEN)
    assert told(log, 106) == []
    assert told(log, 109, FROZEN) == []  # another cause seemed likelier for a moment
    (change,) = log.update([], 109 * S + CLOSED_NS)
    assert (change.change, change.incident.end_ns) == (ChangeKind.CLOSED, 109 * S)
    assert told(log, 130) == []


@pytest.mark.parametrize(
    ("headline", "last_s", "closed"),
    [
        ("broker 2 froze to the end of the capture, 3s", 109, "broker 2 froze until 00:01:49.000, 3s"),
        ("broker 2 refuses until the end of the capture", 109, "broker 2 refuses until 00:01:49.000"),
        ("3 requests waited when the capture ended", 109, "3 requests waited at 00:01:49.000"),
        ("broker 2 froze to the end of the capture", 86_405, "broker 2 froze until 1970-01-02 00:00:05.000"),
    ],
)
def test_a_closed_one_tells_until_when_it_lasted(headline: str, last_s: int, closed: str) -> None:
    log = IncidentLog()
    told(log, last_s, replace(FROZEN, headline=headline))
    (change,) = log.update([], last_s * S + CLOSED_NS)
    assert change.incident.headline == closed


def test_a_later_one_of_the_same_cause_has_a_number_of_its_own() -> None:
    log = IncidentLog()
    first = replace(FROZEN, end_ns=110 * S)
    told(log, 111, first)
    again = replace(FROZEN, begin_ns=150 * S)
    assert told(log, 151, first, again) == [("closed", 1), ("opened", 2)]
    assert told(log, 152, first, again) == []


def test_other_subjects_are_other_incidents() -> None:
    log = IncidentLog()
    other = replace(FROZEN, subject=Subject(kind=SubjectKind.SERVER, name="broker 3"))
    assert told(log, 101, FROZEN, other) == [("opened", 1), ("opened", 2)]


def test_the_log_goes_on_in_another_process() -> None:
    log = IncidentLog()
    told(log, 101, FROZEN)
    again = IncidentLog(log.carried())
    assert told(again, 106, FROZEN) == []
    assert told(again, 107, FROZEN, replace(FROZEN, cause="other")) == [("opened", 2)]


def test_what_is_long_over_is_forgotten_but_numbers_are_not_used_again() -> None:
    log = IncidentLog()
    told(log, 101, FROZEN)
    told(log, 116)
    told(log, 20_000)
    assert len(log.carried()) == 1
    assert told(log, 20_001, replace(FROZEN, begin_ns=20_000 * S)) == [("opened", 2)]
    told(log, 20_030)
    told(log, 40_000)
    assert [one["number"] for one in log.carried()] == [2]
