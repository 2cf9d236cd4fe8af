"""Exactly once: transactions that commit and abort, idempotent producers, and readers of what was
committed."""

from __future__ import annotations

import time

from tests.lab import releases
from tests.lab.cluster import KraftCluster
from tests.lab.stage import Stage

FILE = "transactions.pcapng"
TOLD = (
    "Transactional producers (Java, librdkafka) commit two of three transactions and abort the third. A "
    "Java client reads, transforms and commits offsets in one transaction. kafka-python and aiokafka "
    "produce idempotently. Consumers read committed and uncommitted records. `records` of a transactional "
    "producer counts committed ones."
)

TRANSACTORS = (
    ("bank-java", "java", {"transactional.id": "bank-java", "linger.ms": "20"}),
    ("bank-rdkafka", "librdkafka", {"transactional.id": "bank-rdkafka", "linger.ms": "20"}),
)
IDEMPOTENT = (
    ("audit-python", "kafka-python", {"enable_idempotence": "True", "linger_ms": "20"}),
    ("audit-aio", "aiokafka", {"enable_idempotence": "True", "linger_ms": "20"}),
    ("audit-rdkafka", "librdkafka", {"enable.idempotence": "true", "linger.ms": "20"}),
)
READERS = (
    ("committed-java", "java", {"isolation.level": "read_committed"}),
    ("committed-rdkafka", "librdkafka", {"isolation.level": "read_committed"}),
    ("uncommitted-rdkafka", "librdkafka", {"isolation.level": "read_uncommitted"}),
)


def record(stage: Stage) -> None:
    with KraftCluster(releases.CURRENT, 3, folder=stage.folder / "cluster") as cluster:
        stage.topics(cluster, {"transfers": 3, "booked": 3, "audit": 3})
        with stage.recording(cluster):
            readers = [
                stage.start(library, releases.CURRENT, role="consume", client_id=client_id, group=client_id,
                            topics=("transfers", "booked", "audit"), config=config)
                for client_id, library, config in READERS
            ]  # fmt: skip
            booking = stage.start(
                "java",
                releases.CURRENT,
                role="transform",
                client_id="booker",
                group="booker",
                topics=("transfers", "booked"),
                config={
                    "transactional.id": "booker",
                    "isolation.level": "read_committed",
                    "enable.auto.commit": "false",
                },
            )
            writers = [
                stage.start(
                    library,
                    releases.CURRENT,
                    role="transact",
                    client_id=client_id,
                    topics=("transfers",),
                    records=108,
                    per_second=12,
                    burst=6,
                    value_bytes=120,
                    config=config,
                )
                for client_id, library, config in TRANSACTORS
            ] + [
                stage.start(
                    library,
                    releases.CURRENT,
                    role="produce",
                    client_id=client_id,
                    topics=("audit",),
                    records=60,
                    per_second=6,
                    burst=5,
                    value_bytes=120,
                    config=config,
                )
                for client_id, library, config in IDEMPOTENT
            ]
            for writer in writers:
                writer.finish()
            time.sleep(4)
            booking.leave()
            time.sleep(2)
            for reader in readers:
                reader.leave()
