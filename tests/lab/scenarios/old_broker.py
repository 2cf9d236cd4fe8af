"""A cluster of the ZooKeeper era with clients of its time: message formats 0 and 1, and the oldest API
versions."""

from __future__ import annotations

import time

from tests.lab import releases
from tests.lab.cluster import ZookeeperCluster
from tests.lab.maven import Release
from tests.lab.stage import Stage

FILE = "old-broker.pcap"
TOLD = (
    "Brokers of Kafka 0.10.2.2 with Java clients of 0.8.2.2, 0.9.0.1 and 0.10.2.2, librdkafka configured "
    "for a 0.9 broker, and current librdkafka and kafka-python. Topic `ancient` keeps message format 0, "
    "topic `old` format 1. Message sets are plain, gzip, snappy and lz4 (format 0 with its wrong lz4 "
    "header checksum)."
)

_NO_QUESTIONS = {"api.version.request": "false", "broker.version.fallback": "0.9.0"}
# client id, library, release, topic, settings
PRODUCERS = (
    ("java-0.8-plain", "java", releases.OLDEST, "ancient", {"acks": "1", "linger.ms": "50"}),
    ("java-0.8-gzip", "java", releases.OLDEST, "ancient", {"compression.type": "gzip", "linger.ms": "50"}),
    (
        "java-0.9-snappy",
        "java",
        releases.OLDER,
        "ancient",
        {"compression.type": "snappy", "acks": "all", "linger.ms": "50"},
    ),
    (
        "rdkafka-0.9-lz4",
        "librdkafka",
        None,
        "ancient",
        _NO_QUESTIONS | {"compression.type": "lz4", "acks": "1"},
    ),
    (
        "java-0.10-gzip",
        "java",
        releases.OLD,
        "old",
        {"compression.type": "gzip", "acks": "all", "linger.ms": "50"},
    ),
    ("java-0.10-plain", "java", releases.OLD, "old", {"acks": "0", "linger.ms": "50"}),
    ("rdkafka-snappy", "librdkafka", None, "old", {"compression.type": "snappy", "acks": "all"}),
    (
        "python-lz4",
        "kafka-python",
        None,
        "old",
        {"compression_type": "lz4", "acks": "1", "linger_ms": "50", "enable_idempotence": "False"},
    ),
)
_ALL = ("ancient", "old")
CONSUMERS: tuple[tuple[str, str, Release | None, tuple[str, ...], dict[str, str]], ...] = (
    ("java-0.9-reader", "java", releases.OLDER, _ALL, {"session.timeout.ms": "10000"}),
    ("java-0.10-reader", "java", releases.OLD, _ALL, {"session.timeout.ms": "10000"}),
    ("rdkafka-0.9-reader", "librdkafka", None, _ALL, _NO_QUESTIONS),
    ("rdkafka-reader", "librdkafka", None, _ALL, {}),
    # kafka-python reads the old lz4 framing only with a package that is not at hand.
    ("python-reader", "kafka-python", None, ("old",), {"session_timeout_ms": "10000"}),
)


def record(stage: Stage) -> None:
    with ZookeeperCluster(releases.OLD, 2, folder=stage.folder / "cluster") as cluster:
        cluster.create_topic("ancient", 2, 2, {"message.format.version": "0.9.0"})
        cluster.create_topic("old", 2, 2, {})
        with stage.recording(cluster):
            readers = [
                stage.start(library, release, role="consume", client_id=client_id, topics=topics,
                            group=client_id, config=config)
                for client_id, library, release, topics, config in CONSUMERS
            ]  # fmt: skip
            writers = [
                stage.start(
                    library,
                    release,
                    role="produce",
                    client_id=client_id,
                    topics=(topic,),
                    records=84,
                    per_second=12,
                    burst=6,
                    value_bytes=160,
                    config=config,
                )
                for client_id, library, release, topic, config in PRODUCERS
            ]
            for writer in writers:
                writer.finish()
            time.sleep(3)
            for reader in readers:
                reader.leave()
