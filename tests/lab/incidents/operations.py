"""Operations by people and boxes on a running cluster: topics made anew, rights taken away, disks filled.

No rule was written with these in sight, as with those of `variants`."""

from __future__ import annotations

import contextlib
import subprocess
import time
from pathlib import Path

from confluent_kafka.admin import ResourcePatternType, ResourceType

from tests.lab.incidents.brokers import USERS, Broker
from tests.lab.incidents.groups import fed_topic
from tests.lab.incidents.requests import lone_producer
from tests.lab.incidents.scene import Scene, scenario
from tests.lab.incidents.servers import misadvertise
from tests.lab.security import PASSWORD, USER

STRICT = (
    ("listener.name.sasl.connections.max.reauth.ms", "8000"),
    ("group.max.size", "2"),
    ("listener.name.tls.ssl.client.auth", "required"),
    ("replica.selector.class", "org.apache.kafka.common.replica.RackAwareReplicaSelector"),
)
"""Settings of brokers that some of these need; one cluster serves them all."""

OWN_CLUSTER = (("log.cleaner.threads", "1"),)
"""The default, named so that a cluster is started for the scenario that harms it."""


# --- topics, rights, passwords, groups ---


@scenario("topic-recreated", twin_of="topic-deleted")
def topic_recreated(s: Scene) -> None:
    """Somebody deletes a topic that is in use, and creates it again under its name."""
    topic = s.topic(3)
    s.background(producers=2, consumers=1)
    for library in s.random.sample(("librdkafka", "java", "franz-go", "sarama"), 2):
        s.start("produce", library, topics=[topic], per_second=15)
    for library in s.random.sample(("librdkafka", "java", "franz-go"), 2):
        s.start("consume", library, topics=[topic])
    s.opening()
    s.wait(9, 11)
    s.blame("topic_recreated", {"kind": "topic", "name": topic}, [topic], accepted=["missing_topic"])
    s.brokers.delete_topics([topic])
    s.wait(1.5, 2.5)
    s.brokers.create_topic(topic, 3)
    s.ended()
    s.wait(12, 13)


@scenario("right-revoked", twin_of="missing-right")
def right_revoked(s: Scene) -> None:
    """Clients of one user work until the right to their topic is taken away."""
    topics, topic = s.background(producers=2, consumers=1), s.topic(3)
    bob = {
        "topics": [topic],
        "bootstrap": s.brokers.bootstrap("SASL"),
        "user": "bob",
        "password": USERS["bob"],
    }
    for library in s.random.sample(("librdkafka", "java", "franz-go", "sarama"), 2):
        s.start("produce", library, per_second=10, **bob)
    s.start("consume", s.pick("librdkafka", "java", "franz-go"), **bob)
    s.start("produce", topics=topics, per_second=5)
    s.opening()
    s.wait(9, 12)
    own = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL)
    s.blame("missing_right", {"kind": "topic", "name": topic, "user": "bob"}, [topic, "bob"])
    s.later(s.brokers.reserve(own, "User:alice"))
    s.wait(12, 14)


@scenario("password-rotated", settings=STRICT, place="hosts", twin_of="reauthentication")
def password_rotated(s: Scene) -> None:
    """A user's password is changed on the brokers; clients that log in again have the old one."""
    topics = s.background(producers=2, consumers=1)
    own = {"bootstrap": s.brokers.bootstrap("SASL"), "mechanism": "SCRAM-SHA-256", "topics": topics}
    login = {"user": USER, "password": PASSWORD}
    works = [
        s.start("produce", library, per_second=8, **own, **login)[0]
        for library in s.random.sample(("librdkafka", "java", "franz-go", "kafkajs"), 2)
    ]
    works.append(s.start("consume", "librdkafka", **own, **login)[0])
    s.opening()
    s.wait(11, 12)
    subject = {"kind": "user", "name": USER}
    names = [USER, *(work.client_id for work in works)]
    s.blame("wrong_password", subject, names, seen_later_s=9)
    s.later(s.brokers.set_scram_password, USER, PASSWORD)
    s.brokers.set_scram_password(USER, "a-newer-secret")
    s.wait(16, 17)


@scenario("group-full", settings=STRICT, place="hosts", twin_of="joins-and-leaves")
def group_full(s: Scene) -> None:
    """A group has as many members as the brokers allow, and one more wants to join."""
    topic, group = fed_topic(s), s.group()
    s.background(producers=1, consumers=1)
    library = s.pick("librdkafka", "franz-go", "java")
    for _ in range(2):
        s.start("consume", library, topics=[topic], group=group)
    s.opening()
    s.wait(10, 12)
    late, _ = s.start(
        "consume", s.pick("librdkafka", "franz-go", "sarama", "aiokafka"), topics=[topic], group=group
    )
    s.blame_started("group_full", late, also=[group])
    s.wait(14, 16)


# --- what clients ask for ---


@scenario("transaction-timeout-too-long", twin_of="transaction-timeout")
def transaction_timeout_too_long(s: Scene) -> None:
    """A producer wants transactions of an hour; the brokers allow a quarter of one."""
    topics = s.background(producers=2, consumers=1)
    s.opening()
    s.wait(9, 11)
    name = s.fresh(("tx", "ledger", "booking"), ("long", "night", "main"))
    wishing, _ = s.start(
        "transact",
        "librdkafka",
        topics=topics,
        transactional_id=name,
        extra={"transaction.timeout.ms": 3_600_000},
    )
    s.blame_started("transaction_timeout_too_long", wishing, also=[name])
    s.wait(13, 14)


