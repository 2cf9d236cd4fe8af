"""Incidents of what clients ask for: refused, too much, too often, too small, or on one partition."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka.admin import ResourcePatternType, ResourceType

from tests.lab.incidents.brokers import USERS
from tests.lab.incidents.first_packet import Mark
from tests.lab.incidents.scene import Scene, scenario
from tests.lab.incidents.work import Work
from tests.lab.releases import CURRENT, EARLIER


@scenario("wrong-password")
def wrong_password(s: Scene) -> None:
    topics = s.background(producers=1, consumers=1)
    sasl = s.brokers.bootstrap("SASL")
    s.start(
        "produce",
        s.pick("librdkafka", "franz-go", "java", "kafkajs"),
        topics=topics,
        bootstrap=sasl,
        user="alice",
        password=USERS["alice"],
        per_second=10,
    )
    s.opening()
    s.wait(9, 12)
    mechanism = s.pick("PLAIN", "SCRAM-SHA-256")
    wrong, _ = s.start(
        "produce",
        s.pick("librdkafka", "franz-go", "java", "aiokafka", "kafkajs"),
        topics=topics,
        bootstrap=sasl,
        user="bob",
        password="password1",
        mechanism=mechanism,
        per_second=10,
    )
    s.blame_started("wrong_password", wrong, also=["bob"], mechanism=mechanism)
    s.wait(15, 17)


@scenario("missing-right", twin_of="missing-topic")
def missing_right(s: Scene) -> None:
    """The topic belongs to alice; bob may not use it."""
    topics = s.background(producers=1, consumers=1)
    private = s.topic()
    own = (ResourceType.TOPIC, private, ResourcePatternType.LITERAL)
    s.later(s.brokers.reserve(own, "User:alice"))
    sasl = s.brokers.bootstrap("SASL")
    s.start("produce", "librdkafka", topics=[private], bootstrap=sasl, user="alice", password=USERS["alice"])
    s.opening()
    s.wait(9, 12)
    role = s.pick("produce", "consume")
    libraries = (
        ("librdkafka", "franz-go", "java", "sarama")
        if role == "produce"
        else ("librdkafka", "java", "franz-go")
    )
    barred, _ = s.start(
        role,
        s.pick(*libraries),
        topics=[private],
        bootstrap=sasl,
        user="bob",
        password=USERS["bob"],
        per_second=8,
    )
    s.start("produce", topics=topics, per_second=5)
    s.blame_started("missing_right", barred, also=["bob", private])
    s.wait(15, 17)


@scenario("quota", twin_of="broker-slow")
def quota(s: Scene) -> None:
    """A client sends more than its quota allows, which is set in the middle."""
    topics = s.background(producers=1, consumers=2)
    greedy, _ = s.start(
        "produce",
        s.pick("librdkafka", "java", "franz-go", "sarama"),
        topics=topics,
        per_second=120,
        value_bytes=500,
        linger_ms=30,
    )
    s.opening()
    s.wait(9, 12)
    s.brokers.limit_client(greedy.client_id, s.pick(4_000, 6_000))
    # The broker measures from now on, over windows of a second; it delays no response before 2.0 to 2.6 s.
    s.blame_client("quota", greedy, seen_later_s=3)
    s.wait(16, 18)


@scenario("record-too-large")
def record_too_large(s: Scene) -> None:
    """Records are larger than the topic allows."""
    topics = s.background(producers=2, consumers=1)
    small = s.topic(max_message_bytes=5_000)
    s.start("produce", topics=[small], per_second=8)
    s.opening()
    s.wait(9, 12)
    large, _ = s.start(
        "produce",
        s.pick("librdkafka", "franz-go", "java", "kafka-python", "sarama", "kafkajs"),
        topics=[small],
        value_bytes=9_000,
        per_second=2,
    )
    s.blame_started("record_too_large", large, also=[small])
    s.start("produce", topics=topics, per_second=5)
    s.wait(15, 17)


@scenario("missing-topic", twin_of="missing-right")
def missing_topic(s: Scene) -> None:
    """A client uses the name of a topic that is not there: one letter is wrong."""
    topics = s.background(producers=1, consumers=1)
    real = s.topic()
    s.start("produce", topics=[real], per_second=10)
    s.start("consume", topics=[real])
    s.opening()
    s.wait(9, 12)
    position = s.random.randrange(2, len(real.split("-")[0]))
    misspelt = real[:position] + real[position + 1 :]
    role = s.pick("produce", "consume")
    lost, _ = s.start(
        role, s.pick("librdkafka", "franz-go", "java", "sarama"), topics=[misspelt], per_second=5
    )
    s.blame_started("missing_topic", lost, also=[misspelt], meant=real)
    s.start("produce", topics=topics, per_second=5)
    s.wait(15, 17)


@scenario("offset-out-of-range")
def offset_out_of_range(s: Scene) -> None:
    """The records that a group wants to go on with were deleted."""
    topic, group = s.topic(partitions=3), s.group()
    s.background(producers=1, consumers=1)
    filler = s.start("produce", "librdkafka", topics=[topic], per_second=100, burst=20)
    reader = s.start("consume", "librdkafka", topics=[topic], group=group)
    s.wait(7)
    s.stop(reader)
    s.wait(3)
    s.opening(0)
    s.wait(6, 8)
    s.brokers.delete_records(topic)
    s.wait(1)
    library = s.pick("librdkafka", "java", "franz-go")
    late, _ = s.start("consume", library, topics=[topic], group=group, reset="earliest")
    s.blame_started("offset_out_of_range", late, also=[group, topic])
    s.wait(13, 15)
    s.stop(filler)


@scenario("poison-record")
def poison_record(s: Scene) -> None:
    """A consumer fails at one record and begins again at it, again and again."""
    topic, group = s.topic(partitions=1), s.group()
    s.background(producers=2, consumers=1)
    s.start("produce", topics=[topic], per_second=5)
    s.opening()
    s.wait(8, 10)
    broken, _ = s.start(
        "consume", "librdkafka", topics=[topic], group=group, poison_after=s.random.randint(10, 25), rest_ms=5
    )
    s.blame_started("poison_record", broken, also=[group, topic])
    s.wait(17, 19)


@scenario("invalid-timestamp")
def invalid_timestamp(s: Scene) -> None:
    """A host's clock is days ahead: its records are refused."""
    topics = s.background(producers=2, consumers=1)
    s.opening()
    s.wait(9, 12)
    ahead, _ = s.start(
        "produce",
        s.pick("librdkafka", "franz-go", "kafka-python", "sarama", "kafkajs"),
        topics=topics,
        per_second=4,
        timestamp_offset_ms=3 * 86_400_000,
    )
    s.blame_started("invalid_timestamp", ahead)
    s.wait(15, 17)


