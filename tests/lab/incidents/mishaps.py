"""Mishaps of kinds that no other module has: limits of whole listeners, damaged records, errands of tools.

No rule was written with these in sight, as with those of `variants`."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any

from confluent_kafka.admin import ResourcePatternType, ResourceType

from tests.lab.incidents.brokers import USERS
from tests.lab.incidents.first_packet import Mark
from tests.lab.incidents.groups import fed_topic
from tests.lab.incidents.paths import blame_path
from tests.lab.incidents.requests import lone_producer
from tests.lab.incidents.scene import Scene, scenario
from tests.lab.process import Child


def send_on(s: Scene, name: str, **arguments: Any) -> tuple[str, Child]:
    """Start a client that does an errand; return its client id and its process."""
    client_id, host = s.client_id(), s.host()
    arguments = {"bootstrap": s.brokers.bootstrap("CLIENT"), "client_id": client_id} | arguments
    command = [sys.executable, "-m", "tests.lab.incidents.errand", name, json.dumps(arguments)]
    log = s.folder / f"{client_id}.log"
    child = Child(client_id, [*s.place.command(host), *command], log, patience=10).start()
    s.later(child.kill)
    about = {"client_id": client_id, "library": name, "role": "errand", "host": s.place.address(host)}
    s.truth.setdefault("clients", []).append(about)
    return client_id, child


def blame_errand(s: Scene, cause: str, client_id: str, also: list[str], **more: Any) -> None:
    """Note that a client does harm from its first request on."""
    s.blame(cause, {"kind": "client", "name": client_id}, [client_id, *also], **more)
    s.shown_by = Mark((client_id,))


# --- limits of brokers ---


@scenario("connections-full", place="loopback", twin_of="connection-limit")
def connections_full(s: Scene) -> None:
    """A listener has as many connections as it may have: it accepts no more, and closes none."""
    topics = s.background(producers=1, consumers=1)
    s.opening(6)
    s.wait(9, 11)
    names = [name for b in s.brokers.all for name in (b.address, f"broker {b.number}")]
    for broker in s.brokers.all:
        number = str(broker.number)
        s.later(partial(s.brokers.configure, "broker", number, listener_name_client_max_connections=""))
        s.brokers.configure("broker", number, listener_name_client_max_connections=6)
    works = [s.start("produce", library, topics=topics, per_second=8)[0]
             for library in ("librdkafka", "java", "franz-go", "sarama", "aiokafka")]  # fmt: skip
    names += [work.client_id for work in works]
    accepted = ["connection_limit"]
    s.blame("connections_full", {"kind": "cluster", "name": "all brokers"}, names, accepted=accepted)
    s.wait(22, 24)


@scenario("topics-throttled", twin_of="quota")
def topics_throttled(s: Scene) -> None:
    """A tool creates topics faster than its quota of changes allows."""
    s.background(producers=2, consumers=1)
    s.opening()
    s.wait(9, 11)
    prefix = s.fresh(("tenant", "shard", "tmp"), ("eu", "us", "asia"))
    s.topics += [f"{prefix}-{number}" for number in range(20)]
    client_id, _ = send_on(s, "create_topics", prefix=prefix, partitions=10, replicas=1, pause_s=0.7)
    s.brokers.limit_changes(client_id, 1)
    blame_errand(s, "quota", client_id, [prefix], seen_later_s=4)
    s.wait(16, 18)


# --- what tools ask for ---


@scenario("replication-factor-refused", twin_of="too-few-in-sync-replicas")
def replication_factor_refused(s: Scene) -> None:
    """A job wants a topic with five replicas, on three brokers, and tries again and again."""
    s.background(producers=2, consumers=1)
    s.opening()
    s.wait(9, 11)
    prefix = s.fresh(("tenant", "shard", "tmp"), ("north", "south", "west"))
    client_id, _ = send_on(s, "create_topics", prefix=prefix, partitions=3, replicas=5, pause_s=1.2)
    blame_errand(s, "replication_factor_refused", client_id, [prefix], accepted=["setting_refused"])
    s.wait(14, 16)


@scenario("rights-not-listed", twin_of="missing-right")
def rights_not_listed(s: Scene) -> None:
    """A tool lists all rights each second as a user who may not describe the cluster."""
    s.background(producers=2, consumers=1)
    cluster = (ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL)
    s.later(s.brokers.reserve(cluster, "User:alice"))
    s.opening()
    s.wait(9, 11)
    own = {"bootstrap": s.brokers.bootstrap("SASL"), "user": "bob", "password": USERS["bob"]}
    client_id, _ = send_on(s, "list_rights", pause_s=1.0, **own)
    blame_errand(s, "missing_right", client_id, ["bob"])
    s.wait(14, 16)


@scenario("internal-topic-written", twin_of="missing-right")
def internal_topic_written(s: Scene) -> None:
    """A producer writes to the topic in which brokers keep committed offsets."""
    s.background(producers=2, consumers=1)
    s.opening()
    s.wait(9, 11)
    wrong, topic = s.pick("franz-go", "sarama", "librdkafka"), "__consumer_offsets"
    writing, _ = s.start("produce", wrong, topics=[topic], per_second=4)
    accepted = ["setting_refused", "invalid_topic_name"]
    s.blame_started("internal_topic_written", writing, also=[topic], accepted=accepted)
    s.wait(14, 16)


@scenario("unacknowledged-refused", twin_of="fire-and-forget")
def unacknowledged_refused(s: Scene) -> None:
    """A producer wants no acknowledgment and sends records that are too large: its connection is closed."""
    topics = s.background(producers=2, consumers=1)
    topic = s.topic(3, max_message_bytes=4000)
    s.opening()
    s.wait(9, 11)
    library = s.pick("librdkafka", "java")
    own = {"acks": "0", "value_bytes": 6000, "per_second": 3, "linger_ms": 0}
    silent, _ = s.start("produce", library, topics=[topic], **own)
    s.blame_started("unacknowledged_refused", silent, also=[topic], accepted=["record_too_large"])
    s.start("produce", topics=topics, per_second=5)
    s.wait(16, 18)


# --- logins ---


@scenario("mechanism-refused", twin_of="wrong-password")
def mechanism_refused(s: Scene) -> None:
    """A client wants to log in with tokens; the listener knows passwords only."""
    topics = s.background(producers=2, consumers=1)
    s.opening()
    s.wait(9, 11)
    own = {"enable.sasl.oauthbearer.unsecure.jwt": True, "sasl.oauthbearer.config": "principal=bob"}
    login = {"user": "bob", "password": "none", "mechanism": "OAUTHBEARER", "extra": own}
    bootstrap = s.brokers.bootstrap("SASL")
    failing, address = lone_producer(s, "librdkafka", topics=topics, bootstrap=bootstrap, **login)
    s.blame_started("mechanism_refused", failing, also=[address])
    s.wait(14, 16)


@scenario("ciphers-differ", twin_of="tls-failure")
def ciphers_differ(s: Scene) -> None:
    """A client offers ciphers only that the broker's certificate cannot be used with."""
    topics = s.background(producers=2, consumers=1)
    tls, trusted = s.brokers.bootstrap("TLS"), str(s.brokers.certificate)
    s.start("produce", "librdkafka", topics=topics, bootstrap=tls, tls=True, authority=trusted, per_second=5)
    s.opening()
    s.wait(9, 11)
    own = {"ssl.enabled.protocols": "TLSv1.2"}
    own["ssl.cipher.suites"] = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    login = {"tls": True, "authority": trusted, "extra": own}
    failing, address = lone_producer(s, "java", topics=topics, bootstrap=tls, **login)
    s.blame_started("tls_failure", failing, also=[address], opened_to=s.place.ports("TLS"))
    s.wait(15, 17)


