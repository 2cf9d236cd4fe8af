"""Incidents of a story that a report warns of."""

from pathlib import Path

from kdissect.report.model.findings import Severity
from kdissect.report.model.incidents import Incident
from tests.helpers.told_capture import T0_MS, Story
from tests.helpers.told_groups import analyzed


def warnings(story: Story, tmp_path: Path) -> list[Incident]:
    """Return the incidents of a story that are no notes; no finding that none explains is a warning."""
    summary = analyzed(story, tmp_path)
    loud = [
        one.name for one in summary.findings if one.incident is None and one.severity is not Severity.NOTE
    ]
    assert not loud
    return [one for one in summary.incidents if one.severity is not Severity.NOTE]


def seconds_of(time_ns: int | None) -> float | None:
    """Return a time as seconds since the story began."""
    return None if time_ns is None else time_ns / 1e9 - T0_MS / 1000
