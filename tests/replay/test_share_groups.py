"""Share groups on brokers that are new to them, and make the topic with their state at the first fetch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kdissect.exchanges.filter import ExchangeFilter
from kdissect.replay.settings import Groups, Pace
from tests.helpers.tiers import thorough_after
from tests.lab import releases
from tests.lab.cluster import KraftCluster
from tests.lab.maven import LabUnavailable, jars
from tests.replay.play import Played, play, settings

pytestmark = pytest.mark.broker

CAPTURED = 36  # records that the members were handed out


@pytest.fixture
def broker() -> Iterator[KraftCluster]:
    """One broker, new for each test."""
    try:
        jars(releases.CURRENT)
        cluster = KraftCluster(releases.CURRENT, brokers=1, request_log=False)
    except LabUnavailable as absent:
        pytest.skip(str(absent))
    with cluster:
        yield cluster


def acquired(played: Played) -> int:
    """Return how many records the target handed out."""
    digests = (
        entry
        for pair in played.pairs
        if pair["api"] == "ShareFetch"
        for answer in pair["answers"]
        for entry in answer["digest"]
    )
    return sum(entry.get("acquired", 0) for entry in digests)


@pytest.mark.parametrize("pace", thorough_after(1, [Pace.THINK, Pace.ASAP, Pace.SCHEDULE]))
def test_a_group_reads_what_it_read_in_the_capture(broker: KraftCluster, tmp_path: Path, pace: Pace) -> None:
    asked = settings(
        broker,
        f"{pace}-",
        groups=Groups.FULL,
        pace=pace,
        filter=lambda _start_ns: ExchangeFilter(clients=("sharer", "bank")),
    )
    played = play(asked, "cluster-life.pcapng", tmp_path / "run")
    assert acquired(played) == CAPTURED
    assert played.report["verdict"] == "pass", played.report["because"]
