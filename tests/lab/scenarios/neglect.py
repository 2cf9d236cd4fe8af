"""Mistakes of clients on a healthy broker: fall behind, write too much at once, leave a transaction
open."""

from __future__ import annotations

import time

from tests.lab import releases
from tests.lab.cluster import KraftCluster
from tests.lab.stage import Stage

FILE = "neglect.pcapng"
TOLD = (
    "One broker. A consumer pauses after each record and falls behind its producer. The records of "
    "another producer are larger than their topic allows. A transactional producer is killed between its "
    "records and its commit, more than ten seconds before the end."
)
# Little is fetched ahead, so that what is not worked on is not read either.
SLOW = {"queued.min.messages": "1", "queued.max.messages.kbytes": "1", "fetch.message.max.bytes": "1500"}


def record(stage: Stage) -> None:
    with KraftCluster(releases.CURRENT, 1, folder=stage.folder / "cluster") as cluster:
        stage.topics(cluster, {"clicks": 2, "transfers": 1})
        stage.topics(cluster, {"notes": 1}, {"max.message.bytes": "2000"})
        with stage.recording(cluster):
            reader = stage.start(
                "librdkafka", role="consume", client_id="slow-reader", group="slow", topics=("clicks",),
                rest_ms=40.0, config=SLOW,
            )  # fmt: skip
            opened = stage.start(
                "librdkafka",
                role="transact",
                client_id="forgetful",
                topics=("transfers",),
                records=90,
                rest_ms=500.0,
                burst=100,
                config={"transactional.id": "forgetful", "linger.ms": "20"},
            )
            writers = [
                stage.start(
                    "librdkafka",
                    role="produce",
                    client_id="quick-writer",
                    topics=("clicks",),
                    records=1800,
                    per_second=120,
                    burst=24,
                    config={"compression.type": "zstd", "linger.ms": "50"},
                ),
                stage.start(
                    "librdkafka",
                    role="produce",
                    client_id="big-writer",
                    topics=("notes",),
                    records=6,
                    per_second=1,
                    value_bytes=5000,
                    config={"linger.ms": "5"},
                ),
            ]
            time.sleep(5)
            opened.child.kill()
            for writer in writers:
                writer.finish()
            time.sleep(4)
            reader.leave()
