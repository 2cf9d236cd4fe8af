"""Groups that find no rest: members join, leave and die, with the classic protocol and with the new one
(KIP-848)."""

from __future__ import annotations

import time
from typing import NamedTuple

from tests.lab import releases
from tests.lab.clients.launch import Client
from tests.lab.cluster import KraftCluster
from tests.lab.stage import Stage

FILE = "rebalances.pcapng"
TOLD = (
    "Groups rebalance repeatedly. In each group, members join one by one, one leaves in good order and "
    "comes back, and one is killed and times out. Members of the classic protocol are Java, librdkafka, "
    "kafka-python and aiokafka (eager and cooperative), those of KIP-848 are Java and librdkafka."
)

_COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"


class Group(NamedTuple):
    """A consumer group: its members' library and that library's settings."""

    name: str
    library: str
    config: dict[str, str]


GROUPS = (
    Group(
        "eager-rdkafka",
        "librdkafka",
        {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000", "fetch.wait.max.ms": "2000"},
    ),
    Group(
        "cooperative-java",
        "java",
        {
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
            "partition.assignment.strategy": _COOPERATIVE,
            "fetch.max.wait.ms": "2000",
        },
    ),
    Group(
        "eager-python",
        "kafka-python",
        {"session_timeout_ms": "6000", "heartbeat_interval_ms": "1000", "fetch_max_wait_ms": "2000"},
    ),
    Group(
        "eager-aio",
        "aiokafka",
        {"session_timeout_ms": "6000", "heartbeat_interval_ms": "1000", "fetch_max_wait_ms": "2000"},
    ),
    Group("new-java", "java", {"group.protocol": "consumer", "fetch.max.wait.ms": "2000"}),
    Group("new-rdkafka", "librdkafka", {"group.protocol": "consumer", "fetch.wait.max.ms": "2000"}),
)
_BROKER = {
    "group.min.session.timeout.ms": "3000",
    "group.consumer.min.session.timeout.ms": "3000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
}


def record(stage: Stage) -> None:
    with KraftCluster(releases.CURRENT, 3, _BROKER, folder=stage.folder / "cluster") as cluster:
        stage.topics(cluster, {"jobs": 4})
        with stage.recording(cluster):
            source = stage.start(
                "librdkafka",
                role="produce",
                client_id="source",
                topics=("jobs",),
                records=96,
                per_second=2,
                burst=4,
                value_bytes=80,
                config={"acks": "all", "linger.ms": "50"},
            )
            first = _join(stage, 1)
            time.sleep(2)
            second = _join(stage, 2)
            time.sleep(2)
            third = _join(stage, 3)
            time.sleep(2)
            for member in second:
                member.leave()
            time.sleep(2)
            fourth = _join(stage, 4)
            time.sleep(2)
            for member in third:
                member.child.kill()
            time.sleep(9)  # until the coordinators miss the killed ones
            source.finish()
            time.sleep(1)
            for member in (*first, *fourth):
                member.leave()


def _join(stage: Stage, number: int) -> list[Client]:
    """Start one more member of every group, and return when all are in."""
    members = [
        stage.start(group.library, releases.CURRENT, role="consume", client_id=f"{group.name}-{number}",
                    topics=("jobs",), group=group.name, config=group.config)
        for group in GROUPS
    ]  # fmt: skip
    stage.wait_until_reading(members)
    return members