# --- paths ---


@scenario("new-connections-dropped", place="hosts", twin_of="path-dead")
def new_connections_dropped(s: Scene) -> None:
    """A firewall lets what is open go on, and drops every attempt of a host to connect."""
    way = s.way_to("c2")
    s.record_at = "c2"  # beyond the firewall nothing shows an attempt
    topics = s.background(producers=2, consumers=1)
    s.start("produce", "librdkafka", host="c2", topics=topics, per_second=15)
    s.start("consume", "franz-go", host="c2", topics=topics)
    s.opening(6)
    s.wait(9, 11)
    way.set(no_syn=True)
    blame_path(s, "attempts_unanswered", "c2", 0)
    s.shown_by = Mark(opened_from=s.place.address("c2"))
    s.start("produce", s.pick("java", "sarama"), host="c2", topics=topics, per_second=8)
    s.start("produce", "kafkajs", host="c2", topics=topics, per_second=8)
    s.wait(20, 22)


@scenario("records-damaged", place="hosts", twin_of="path-lossy")
def records_damaged(s: Scene) -> None:
    """A box on the way of a host damages data, and makes the checksums of TCP fit."""
    way = s.way_to("c2")
    topics = s.background(producers=2, consumers=1)
    works = [s.start("produce", library, host="c2", topics=topics, per_second=12, value_bytes=500)[0]
             for library in s.random.sample(("rust", "franz-go", "sarama", "aiokafka"), 2)]  # fmt: skip
    s.opening(6)
    s.wait(10, 12)
    address = s.place.address("c2")
    onset = way.set(garbled=0.6, source=address)
    names = [address, *(work.client_id for work in works)]
    s.blame("records_damaged", {"kind": "path", "host": address}, names, onset, seen_later_s=1)
    s.wait(15, 17)