@scenario("keyless-records", twin_of="invalid-timestamp")
def keyless_records(s: Scene) -> None:
    """A producer writes records without a key to a compacted topic, which refuses them."""
    topics, compacted = s.background(producers=1, consumers=1), s.topic(3, cleanup_policy="compact")
    s.start("produce", topics=[compacted], per_second=8)
    s.start("produce", topics=topics, per_second=5)
    s.opening()
    s.wait(9, 11)
    keyless, _ = s.start(
        "produce",
        s.pick("librdkafka", "aiokafka", "kafka-python"),
        topics=[compacted],
        per_second=4,
        keyless=True,
    )
    s.blame_started("invalid_record", keyless, also=[compacted])
    s.wait(14, 15)


@scenario("no-client-certificate", settings=STRICT, place="hosts", twin_of="tls-failure")
def no_client_certificate(s: Scene) -> None:
    """The listener wants a certificate of each client; one client trusts the brokers, and has none."""
    topics = s.background(producers=2, consumers=1)
    s.opening()
    s.wait(9, 11)
    trust = {"tls": True, "authority": str(s.brokers.certificate)}
    tls = s.brokers.bootstrap("TLS")
    library = s.pick("librdkafka", "franz-go", "java")
    failing, address = lone_producer(s, library, topics=topics, bootstrap=tls, **trust)
    s.blame_started("tls_failure", failing, also=[address], opened_to=s.place.ports("TLS"))
    s.wait(14, 15)


# --- servers and boxes ---


@scenario("follower-frozen", place="hosts", twin_of="broker-frozen")
def follower_frozen(s: Scene) -> None:
    """A broker that leads nothing stands still: writes of acks=all wait until it is given up."""
    broker, topics = s.broker(), [s.topic(6), s.topic(3)]
    broker.stop()
    broker.start()
    s.brokers.wait_until_listening(broker)
    s.brokers.ready()
    s.background(topics, producers=3, consumers=2)
    s.opening()
    s.wait(10, 12)
    s.later(broker.thaw)
    s.blame_broker("broker_frozen", broker, broker.freeze(), accepted=["follower_behind"])
    s.wait(10, 12)
    s.ended(broker.thaw())
    s.wait(6, 7)


@scenario("connection-resets", place="hosts", twin_of="idle-connection-dropped")
def connection_resets(s: Scene) -> None:
    """A box on the way of one host resets every connection that is older than some seconds."""
    way = s.way_to("c2")
    topics = s.background(producers=2, consumers=1)
    for role in ("produce", "produce", "consume"):
        s.start(
            role, s.pick("librdkafka", "franz-go", "java", "sarama"), host="c2", topics=topics, per_second=10
        )
    s.opening()
    s.wait(10, 12)
    address = s.place.address("c2")
    onset = way.set(reset_after_s=s.between(2.5, 3.5))
    subject = {"kind": "path", "host": address, "name": f"host {address}"}
    # The box counts from now on.
    s.blame("connections_reset", subject, [address], onset, seen_later_s=4)
    s.wait(14, 16)


@scenario("advertised-other-broker", place="loopback", twin_of="wrong-advertised-listener")
def advertised_other_broker(s: Scene) -> None:
    """A broker comes back from a restart and advertises the address of another broker."""
    broker = s.broker()
    other = s.pick(*(one for one in s.brokers.all if one is not broker))
    topics = s.background(producers=1, consumers=1)
    names = [f"broker {broker.number}", broker.address, other.address]
    misadvertise(s, broker, topics, other.address, names)
    for library in s.random.sample(("librdkafka", "java", "franz-go", "kafkajs", "sarama"), 3):
        s.start("produce", library, topics=topics, per_second=10)
    s.start("consume", topics=topics)
    s.wait(22, 24)


def on_small_disk(broker: Broker, free_bytes: int) -> Path:
    """Put the data of a broker that does not run on a disk with little room; return where it is mounted."""
    data = broker.folder / "data"
    aside = data.with_name("data-before")
    used = sum(file.stat().st_blocks * 512 for file in data.rglob("*") if file.is_file())
    data.rename(aside)
    data.mkdir()
    size = f"size={used + free_bytes}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(data)], check=True)
    subprocess.run(["cp", "-a", "--sparse=always", f"{aside}/.", str(data)], check=True)
    return data


def on_old_disk(data: Path) -> None:
    """Put the data back that a broker had before `on_small_disk`; it copies the rest from the others."""
    subprocess.run(["umount", "-l", str(data)], check=True)
    data.rmdir()
    data.with_name("data-before").rename(data)


@scenario("disk-full", settings=OWN_CLUSTER, place="hosts", twin_of="broker-killed")
def disk_full(s: Scene) -> None:
    """The disk of a broker fills up: it can write no more, and halts."""
    broker, topics = s.broker(), [s.topic(6), s.topic(3)]
    broker.stop()
    data = on_small_disk(broker, 60 << 20)
    s.later(on_old_disk, data)
    s.later(broker.kill)
    broker.start()
    s.brokers.wait_until_listening(broker)
    s.brokers.ready()
    s.brokers.elect_preferred(*topics)
    s.background(topics, producers=3, consumers=2)
    s.start("produce", "librdkafka", topics=topics, per_second=60, value_bytes=1000)
    s.opening()
    s.wait(10, 12)
    s.blame_broker("broker_killed", broker, accepted=["broker_stopped", "broker_down"])
    # The broker may take the last block, so writing ends with an error.
    with contextlib.suppress(OSError), (data / "filled").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))
    end = time.monotonic() + 20
    while broker.child.running and time.monotonic() < end:
        time.sleep(0.02)
    s.truth["onset_ns"] = time.time_ns()
    s.wait(12, 13)
