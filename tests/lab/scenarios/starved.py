"""A capture that lost packets because tcpdump did not get the processor for a while."""

from __future__ import annotations

import time

from tests.lab import releases
from tests.lab.cluster import KraftCluster
from tests.lab.stage import Stage

FILE = "starved.pcapng"
TOLD = (
    "One broker with a healthy producer and a healthy consumer. tcpdump has a small buffer and is stopped "
    "(SIGSTOP) for two seconds, so the kernel drops packets. Brokers and clients know of all requests, "
    "the capture does not."
)


def record(stage: Stage) -> None:
    with KraftCluster(releases.CURRENT, 1, folder=stage.folder / "cluster") as cluster:
        stage.topics(cluster, {"orders": 1})
        with stage.recording(cluster, buffer_mib=4) as capture:
            reader = stage.start(
                "librdkafka", role="consume", client_id="reader", group="readers", topics=("orders",)
            )
            stage.wait_until_reading([reader])
            writer = stage.start(
                "librdkafka",
                role="produce",
                client_id="writer",
                topics=("orders",),
                records=90,
                per_second=10,
                value_bytes=200,
                config={"linger.ms": "5"},
            )
            time.sleep(3)
            with capture.starved():
                time.sleep(2)
            writer.finish()
            reader.leave()
