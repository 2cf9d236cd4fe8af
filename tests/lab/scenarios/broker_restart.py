"""A bad day: under load, one broker is restarted in good order and another is killed and comes back."""

from __future__ import annotations

import time

from tests.lab import releases
from tests.lab.cluster import KraftCluster
from tests.lab.stage import Stage

FILE = "broker-restart.pcapng"
TOLD = (
    "Under load, broker 2 is stopped in good order and started again. Then broker 3 is killed and started "
    "again. Leadership moves away and back, so clients see errors, refused connections, and connections "
    "that close in the middle of a request."
)

PRODUCERS = (
    ("orders-rdkafka", "librdkafka", {"acks": "all", "linger.ms": "200"}),
    ("orders-java", "java", {"acks": "all", "linger.ms": "200"}),
    ("orders-python", "kafka-python", {"acks": "1", "enable_idempotence": "False", "linger_ms": "200"}),
    ("orders-aio", "aiokafka", {"acks": "1", "linger_ms": "200"}),
)
CONSUMERS = (("billing", "librdkafka"), ("shipping", "java"))
# Larger fetches, fewer of them: the capture stays small.
_CALM = {"session.timeout.ms": "10000", "fetch.min.bytes": "8000"}
_BROKER = {"leader.imbalance.check.interval.seconds": "4", "leader.imbalance.per.broker.percentage": "0"}


def record(stage: Stage) -> None:
    with KraftCluster(releases.CURRENT, 3, _BROKER, folder=stage.folder / "cluster") as cluster:
        stage.topics(cluster, {"orders": 6})
        with stage.recording(cluster):
            consumers = [
                stage.start(
                    library,
                    releases.CURRENT,
                    role="consume",
                    client_id=f"{group}-1",
                    topics=("orders",),
                    group=group,
                    config=_CALM,
                )
                for group, library in CONSUMERS
            ]
            producers = [
                stage.start(
                    library,
                    releases.CURRENT,
                    role="produce",
                    client_id=client_id,
                    topics=("orders",),
                    records=320,
                    per_second=8,
                    burst=8,
                    value_bytes=120,
                    config=config,
                )
                for client_id, library, config in PRODUCERS
            ]
            time.sleep(6)
            two, three = cluster.nodes[1:]
            two.stop()
            time.sleep(3)
            two.start()
            cluster.wait_until_ready()
            time.sleep(7)
            three.kill()
            time.sleep(6)
            three.start()
            for producer in producers:
                producer.finish()
            time.sleep(2)
            for consumer in consumers:
                consumer.leave()