@scenario("metadata-storm", twin_of="admin-lists")
def metadata_storm(s: Scene) -> None:
    """A client asks for all metadata as fast as it can."""
    s.background(producers=2, consumers=1)
    for _ in range(6):
        s.topic(6)
    s.opening()
    s.wait(10, 12)
    # franz-go keeps what it was told for five seconds.
    asking, _ = s.start("list", s.pick("librdkafka", "kafkajs", "sarama"), per_second=90)
    s.blame_started("metadata_storm", asking)
    s.wait(13, 15)


@scenario("connection-storm", twin_of="batch-job")
def connection_storm(s: Scene) -> None:
    """A client opens a producer for each record."""
    topics = s.background(producers=2, consumers=1)
    s.opening()
    s.wait(10, 12)
    opening, _ = s.start("connect", s.pick("librdkafka", "franz-go", "sarama"), topics=topics, per_second=12)
    s.blame_started("connection_storm", opening)
    s.wait(13, 15)


@scenario("retry-storm", twin_of="too-few-in-sync-replicas")
def retry_storm(s: Scene) -> None:
    """A topic cannot take writes of acks=all, and a client tries again every few milliseconds."""
    s.background(producers=2, consumers=1)
    topic = s.topic(3, replicas=2, min_insync_replicas=2)
    storming, _ = s.start(
        "produce",
        "librdkafka",
        topics=[topic],
        per_second=20,
        extra={"retry.backoff.ms": 5, "retry.backoff.max.ms": 10, "message.send.max.retries": 1_000_000},
    )
    s.opening()
    s.wait(10, 12)
    broker = s.broker()  # each is a replica of two of the three partitions
    onset, accepted = time.time_ns(), ["too_few_in_sync_replicas", "broker_stopped"]
    broker.stop()
    names = [topic, broker.address, f"broker {broker.number}"]
    s.blame_client("retry_storm", storming, onset, also=names, accepted=accepted)
    s.wait(13, 15)


@scenario("tiny-batches", twin_of="steady")
def tiny_batches(s: Scene) -> None:
    """A producer sends one small record in each request, hundreds a second."""
    topics = s.background(producers=2, consumers=1)
    s.opening()
    s.wait(9, 11)
    tiny, _ = s.start(
        "produce",
        "librdkafka",
        topics=topics,
        per_second=s.pick(200, 300),
        value_bytes=40,
        linger_ms=0,
        acks="1",
        extra={"batch.num.messages": 1},
    )
    s.blame_started("tiny_batches", tiny)
    s.wait(14, 16)


