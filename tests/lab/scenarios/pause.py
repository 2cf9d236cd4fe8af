"""A broker that stops in the middle of its work, as in a long garbage collection or on a frozen host, and
goes on later."""

from __future__ import annotations

import time

from tests.lab import releases
from tests.lab.cluster import KraftCluster
from tests.lab.stage import Stage

FILE = "pause.pcapng"
TOLD = (
    "Three brokers. One of them is stopped (SIGSTOP) for fourteen seconds and then continues. Its "
    "requests get no response until clients give up, and then other brokers lead its partitions."
)
PRODUCERS = (
    (
        "orders-rdkafka",
        "librdkafka",
        {"socket.timeout.ms": "6000", "request.timeout.ms": "6000", "linger.ms": "100"},
    ),
    (
        "orders-java",
        "java",
        {"request.timeout.ms": "6000", "delivery.timeout.ms": "40000", "linger.ms": "100"},
    ),
)
READER = {"socket.timeout.ms": "10000", "session.timeout.ms": "8000", "fetch.min.bytes": "4000"}


def record(stage: Stage) -> None:
    with KraftCluster(releases.CURRENT, 3, folder=stage.folder / "cluster") as cluster:
        stage.topics(cluster, {"orders": 3})
        with stage.recording(cluster):
            reader = stage.start(
                "librdkafka",
                role="consume",
                client_id="billing-1",
                group="billing",
                topics=("orders",),
                config=READER,
            )
            producers = [
                stage.start(
                    library,
                    releases.CURRENT,
                    role="produce",
                    client_id=client_id,
                    topics=("orders",),
                    records=100,
                    per_second=4,
                    burst=4,
                    config=config,
                )
                for client_id, library, config in PRODUCERS
            ]
            time.sleep(6)
            with cluster.nodes[1].paused():
                time.sleep(14)
            for producer in producers:
                producer.finish()
            time.sleep(2)
            reader.leave()
