"""A quiet day: four client libraries produce and consume at an even pace, with every codec and every acks."""

from __future__ import annotations

import time

from tests.lab import releases
from tests.lab.cluster import KraftCluster
from tests.lab.stage import Stage

FILE = "steady.pcapng"
TOLD = (
    "Four client libraries produce and consume steadily on three brokers, with gzip, snappy, lz4, zstd "
    "and no compression, and with acks 0, 1 and all."
)

# client id, library, topic, the library's own settings
PRODUCERS = (
    ("orders-gzip", "librdkafka", "orders", {"compression.type": "gzip", "acks": "all", "linger.ms": "50"}),
    ("orders-zstd", "librdkafka", "orders", {"compression.type": "zstd", "acks": "1", "linger.ms": "50"}),
    ("clicks-quick", "librdkafka", "clicks", {"compression.type": "none", "acks": "0", "linger.ms": "50"}),
    ("payments-lz4", "java", "payments", {"compression.type": "lz4", "acks": "all", "linger.ms": "50"}),
    (
        "clicks-snappy",
        "java",
        "clicks",
        {"compression.type": "snappy", "acks": "0", "enable.idempotence": "false", "linger.ms": "50"},
    ),
    (
        "audit-gzip",
        "kafka-python",
        "audit",
        {"compression_type": "gzip", "acks": "1", "enable_idempotence": "False", "linger_ms": "50"},
    ),
    ("audit-snappy", "aiokafka", "audit", {"compression_type": "snappy", "acks": "all", "linger_ms": "50"}),
)
CONSUMERS = (
    ("billing", "librdkafka", "orders", {"session.timeout.ms": "10000"}),
    ("ledger", "java", "payments", {"session.timeout.ms": "10000"}),
    ("trends", "kafka-python", "clicks", {"session_timeout_ms": "10000"}),
    ("archive", "aiokafka", "audit", {"session_timeout_ms": "10000"}),
)
TOPICS = {"orders": 3, "payments": 3, "clicks": 3, "audit": 3}


def record(stage: Stage) -> None:
    with KraftCluster(releases.CURRENT, brokers=3, folder=stage.folder / "cluster") as cluster:
        stage.topics(cluster, TOPICS)
        with stage.recording(cluster, nanoseconds=True):
            consumers = [
                stage.start(
                    library,
                    releases.CURRENT,
                    role="consume",
                    client_id=f"{group}-1",
                    topics=(topic,),
                    group=group,
                    config=config,
                )
                for group, library, topic, config in CONSUMERS
            ]
            producers = [
                stage.start(library, releases.CURRENT, role="produce", client_id=client_id, topics=(topic,),
                            records=240, per_second=16, burst=8, value_bytes=160, headers=True, config=config)
                for client_id, library, topic, config in PRODUCERS
            ]  # fmt: skip
            for producer in producers:
                producer.finish()
            time.sleep(2)  # the last records travel
            for consumer in consumers:
                consumer.leave()