@scenario("hot-partition", twin_of="burst")
def hot_partition(s: Scene) -> None:
    """Nearly all records have one key, so one partition takes nearly all bytes."""
    topic = s.topic(6)
    s.background(producers=1, consumers=1)
    s.start("produce", topics=[topic], per_second=5, value_bytes=100)
    hot, _ = s.start(
        "produce",
        s.pick("librdkafka", "franz-go", "java", "sarama"),
        topics=[topic],
        per_second=60,
        value_bytes=1200,
        key=s.pick("tenant-1", "null", "unknown", "acme"),
        linger_ms=20,
    )
    s.start("consume", topics=[topic])
    s.opening(2)
    subject = {"kind": "partition", "topic": topic, "name": topic}
    s.blame("hot_partition", subject, [topic, hot.client_id], s.truth["begin_ns"])
    s.wait(27, 30)


@scenario("deployment", twin_of="rolling-deployment")
def deployment(s: Scene) -> None:
    """A new version of a service is rolled out, and from then on its requests are worse."""
    topics = s.background(producers=1, consumers=1)
    service, group = s.fresh(("checkout", "basket", "gateway", "tracker"), ("svc", "api")), s.group()
    hosts = [s.host() for _ in range(3)]
    names = [f"{service}-{n}" for n in range(3)]
    if s.pick("go", "java") == "go":
        old, new = {"version": "1.4.0", "name": service}, {"version": "1.5.0", "name": service}
        library, releases = "franz-go", (CURRENT, CURRENT)
    else:
        old, new, library, releases = {}, {}, "java", (EARLIER, CURRENT)
    good = {"topics": topics, "per_second": 60, "linger_ms": 50, "value_bytes": 150, "burst": 5, **old}
    running = [
        s.start("produce", library, host, releases[0], client_id=name, **good)
        for name, host in zip(names, hosts, strict=True)
    ]
    s.start("consume", topics=topics, group=group)
    s.opening()
    s.wait(11, 13)
    bad = good | {"linger_ms": 0, "burst": 1, "per_second": 90} | new
    s.blame("deployment", {"kind": "client", "name": service, "from": old, "to": new}, [service, *names])
    software = (new.get("version", releases[1].version), new.get("name", "apache-kafka-java"))
    s.shown_by = Mark((service, *software))
    for number, client in enumerate(running):
        s.stop(client)
        s.start("produce", library, hosts[number], releases[1], client_id=names[number], **bad)
        s.wait(1)
    s.wait(13, 15)


@scenario("unsupported-version")
def unsupported_version(s: Scene) -> None:
    """A client of the ZooKeeper era speaks versions that the broker does not know any more."""
    topics = s.background(producers=2, consumers=1)
    s.opening()
    s.wait(9, 12)
    if s.seed % 2:
        old, _ = s.start("produce", "sarama", topics=topics, version="0.9.0.1", per_second=5)
    else:
        old, _ = s.start(
            "produce",
            "librdkafka",
            topics=topics,
            per_second=5,
            extra={"api.version.request": False, "broker.version.fallback": "0.9.0"},
        )
    s.blame_started("unsupported_version", old, also=[s.clients[-1][0].client_id])
    s.wait(14, 16)


def lone_producer(s: Scene, library: str, **fields: Any) -> tuple[Work, str]:
    """Start a producer that shares its host with nobody; return it and the address of the host."""
    host = "c5" if s.on_hosts else "local"
    work, _ = s.start("produce", library, host, per_second=5, **fields)
    return work, s.place.address(host)


@scenario("tls-failure")
def tls_failure(s: Scene) -> None:
    """A client does not trust the certificate of the brokers."""
    topics = s.background(producers=1, consumers=1)
    tls = s.brokers.bootstrap("TLS")
    s.start(
        "produce",
        "librdkafka",
        topics=topics,
        bootstrap=tls,
        tls=True,
        authority=str(s.brokers.certificate),
        per_second=5,
    )
    s.opening()
    s.wait(9, 12)
    library = s.pick("librdkafka", "franz-go", "java", "kafkajs", "aiokafka", "sarama")
    failing, address = lone_producer(s, library, topics=topics, bootstrap=tls, tls=True)
    s.blame_started("tls_failure", failing, also=[address], opened_to=s.place.ports("TLS"))
    s.wait(15, 17)


@scenario("plaintext-to-tls", twin_of="tls-failure")
def plaintext_to_tls(s: Scene) -> None:
    """A client without TLS talks to the listener that wants it."""
    topics = s.background(producers=1, consumers=1)
    s.opening()
    s.wait(9, 12)
    library = s.pick("librdkafka", "franz-go", "java", "sarama")
    plain, address = lone_producer(s, library, topics=topics, bootstrap=s.brokers.bootstrap("TLS"))
    s.blame_started("tls_failure", plain, also=[address], opened_to=s.place.ports("TLS"))
    s.wait(14, 16)
