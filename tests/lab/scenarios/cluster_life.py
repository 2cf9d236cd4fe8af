"""The whole life of a small cluster, brokers among themselves included, and an operator who asks for
everything."""

from __future__ import annotations

import time

from tests.lab import releases
from tests.lab.cluster import KraftCluster
from tests.lab.stage import Stage

FILE = "cluster-life.pcapng"
TOLD = (
    "Three brokers from their first packet to their last, on all their listeners: votes, registrations, "
    "heartbeats, replication, transaction markers, forwarded requests. Meanwhile a Java admin client "
    "sends nearly every kind of request (many are refused), and a transactional producer, a share "
    "consumer and a KIP-848 consumer work. Requests in flight when a broker ends are in no log, so the "
    "counts are lower bounds."
)

_BROKER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "lab",
    # Fewer idle polls between the brokers: the capture stays small.
    "replica.fetch.wait.max.ms": "2000",
    "broker.heartbeat.interval.ms": "2000",
}


def record(stage: Stage) -> None:
    stage.whole = False
    cluster = KraftCluster(releases.CURRENT, 3, _BROKER, folder=stage.folder / "cluster")
    with stage.recording(cluster, cluster.all_ports), cluster:
        stage.topics(cluster, {"orders": 2})
        members = [
            stage.start("java", releases.CURRENT, role="share", client_id="sharer", group="sharers",
                        topics=("orders",)),
            stage.start("librdkafka", role="consume", client_id="reader", group="readers", topics=("orders",),
                        config={"group.protocol": "consumer"}),
        ]  # fmt: skip
        stage.wait_until_reading(members)
        stage.start(
            "java", releases.CURRENT, role="transact", client_id="bank", topics=("orders",), records=24,
            per_second=12, burst=4, value_bytes=80, config={"transactional.id": "bank"},
        ).finish()  # fmt: skip
        stage.start(
            "java", releases.CURRENT, role="administer", client_id="operator", topics=("orders", "passing"),
            group="readers",
        ).finish()  # fmt: skip
        time.sleep(1)
        for member in members:
            member.leave()
        cluster.stop()
