"""The target that replays go to.

A Kafka of today with two brokers, each with a plain and a secured listener.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.lab import broker_requests as wire
from tests.lab import releases
from tests.lab.certificates import certificate
from tests.lab.cluster import KraftCluster, Node
from tests.lab.maven import LabUnavailable, jars

USER, PASSWORD = "player", "correct horse"


class SecuredCluster(KraftCluster):
    """As the lab's cluster, with one more listener: SASL_SSL, PLAIN or SCRAM-SHA-256 or -512."""

    certificate: Path  # with its key, as one PEM file

    def add_scram_user(self, mechanism: str) -> None:
        """Permit the user to log in with SCRAM."""
        kind = getattr(ScramMechanism, mechanism.replace("-", "_"))
        change = UserScramCredentialUpsertion(USER, ScramCredentialInfo(kind, 4096), PASSWORD.encode())
        admin = AdminClient({"bootstrap.servers": self.bootstrap})  # has to outlive what it was asked
        for outcome in admin.alter_user_scram_credentials([change]).values():
            outcome.result(30)

    def _roles(self, node: Node, voters: str) -> dict[str, str]:
        settings = super()._roles(node, voters)
        (port,) = wire.free_ports(1)
        self.secure_ports = {**getattr(self, "secure_ports", {}), node.number: port}
        listener = f",SECURE://127.0.0.1:{port}"
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        front = "listener.name.secure"
        return settings | {
            "listeners": settings["listeners"] + listener,
            "advertised.listeners": settings["advertised.listeners"] + listener,
            "listener.security.protocol.map": settings["listener.security.protocol.map"] + ",SECURE:SASL_SSL",
            "broker.rack": f"rack-{node.number}",
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
            f"{front}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            f"{front}.plain.sasl.jaas.config": f'{plain} user_{USER}="{PASSWORD}";',
            f"{front}.scram-sha-256.sasl.jaas.config": scram,
            f"{front}.scram-sha-512.sasl.jaas.config": scram,
            f"{front}.ssl.keystore.type": "PEM",
            f"{front}.ssl.keystore.location": str(self.certificate),
        }


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    try:
        jars(releases.CURRENT)
        # One test kills a broker; leaders shall not move back at some time later, in another test. Captures
        # grow old, and what is replayed from them shall stay all the same.
        steady = {"auto.leader.rebalance.enable": "false", "log.retention.ms": "-1"}
        cluster = SecuredCluster(releases.CURRENT, brokers=2, request_log=False, config=steady)
    except LabUnavailable as absent:
        pytest.skip(str(absent))
    cluster.certificate = certificate(tmp_path_factory.mktemp("tls"), "ec")
    with cluster:
        yield cluster


@pytest.fixture(scope="session")
def authority(target: SecuredCluster) -> Path:
    """Return the file with the certificate that the target's listener has."""
    return target.certificate
