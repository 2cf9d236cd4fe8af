"""One broker of two has a fraction of a processor, as on a crowded host."""

from __future__ import annotations

import threading
import time

from tests.lab import releases
from tests.lab.cluster import KraftCluster, Node
from tests.lab.stage import Stage

FILE = "limping.pcapng"
TOLD = (
    "Two brokers. One of them is stopped (SIGSTOP) for 45 of every 60 milliseconds, so requests to its "
    "partitions take many times as long as those to the other broker."
)
STOPPED_S, RUNNING_S = 0.045, 0.015


def _limp(node: Node, until: threading.Event) -> None:
    while not until.is_set():
        with node.paused():
            time.sleep(STOPPED_S)
        time.sleep(RUNNING_S)


def record(stage: Stage) -> None:
    with KraftCluster(releases.CURRENT, 2, folder=stage.folder / "cluster") as cluster:
        for name in ("left", "right"):  # one replica each: nobody waits for the other broker
            cluster.create_topic(name, 4, 1, {})
        recovered = threading.Event()
        limping = threading.Thread(target=_limp, args=(cluster.nodes[1], recovered), daemon=True)
        with stage.recording(cluster):
            limping.start()
            writer = stage.start(
                "librdkafka",
                role="produce",
                client_id="writer",
                topics=("left", "right"),
                records=480,
                per_second=60,
                value_bytes=60,
                config={"acks": "1", "linger.ms": "0", "batch.num.messages": "1"},
            )
            writer.finish()
            recovered.set()
            limping.join()
            time.sleep(1)
