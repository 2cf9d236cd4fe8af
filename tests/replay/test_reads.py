"""Consumers behind transactions and in groups, recorded here and now and replayed at every pace.

An independent client compares what the groups have committed with the ends of the logs.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kdissect.replay.settings import Groups, Pace
from tests.helpers.tiers import thorough_after
from tests.lab import releases
from tests.lab.capture import Capture
from tests.lab.cluster import KraftCluster
from tests.lab.maven import LabUnavailable, jars
from tests.replay.conftest import SecuredCluster
from tests.replay.live_readers import GROUPS, TOPICS, committed, converse
from tests.replay.play import play, settings
from tests.replay.reading import read_all

pytestmark = pytest.mark.broker

SECONDS = 8


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of consumers on one broker; each group reads its topic to the end and commits that."""
    try:
        jars(releases.EARLIER)
        cluster = KraftCluster(releases.EARLIER, brokers=1, request_log=False)
    except LabUnavailable as absent:
        pytest.skip(str(absent))
    path = tmp_path_factory.mktemp("reads") / "reads.pcap"
    with cluster:
        for name, partitions in TOPICS.items():
            cluster.create_topic(name, partitions, 1, {})
        with Capture(path, cluster.client_ports):
            offsets = converse(cluster.bootstrap, SECONDS)
            time.sleep(1)  # the last connections close
    assert all(offset > 0 for ends in offsets.values() for offset in ends.values()), offsets
    return path


PACES = [
    (pace, groups)
    for pace in (Pace.ASAP, Pace.SCHEDULE, Pace.THINK)
    for groups in (Groups.FULL, Groups.SIMPLE)
]
"""Each takes half a minute. Most runs try both kinds of groups as soon as possible.

`test_share_groups` has another pace.
"""


@pytest.mark.parametrize(("pace", "groups"), thorough_after(1, PACES))
def test_clients_read_and_commit_what_they_did_in_the_capture(
    recording: Path, target: SecuredCluster, tmp_path: Path, pace: Pace, groups: Groups
) -> None:
    prefix = f"{pace}-{groups}-"
    speed = 0.5 if pace is Pace.SCHEDULE else 1.0  # broker and replayer share the machine
    asked = settings(target, prefix, pace=pace, groups=groups, speed=speed)
    played = play(asked, str(recording), tmp_path / "run")
    assert played.unexpected() == []
    assert [each for each in played.report["checks"] if not each["holds"]] == []
    records = played.report["records"]
    assert abs(records["fetched_replayed"] - records["fetched_captured"]) <= 0.1 * records["fetched_captured"]
    for group, (topic, isolation) in GROUPS.items():
        commits = [row for row in played.report["run"]["commits"] if row["group"] == group]
        assert {row["partition"]: row["replayed"] for row in commits} == {
            f"{topic}-{number}": offset
            for number, offset in committed(target.bootstrap, group, topic, prefix).items()
        }
        assert [row for row in commits if row["short"]] == []
        seen = read_all(target.bootstrap, [prefix + topic], isolation=isolation)[prefix + topic]
        assert seen
