"""A healthy broker behind a bad network: far away, and losing packets."""

from __future__ import annotations

import json

from tests.lab import releases
from tests.lab.cluster import KraftCluster
from tests.lab.rough_link import FAR, RoughLink, Roughness
from tests.lab.stage import Stage

FILE = "rough-link.pcapng"
TOLD = (
    "One broker and its clients in two network namespaces. The link between them takes 15 ms each way and "
    "loses 6 % of all packets. The capture is from the broker's end, so the broker's own time is short "
    "and the way to the clients is long."
)
LINK = Roughness(lost=0.06, doubled=0.0, late=0.05, delay_s=0.015, late_s=0.02)


def record(stage: Stage) -> None:
    with RoughLink(7, stage.folder / "link", LINK) as link, link.inside("far"):
        cluster = KraftCluster(releases.CURRENT, 1, folder=stage.folder / "cluster")
        (node,) = cluster.nodes
        internal, controller = (f"127.0.0.1:{port}" for port in (node.internal_port, node.controller_port))
        cluster.config |= {
            "listeners": (
                f"CLIENT://0.0.0.0:{node.client_port},INTERNAL://{internal},CONTROLLER://{controller}"
            ),
            "advertised.listeners": f"CLIENT://{FAR}:{node.client_port},INTERNAL://{internal}",
        }
        with cluster:
            stage.topics(cluster, {"orders": 1})
            with stage.recording(cluster, interface="far"), link.inside("near"):
                bootstrap = f"{FAR}:{node.client_port}"
                reader = stage.start(
                    "librdkafka", role="consume", client_id="far-reader", group="far", topics=("orders",),
                    bootstrap=bootstrap,
                )  # fmt: skip
                stage.wait_until_reading([reader])
                writer = stage.start(
                    "librdkafka", role="produce", client_id="far-writer", topics=("orders",), records=120,
                    per_second=20, bootstrap=bootstrap, config={"linger.ms": "0"},
                )  # fmt: skip
                writer.finish()
                reader.leave()
        counted = json.loads(link.stop(link.impaired))
        stage.noticed = {f"packets that the link {what}": counted[what] for what in ("lost", "passed")}
