"""A broker that is slow shows it as a follower: told as stories of replica fetches."""

from pathlib import Path

import pytest

from kdissect.report.model.findings import Severity
from kdissect.report.model.incidents import Incident
from kdissect.report.model.summary import Summary
from tests.helpers.told_capture import T0_MS
from tests.helpers.told_cluster import Pace, cluster, name_of, replicate
from tests.helpers.told_groups import analyzed

MOMENT_MS, END_MS = 15_000, 30_000


def report(pace: Pace, tmp_path: Path) -> Summary:
    story, _ = cluster(lambda node, at_ms: 3 + at_ms % 2, seconds=END_MS / 1000)
    replicate(story, pace)
    return analyzed(story, tmp_path)


def warned(summary: Summary) -> list[Incident]:
    return [one for one in summary.incidents if one.severity is not Severity.NOTE]


@pytest.mark.parametrize("held_ms", [30, 400], ids=["busy", "hardly written to"])
def test_a_broker_that_is_slow_as_a_follower(held_ms: float, tmp_path: Path) -> None:
    slow = 60 if held_ms < 100 else 250
    summary = report(
        lambda node, _, at_ms: (held_ms, slow if node == 2 and at_ms > MOMENT_MS else 1.5), tmp_path
    )
    (incident,) = warned(summary)
    assert (incident.cause, incident.subject.name) == ("broker_slow", name_of(2))
    headline = incident.headline.replace(f"{slow}.0", str(slow))
    assert f"as a follower it takes {slow}ms instead of 1." in headline
    assert incident.begin_ns / 1e6 - T0_MS == pytest.approx(MOMENT_MS, abs=500)


@pytest.mark.parametrize(
    "pace",
    [
        lambda _, __, at_ms: (30, 60 if at_ms > MOMENT_MS else 1.5),
        lambda _, __, at_ms: (400 if at_ms > MOMENT_MS else 20, 1.5),
        lambda node, leader, at_ms: (30, 60 if (node, leader) == (2, 1) and at_ms > MOMENT_MS else 1.5),
        lambda node, _, at_ms: (30, 60 if node == 2 and MOMENT_MS < at_ms < MOMENT_MS + 3000 else 1.5),
    ],
    ids=[
        "all are slow together",
        "leaders hold fetches since nobody writes",
        "late with one leader",
        "for a moment",
    ],
)
def test_followers_that_are_no_warning(pace: Pace, tmp_path: Path) -> None:
    assert warned(report(pace, tmp_path)) == []


@pytest.mark.parametrize(("slow_ms", "found"), [(18, []), (40, ["broker_slow"])], ids=["busy host", "slow"])
def test_followers_on_a_busy_host_differ(slow_ms: float, found: list[str], tmp_path: Path) -> None:
    """The other brokers need 8 ms, too."""

    def pace(node: int, _: int, at_ms: float) -> tuple[float, float]:
        usual, busy = (2.4, slow_ms) if node == 2 else (3, 8)
        return 30, busy if at_ms > MOMENT_MS else usual

    story, _ = cluster(lambda node, at_ms: 100 if at_ms > MOMENT_MS else 3, seconds=END_MS / 1000)
    replicate(story, pace)
    assert [one.cause for one in warned(analyzed(story, tmp_path))] == found