# --- groups ---


@scenario("topics-made-all-the-time", twin_of="regex-readers")
def topics_made_all_the_time(s: Scene) -> None:
    """A group reads all topics of a pattern, and somebody makes a new one every few seconds."""
    prefix, group = s.fresh(("tenant", "device", "run"), ("log", "feed", "data")), s.group()
    first = s.topic(2, name=f"{prefix}-0")
    s.background(producers=1, consumers=1)
    s.start("produce", topics=[first], per_second=15)
    own = {"topics": [f"^{prefix}-.*"], "group": group, "strategy": "range"}
    own["extra"] = {"topic.metadata.refresh.interval.ms": 1000}
    for _ in range(3):
        s.start("consume", "librdkafka", **own)
    s.opening(6)
    s.wait(9, 10)
    s.blame("rebalance_loop", {"kind": "group", "name": group}, [group], seen_later_s=3)
    for number in range(1, 7):
        s.topic(2, name=f"{prefix}-{number}")
        s.wait(2.5, 3)
    s.wait(3)


@scenario("rebalance-held-up", twin_of="joins-and-leaves")
def rebalance_held_up(s: Scene) -> None:
    """A member is busy with one record while another one joins: the whole group waits for it."""
    topic, group = fed_topic(s, 20), s.group()
    s.background(producers=1, consumers=1)
    own = {"topics": [topic], "group": group, "strategy": "range", "reset": "latest"}
    busy, _ = s.start("consume", "librdkafka", stall_after=120, stall_ms=24_000, **own)
    s.start("consume", "librdkafka", **own)
    s.roll(2)
    s.wait(18, 19)  # it has had its 120 records by now
    s.blame_client("rebalance_held_up", busy, also=[group], accepted=["slow_consumer"], seen_later_s=4)
    joining, _ = s.start("consume", "librdkafka", **own)
    s.shown_by = Mark((joining.client_id,))
    s.wait(24, 26)


