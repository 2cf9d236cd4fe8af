"""Clients on listeners with TLS, one for each version and cipher suite that brokers choose; the secrets are
in the capture."""

from __future__ import annotations

import time

from tests.lab import releases, security
from tests.lab.certificates import certificate
from tests.lab.security import Listener, tls
from tests.lab.stage import Stage

FILE = "tls.pcapng"
TOLD = (
    "One broker with seven TLS listeners: TLS 1.3 and 1.2, with AES-GCM, ChaCha20-Poly1305 and AES-CBC. "
    "librdkafka, Java and kafka-python produce and consume. The key log of the broker is in the file."
)

# client id, library, listener
PRODUCERS = (
    ("rdkafka-13-256", "librdkafka", tls("T13A256", "TLSv1.3", "TLS_AES_256_GCM_SHA384")),
    ("java-13-128", "java", tls("T13A128", "TLSv1.3", "TLS_AES_128_GCM_SHA256")),
    ("python-13-chacha", "kafka-python", tls("T13CHACHA", "TLSv1.3", "TLS_CHACHA20_POLY1305_SHA256")),
    ("python-12-gcm", "kafka-python", tls("T12GCM", "TLSv1.2", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")),
    (
        "rdkafka-12-chacha",
        "librdkafka",
        tls("T12CHACHA", "TLSv1.2", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    ),
    ("rdkafka-12-cbc", "librdkafka", tls("T12CBC", "TLSv1.2", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA")),
)
READER = tls("T13", "TLSv1.3")


def settings(library: str, folder: str) -> dict[str, str]:
    """Return settings with which a client of a library trusts the broker's certificate."""
    return {
        "librdkafka": {"security.protocol": "ssl", "ssl.ca.location": folder},
        "java": {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": folder,
        },
        "kafka-python": {"security_protocol": "SSL", "ssl_cafile": folder},
    }[library]


def record(stage: Stage) -> None:
    listeners: list[Listener] = [*(listener for _, _, listener in PRODUCERS), READER]
    cluster, ports = security.secured(stage.folder / "cluster", listeners)
    trusted = str(certificate(cluster.folder))
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
                    bootstrap=f"127.0.0.1:{ports[listener.name]}",
                    records=16,
                    per_second=16,
                    burst=4,
                    value_bytes=160,
                    config=settings(library, trusted),
                )
                for client_id, library, listener in PRODUCERS
            ]
            reader = stage.start(
                "librdkafka", role="consume", client_id="rdkafka-reader", topics=("orders",), group="readers",
                bootstrap=f"127.0.0.1:{ports[READER.name]}",
                config={**settings("librdkafka", trusted), "fetch.wait.max.ms": "500"},
            )  # fmt: skip
            for client in clients:
                client.finish()
            time.sleep(2)  # the last records travel
            reader.leave()
    security.inject(cluster.folder / security.SECRETS, stage.capture)
