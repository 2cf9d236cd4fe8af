"""A broker that is slow shows it as a follower: told as stories of replica fetches."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.report.model.findings import Severity
from kdissect.report.model.incidents import Incident
from kdissect.report.model.summary import Summary
from tests.helpers.told_capture import T0_MS, Story
from tests.helpers.told_cluster import HOSTS, NODES, cluster, name_of
from tests.helpers.told_groups import analyzed

MOMENT_MS, END_MS = 15_000, 30_000
Pace = Callable[[int, int, float], tuple[float, float]]
"""How long a leader holds the Fetch of a follower (numbers) at a time, and the time to the next one."""


def replicate(story: Story, pace: Pace) -> None:
    """Have each broker fetch from the others."""
    for follower in NODES:
        for leader in NODES:
            if follower == leader:
                continue
            ends = HOSTS[NODES.index(follower)], (HOSTS[NODES.index(leader)], 9092)
            line = story.connect(*ends, client_id=f"broker-{follower}-fetcher-0")
            at_ms = 10.0 + follower + 3 * leader
            while at_ms < END_MS:
                held, reaction = pace(follower, leader, at_ms)
                request = {"replica_id": follower, "max_wait_ms": 500, "min_bytes": 1, "topics": []}
                line.call(at_ms, held, ApiKey.FETCH, 7, request, {"responses": []})
                at_ms += held + reaction


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
