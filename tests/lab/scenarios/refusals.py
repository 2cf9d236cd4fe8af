"""Refusals and delays by a healthy broker: rights, quotas, a misspelt topic, harmed batches, a distrusted
certificate."""

from __future__ import annotations

from collections import Counter

import confluent_kafka.admin as admin

from tests.lab import broker_requests as wire
from tests.lab import releases, security
from tests.lab.middlebox import Middlebox, client_of
from tests.lab.security import Listener, tls
from tests.lab.stage import Stage

FILE = "refusals.pcapng"
TOLD = (
    "One broker. `intruder` may not write to its topic and `stranger` may not use its group (ACLs). "
    "`greedy` writes more than its quota allows, without compression. `misspelt` waits for a topic that "
    "does not exist. `mistrusting` does not know the authority that signed the broker's certificate (TLS "
    "1.2). A middlebox flips a bit in two batches of `flipped` and drops one request of `skipping`, an "
    "idempotent producer, so the broker reports a bad CRC and a gap in the sequence."
)
QUOTA = 20_000
LISTENERS = (Listener("BOX", "PLAINTEXT"), tls("SSL", "TLSv1.2"))
BROKER = {
    "auto.create.topics.enable": "false",
    "quota.window.num": "3",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
PRODUCE = 0
FLIPPED_BIT, BEFORE_END = 0x10, 40
IMPATIENT = {"linger.ms": "20", "retry.backoff.ms": "400", "retry.backoff.max.ms": "800"}

# client id, topic, how many records how fast, settings
PRODUCERS = (
    ("intruder", "payroll", 12, 4.0, 100, {"acks": "all"}),
    (
        "misspelt",
        "ledgre",
        1,
        4.0,
        100,
        {"message.timeout.ms": "7500", "topic.metadata.propagation.max.ms": "10000"},
    ),
    ("greedy", "events", 160, 40.0, 1000, {"acks": "all", "compression.type": "none", "linger.ms": "100"}),
    ("flipped", "notes", 24, 4.0, 100, {"acks": "all"}),
    ("skipping", "notes", 40, 4.0, 100, {"enable.idempotence": "true", "socket.timeout.ms": "4000"}),
)


class _Harm:
    """Counts the Produce requests of each client and harms some of them."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()
        self.done: Counter[str] = Counter()

    def __call__(self, frame: bytes) -> bytes | None:
        key, client = client_of(frame)
        if key != PRODUCE:
            return frame
        self._seen[client] += 1
        number = self._seen[client]
        if client == "skipping" and number == 4:
            self.done["requests that the middlebox swallowed"] += 1
            return None
        if client == "flipped" and number in (3, 8):
            self.done["requests in which the middlebox flipped a bit"] += 1
            at = len(frame) - BEFORE_END  # within the value of the last record
            return frame[:at] + bytes([frame[at] ^ FLIPPED_BIT]) + frame[at + 1 :]
        return frame


def _rules(bootstrap: str) -> None:
    def acl(
        kind: admin.ResourceType, name: str, operation: admin.AclOperation, *, allow: bool
    ) -> admin.AclBinding:
        rule = admin.AclPermissionType.ALLOW if allow else admin.AclPermissionType.DENY
        return admin.AclBinding(kind, name, admin.ResourcePatternType.LITERAL, "User:*", "*", operation, rule)

    client = admin.AdminClient({"bootstrap.servers": bootstrap})
    asked = client.create_acls(
        [
            acl(admin.ResourceType.TOPIC, "payroll", admin.AclOperation.DESCRIBE, allow=True),
            acl(admin.ResourceType.TOPIC, "payroll", admin.AclOperation.WRITE, allow=False),
            acl(admin.ResourceType.GROUP, "auditors", admin.AclOperation.DESCRIBE, allow=True),
            acl(admin.ResourceType.GROUP, "auditors", admin.AclOperation.READ, allow=False),
        ]
    )
    for done in asked.values():
        done.result(30)


def record(stage: Stage) -> None:
    cluster, ports = security.secured(stage.folder / "cluster", LISTENERS)
    (node,) = cluster.nodes
    (boxed,) = wire.free_ports(1)
    cluster.config |= BROKER
    cluster.config["advertised.listeners"] = cluster.config["advertised.listeners"].replace(
        f":{ports['BOX']}", f":{boxed}"
    )
    boxed_clients, harm = {"flipped", "skipping"}, _Harm()
    with cluster, Middlebox(boxed, ports["BOX"], harm):
        stage.topics(cluster, {"payroll": 1, "events": 1, "notes": 1})
        _rules(cluster.bootstrap)
        wire.limit(node.client_port, "greedy", QUOTA)
        with stage.recording(cluster, [node.client_port, *ports.values()]):
            writers = [
                stage.start(
                    "librdkafka",
                    releases.CURRENT,
                    role="produce",
                    client_id=client_id,
                    topics=(topic,),
                    records=records,
                    per_second=per_second,
                    value_bytes=size,
                    config=IMPATIENT | config,
                    bootstrap=f"127.0.0.1:{boxed if client_id in boxed_clients else node.client_port}",
                )
                for client_id, topic, records, per_second, size, config in PRODUCERS
            ]
            writers.append(
                stage.start(
                    "librdkafka",
                    role="produce",
                    client_id="mistrusting",
                    topics=("notes",),
                    records=1,
                    bootstrap=f"127.0.0.1:{ports['SSL']}",
                    config={
                        "security.protocol": "ssl",
                        "message.timeout.ms": "2000",
                        "reconnect.backoff.ms": "500",
                    },
                )
            )
            stranger = stage.start(
                "librdkafka", role="consume", client_id="stranger", group="auditors", topics=("events",),
                config={"retry.backoff.ms": "500"},
            )  # fmt: skip
            for writer in writers:
                writer.finish()
            stranger.leave()
        failed = node.child.output.read_text().count("(SSL handshake failed)")
        stage.noticed = {**harm.done, "TLS handshakes that failed in the broker's log": failed}
