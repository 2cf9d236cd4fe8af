"""Bad habits of clients: an id used twice, a connection for every question, fetches that do not wait."""

from __future__ import annotations

import time

from tests.lab import broker_requests as wire
from tests.lab import releases
from tests.lab.cluster import KraftCluster
from tests.lab.stage import Stage

FILE = "habits.pcapng"
TOLD = (
    "One broker. Two producers share a transactional id, so the second one fences the first. A health "
    "check opens a new connection for every request (client id `lab`). A consumer of an idle topic "
    "fetches again at once when there is nothing."
)
TRANSACTOR = {"transactional.id": "shared", "linger.ms": "20"}
HASTY = {"fetch.wait.max.ms": "1", "fetch.queue.backoff.ms": "1"}
CHECKS = 55


def record(stage: Stage) -> None:
    stage.whole = False  # the health checks keep no log
    with KraftCluster(releases.CURRENT, 1, folder=stage.folder / "cluster") as cluster:
        stage.topics(cluster, {"transfers": 1, "idle": 1})
        with stage.recording(cluster):
            first = stage.start(
                "librdkafka",
                role="transact",
                client_id="first",
                topics=("transfers",),
                records=60,
                rest_ms=300.0,
                burst=3,
                config=TRANSACTOR,
            )
            for _ in range(CHECKS):
                wire.view(cluster.client_ports[0])
                time.sleep(0.05)
            second = stage.start(
                "librdkafka",
                role="transact",
                client_id="second",
                topics=("transfers",),
                records=9,
                per_second=3,
                burst=3,
                config=TRANSACTOR,
            )
            second.finish()
            time.sleep(1)
            first.child.kill()
            hasty = stage.start(
                "librdkafka", role="consume", client_id="hasty", group="hasty", topics=("idle",), config=HASTY
            )
            stage.wait_until_reading([hasty])
            time.sleep(1)
            hasty.leave()
