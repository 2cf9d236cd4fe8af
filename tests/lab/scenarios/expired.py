"""Members that a group gives up: one frozen for longer than its session, one that works longer than it may
between polls."""

from __future__ import annotations

import signal
import time

from tests.lab import releases
from tests.lab.cluster import KraftCluster
from tests.lab.stage import Stage

FILE = "expired.pcapng"
TOLD = (
    "One broker. `frozen` is one of two readers of `orders` in group `billing`. It is stopped (SIGSTOP) "
    "for five seconds, longer than its session timeout of two seconds, and then tries to continue and to "
    "commit. `dawdler` is alone in its group. It takes six seconds for each record, although its poll "
    "interval is three seconds, so it leaves and joins again. `poller` reads an idle topic with fetches that "
    "wait for a second, and requests metadata on the same connection twice a second."
)
_BROKER = {"group.min.session.timeout.ms": "1000"}
SHORT = {
    "session.timeout.ms": "2000",
    "heartbeat.interval.ms": "500",
    "auto.commit.interval.ms": "2000",
    "fetch.wait.max.ms": "1000",
    "fetch.min.bytes": "400",
}
FROZEN = {
    "session_timeout_ms": "2000",
    "heartbeat_interval_ms": "500",
    "auto_commit_interval_ms": "500",
    "fetch_max_wait_ms": "1000",
    "fetch_min_bytes": "400",
}
ROUND_ROBIN = {"partition.assignment.strategy": "roundrobin"}
POLLING = {"fetch.wait.max.ms": "1000", "topic.metadata.refresh.interval.ms": "500"}


def record(stage: Stage) -> None:
    with KraftCluster(releases.CURRENT, 1, _BROKER, folder=stage.folder / "cluster") as cluster:
        stage.topics(cluster, {"orders": 2, "jobs": 1, "idle": 1})
        with stage.recording(cluster):
            readers = [
                stage.start(
                    library,
                    role="consume",
                    client_id=client_id,
                    group=group,
                    topics=(topic,),
                    rest_ms=rest_ms,
                    config=config,
                )
                for library, client_id, group, topic, rest_ms, config in (
                    ("aiokafka", "frozen", "billing", "orders", 0.0, FROZEN),
                    ("librdkafka", "patient", "billing", "orders", 0.0, SHORT | ROUND_ROBIN),
                    (
                        "librdkafka",
                        "dawdler",
                        "work",
                        "jobs",
                        6000.0,
                        SHORT | {"max.poll.interval.ms": "3000"},
                    ),
                    ("librdkafka", "poller", "watch", "idle", 0.0, POLLING),
                )
            ]
            stage.wait_until_reading(readers)
            writer = stage.start(
                "librdkafka",
                role="produce",
                client_id="writer",
                topics=("orders", "jobs"),
                records=80,
                per_second=8,
                burst=2,
                config={"linger.ms": "5"},
            )
            time.sleep(3)
            frozen = readers[0].child.process
            assert frozen is not None
            frozen.send_signal(signal.SIGSTOP)
            time.sleep(5)
            frozen.send_signal(signal.SIGCONT)
            writer.finish()
            for reader in readers:
                reader.leave()
