"""Listeners with TLS and SASL on a cluster of one broker, and the key log of the broker's TLS sessions.

A Java agent in the broker writes the secrets of every session, whoever the client is; `inject` puts them into
a pcapng file as its decryption-secrets block. Users and their passwords are made up, and stand in the
captures as any real one would.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab import broker_requests as wire
from tests.lab.certificates import certificate
from tests.lab.cluster import KraftCluster
from tests.lab.maven import Release, jars
from tests.lab.process import SMALL_JVM
from tests.lab.releases import CURRENT

AGENT = Release("extract-tls-secrets-4.0.0", ("name.neykov:extract-tls-secrets:4.0.0",), ("com.sun:tools",))
TLS_KEY_LOG = 0x544C534B
SECRETS = "tls-secrets.log"  # in the folder of the cluster: the broker's key log
USER, PASSWORD = "alice", "correct-horse-battery"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
JAAS = {
    "plain": f'{_PLAIN} required username="{USER}" password="{PASSWORD}" user_{USER}="{PASSWORD}";',
    "scram-sha-256": f'{_SCRAM} required username="{USER}" password="{PASSWORD}";',
    "scram-sha-512": f'{_SCRAM} required username="{USER}" password="{PASSWORD}";',
    "oauthbearer": f'{_OAUTH} required unsecuredLoginStringClaim_sub="{USER}";',
}
SCRAM_USERS = tuple(
    word
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    for word in ("--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]")
)


@dataclass(frozen=True, slots=True)
class Listener:
    """One listener: SSL, SASL_PLAINTEXT or SASL_SSL, and what is said of it in the broker's own words."""

    name: str
    protocol: str
    config: Mapping[str, str] = field(default_factory=dict)


def tls(name: str, version: str, suite: str = "", protocol: str = "SSL", **more: str) -> Listener:
    """A listener with one version of TLS, and with one cipher suite if that is named."""
    config = {"ssl.enabled.protocols": version, "ssl.protocol": version, **more}
    return Listener(name, protocol, {**config, "ssl.cipher.suites": suite} if suite else config)


def secured(folder: Path, listeners: Sequence[Listener]) -> tuple[KraftCluster, dict[str, int]]:
    """Return a cluster of one broker, not started, with more listeners, and their ports by name."""
    (agent,) = jars(AGENT).glob("extract-tls-secrets-*.jar")
    jvm = (*SMALL_JVM, f"-javaagent:{agent}={folder / SECRETS}")
    cluster = KraftCluster(CURRENT, brokers=1, folder=folder, jvm=jvm)
    (node,) = cluster.nodes
    ports = dict(zip((each.name for each in listeners), wire.free_ports(len(listeners)), strict=True))
    own = {"CLIENT": node.client_port, "INTERNAL": node.internal_port}
    addresses = ",".join(f"{name}://127.0.0.1:{port}" for name, port in {**own, **ports}.items())
    protocols = {
        **dict.fromkeys((*own, "CONTROLLER"), "PLAINTEXT"),
        **{each.name: each.protocol for each in listeners},
    }
    cluster.config |= {
        "listeners": f"{addresses},CONTROLLER://127.0.0.1:{node.controller_port}",
        "advertised.listeners": addresses,
        "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in protocols.items()),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificate(cluster.folder)),
    }
    for each in listeners:
        prefix = f"listener.name.{each.name.lower()}."
        cluster.config |= {prefix + name: value for name, value in each.config.items()}
        if each.protocol.startswith("SASL"):
            cluster.config[prefix + "sasl.enabled.mechanisms"] = ",".join(JAAS).upper()
            cluster.config |= {f"{prefix}{name}.sasl.jaas.config": text for name, text in JAAS.items()}
    cluster.format_arguments = SCRAM_USERS
    return cluster, ports


def inject(secrets: Path, capture: Path) -> None:
    """Put a key log into a pcapng capture of this machine's byte order, behind the description of its
    interface.

    editcap would put it in front of that; then Wireshark's own tools cannot convert the file any more.
    """
    text, whole = secrets.read_bytes(), capture.read_bytes()
    at = 0
    for _ in ("section", "interface"):
        at += struct.unpack_from("=I", whole, at + 4)[0]
    padded = text + bytes(-len(text) % 4)
    length = struct.pack("=I", 20 + len(padded))
    block = struct.pack("=I", 10) + length + struct.pack("=II", TLS_KEY_LOG, len(text)) + padded + length
    capture.write_bytes(whole[:at] + block + whole[at:])
