"""Clients that prove who they are, by every mechanism that needs no other server, and some that fail to."""

from __future__ import annotations

import time

from tests.lab import releases, security
from tests.lab.certificates import certificate
from tests.lab.security import Listener, tls
from tests.lab.stage import Stage

FILE = "sasl.pcapng"
TOLD = (
    "One broker with SASL on a listener without TLS: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER "
    "with librdkafka, Java, kafka-python and aiokafka. Sessions end after four seconds, so clients "
    "authenticate again. Three clients have a wrong password, with PLAIN and both SCRAM mechanisms. One "
    "client uses SCRAM within TLS, and its keys are in the file."
)
LISTENERS = (
    Listener("SASL", "SASL_PLAINTEXT", {"connections.max.reauth.ms": "4000"}),
    tls("SASLTLS", "TLSv1.3", protocol="SASL_SSL"),
)
WRONG = "not-the-password"


def _rdkafka(mechanism: str, password: str = security.PASSWORD) -> dict[str, str]:
    return {
        "security.protocol": "sasl_plaintext", "sasl.mechanism": mechanism,
        "sasl.username": security.USER, "sasl.password": password,
    }  # fmt: skip


def _java(mechanism: str) -> dict[str, str]:
    jaas = security.JAAS[mechanism.lower()]
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


def _python(mechanism: str) -> dict[str, str]:
    return {
        "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism,
        "sasl_plain_username": security.USER, "sasl_plain_password": security.PASSWORD,
    }  # fmt: skip


OAUTH = {
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": "OAUTHBEARER",
    "enable.sasl.oauthbearer.unsecure.jwt": "true",
    "sasl.oauthbearer.config": f"principal={security.USER}",
}
PRODUCERS = (
    ("rdkafka-scram-256", "librdkafka", _rdkafka("SCRAM-SHA-256")),
    ("rdkafka-oauth", "librdkafka", OAUTH),
    ("java-scram-512", "java", _java("SCRAM-SHA-512")),
    ("java-oauth", "java", _java("OAUTHBEARER")),
    ("python-plain", "kafka-python", _python("PLAIN")),
    ("aio-scram-256", "aiokafka", _python("SCRAM-SHA-256")),
)
REFUSED = tuple(
    (
        f"wrong-{mechanism.lower()}",
        {**_rdkafka(mechanism, WRONG), "message.timeout.ms": "2000", "reconnect.backoff.ms": "500"},
    )
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
)


def record(stage: Stage) -> None:
    cluster, ports = security.secured(stage.folder / "cluster", LISTENERS)
    bootstrap, protected = (f"127.0.0.1:{ports[listener.name]}" for listener in LISTENERS)
    over_tls = {
        **_rdkafka("SCRAM-SHA-512"),
        "security.protocol": "sasl_ssl",
        "ssl.ca.location": str(certificate(cluster.folder)),
    }
    with cluster:
        stage.topics(cluster, {"orders": 2})
        with stage.recording(cluster, list(ports.values()), nanoseconds=True):
            clients = [
                stage.start(
                    library,
                    releases.CURRENT,
                    role="produce",
                    client_id=client_id,
                    topics=("orders",),
                    bootstrap=bootstrap,
                    records=40,
                    per_second=4,
                    burst=4,
                    value_bytes=160,
                    config=config,
                )
                for client_id, library, config in PRODUCERS
            ]
            clients.append(
                stage.start("librdkafka", role="produce", client_id="rdkafka-over-tls", topics=("orders",),
                            bootstrap=protected, records=8, per_second=4, burst=4, config=over_tls)
            )  # fmt: skip
            refused = [
                stage.start("librdkafka", role="produce", client_id=client_id, topics=("orders",),
                            bootstrap=bootstrap, records=1, config=config)
                for client_id, config in REFUSED
            ]  # fmt: skip
            for client in (*clients, *refused):
                client.finish()
            time.sleep(1)
        stage.answered_unlogged |= set(ports.values())
    security.inject(cluster.folder / security.SECRETS, stage.capture)