@scenario("commit-from-outside", twin_of="duplicate-instance-id")
def commit_from_outside(s: Scene) -> None:
    """A tool commits offsets of a group that it is no member of, while its members are at work."""
    topic, group = fed_topic(s), s.group()
    s.background(producers=1, consumers=1)
    for library in s.random.sample(("librdkafka", "java", "franz-go", "rust"), 2):
        s.start("consume", library, topics=[topic], group=group, strategy="range")
    s.opening(6)
    s.wait(9, 11)
    client_id, _ = send_on(s, "commit_from_outside", group=group, topic=topic, pause_s=0.5)
    blame_errand(s, "commit_from_outside", client_id, [group])
    s.wait(14, 16)


@scenario("partition-paused", twin_of="growing-lag")
def partition_paused(s: Scene) -> None:
    """A consumer pauses one of its partitions and forgets it; the others are read."""
    topic, group = fed_topic(s, 40, partitions=4), s.group()
    s.background(producers=1, consumers=1)
    s.opening(6)
    client_id, _ = send_on(s, "pause_partition", group=group, topic=topic, after_s=15)
    s.wait(15)
    names = [client_id, group, topic]
    s.blame("growing_lag", {"kind": "client", "name": client_id, "group": group}, names, seen_later_s=5)
    s.wait(18, 20)


# --- nothing is wrong ---


@scenario("short-transactions", healthy=True, twin_of="transactions")
def short_transactions(s: Scene) -> None:
    """Producers commit a transaction for each record, which readers of committed records follow."""
    topics = s.background(producers=1, consumers=1)
    for library in ("librdkafka", "java"):
        name = s.fresh(("tx", "ledger", "booking"), ("each", "single", "fast"))
        own = {"transactional_id": name, "in_transaction": 1, "per_second": 12, "linger_ms": 0}
        s.start("transact", library, topics=topics, **own)
    s.start("consume", "java", topics=topics, extra={"isolation.level": "read_committed"})
    s.opening()
    s.wait(24, 26)


@scenario("regex-readers", healthy=True, twin_of="topics-made-all-the-time")
def regex_readers(s: Scene) -> None:
    """A group reads all topics of a pattern; one topic is made meanwhile."""
    prefix, group = s.fresh(("tenant", "device", "run"), ("log", "feed", "data")), s.group()
    first = s.topic(2, name=f"{prefix}-0")
    s.background(producers=1, consumers=1)
    s.start("produce", topics=[first], per_second=15)
    own = {"topics": [f"^{prefix}-.*"], "group": group}
    for _ in range(2):
        s.start("consume", "librdkafka", extra={"topic.metadata.refresh.interval.ms": 3000}, **own)
    s.opening(6)
    s.wait(10, 11)
    second = s.topic(2, name=f"{prefix}-1")
    s.start("produce", topics=[second], per_second=10)
    s.wait(13, 14)


@scenario("partition-moved", healthy=True, twin_of="reassignment-saturates")
def partition_moved(s: Scene) -> None:
    """An operator moves the replicas of a small topic to other brokers while clients use it."""
    topic = s.topic(2, replicas=2)
    s.background(producers=1, consumers=1)
    for library in s.random.sample(("rust", "java", "franz-go", "sarama"), 2):
        s.start("produce", library, topics=[topic], per_second=10)
    s.start("consume", s.pick("java", "franz-go"), topics=[topic])
    s.opening(6)
    s.wait(9, 10)
    s.brokers.place(topic, 0, [3, 1])
    s.wait(6, 7)
    s.brokers.place(topic, 1, [1, 2])
    s.wait(8, 9)


@scenario("groupless-readers", healthy=True, twin_of="commit-from-outside")
def groupless_readers(s: Scene) -> None:
    """Caches read a compacted topic from its beginning without a group; one of them starts late."""
    topic = s.topic(3, cleanup_policy="compact")
    s.background(producers=2, consumers=1)
    s.start("produce", s.pick("librdkafka", "java", "franz-go"), topics=[topic], per_second=20)
    send_on(s, "read_without_group", topic=topic, partitions=3)
    s.opening()
    s.wait(12, 13)
    send_on(s, "read_without_group", topic=topic, partitions=3)
    s.wait(12, 13)
