"""Habits of clients and slips of operators: commits without end, tiny fetches, aborts, forgotten settings.

No rule was written with these in sight, as with those of `variants`."""

from __future__ import annotations

import itertools
import time
from functools import partial

from tests.lab.incidents.groups import fed_topic
from tests.lab.incidents.paths import blame_pair, way_between_brokers
from tests.lab.incidents.scene import Scene, scenario

# --- clients ---


@scenario("commit-per-record", twin_of="metadata-storm")
def commit_per_record(s: Scene) -> None:
    """A consumer commits after each record of a busy topic."""
    topic = s.topic(3)
    s.background(producers=1, consumers=1)
    for _ in range(2):
        s.start("produce", "librdkafka", topics=[topic], per_second=150, linger_ms=0)
    s.opening()
    s.wait(9, 11)
    eager, _ = s.start("consume", "librdkafka", topics=[topic], commit_each=1, reset="latest")
    s.blame_started("commit_storm", eager, also=[eager.group])
    s.wait(15, 16)


@scenario("tiny-fetches", twin_of="slow-reader")
def tiny_fetches(s: Scene) -> None:
    """A consumer asks for a few hundred bytes at a time, and falls behind."""
    topic = s.topic(1)
    s.background(producers=1, consumers=1)
    s.start("produce", "librdkafka", topics=[topic], per_second=400, linger_ms=2, value_bytes=300)
    s.opening()
    s.wait(9, 11)
    sizes = {"fetch.max.bytes": 1000, "max.partition.fetch.bytes": 1000, "message.max.bytes": 1000}
    small, _ = s.start("consume", "librdkafka", topics=[topic], extra=sizes)
    s.blame_started("tiny_fetches", small, also=[small.group], accepted=["growing_lag"])
    s.wait(15, 16)


@scenario("abort-storm", twin_of="transactions")
def abort_storm(s: Scene) -> None:
    """From a deployment on, a transactional producer aborts each of its transactions."""
    topics = s.background(producers=2, consumers=1)
    name = s.fresh(("tx", "ledger", "booking"), ("main", "night", "west"))
    own = {"topics": topics, "transactional_id": name, "per_second": 4}
    before = s.start("transact", "librdkafka", **own)
    s.opening()
    s.wait(10, 11)
    s.stop(before)
    after, _ = s.start("transact", "librdkafka", client_id=before[0].client_id, abort_every=1, **own)
    s.blame_client("transactions_aborted", after, also=[name], seen_later_s=3)
    s.wait(15, 16)


@scenario("consumer-crash-loop", twin_of="rebalance-loop")
def consumer_crash_loop(s: Scene) -> None:
    """One member of a group dies soon after each start, and is started again each time."""
    topic, group = fed_topic(s), s.group()
    s.background(producers=1, consumers=1)
    library, name, host = s.pick("librdkafka", "franz-go", "sarama"), s.client_id(), s.host()
    for _ in range(2):
        s.start("consume", library, topics=[topic], group=group, session_ms=6000)
    s.opening(2)
    s.wait(9, 11)
    end = time.monotonic() + s.between(20, 22)
    for number in itertools.count():
        process = s.start(
            "consume", library, host, topics=[topic], group=group, client_id=name, session_ms=6000
        )
        if number == 0:
            accepted = ["rebalance_loop", "session_timeout"]
            s.blame_started("restart_loop", process[0], also=[group], accepted=accepted)
        if time.monotonic() > end:
            break
        s.wait(3, 4)
        s.stop(process, orderly=False)


# --- settings ---


@scenario("records-limit-lowered", twin_of="record-too-large")
def records_limit_lowered(s: Scene) -> None:
    """An operator lowers the largest size of a topic's records below what its producers send."""
    topic = s.topic(3)
    s.background(producers=2, consumers=1)
    for library in s.random.sample(("librdkafka", "java", "franz-go", "sarama"), 2):
        s.start("produce", library, topics=[topic], per_second=10, value_bytes=4000)
    s.opening()
    s.wait(10, 12)
    s.blame("record_too_large", {"kind": "topic", "name": topic}, [topic])
    s.brokers.configure("topic", topic, max_message_bytes=2000)
    s.wait(13, 14)


# --- between brokers ---


@scenario("brokers-cut-off", place="hosts", twin_of="pair-dead")
def brokers_cut_off(s: Scene) -> None:
    """Two brokers cannot reach each other, while clients reach both."""
    way, ends = way_between_brokers(s)
    onset = way.set(cut=True, peer=ends[1])
    blame_pair(s, "path_dead", ends, onset, accepted=["follower_behind"])
    s.later(way.set)
    s.wait(15, 17)


@scenario("replication-throttled", twin_of="follower-behind")
def replication_throttled(s: Scene) -> None:
    """An operator throttles replication to a broker, and forgets it: its replicas fall out of sync."""
    broker, topic = s.broker(), s.topic(3)
    s.background(producers=1, consumers=1)
    for _ in range(2):
        s.start("produce", "librdkafka", topics=[topic], per_second=40, value_bytes=2000)
    s.opening()
    s.wait(9, 10)
    name = str(broker.number)
    s.later(partial(s.brokers.configure, "broker", name, follower_replication_throttled_rate=""))
    s.brokers.configure("topic", topic, follower_replication_throttled_replicas="*")
    s.brokers.configure("broker", name, follower_replication_throttled_rate=500)
    s.blame_broker("follower_behind", broker, seen_later_s=12)
    s.wait(20, 22)


# --- nothing is wrong ---


@scenario("mirror", healthy=True, twin_of="tiny-batches")
def mirror(s: Scene) -> None:
    """A process copies a topic: it reads and writes under one name, with a pause when there is nothing."""
    source, target = s.topic(3), s.topic(3)
    s.background(producers=1, consumers=1)
    s.start("produce", topics=[source], per_second=20, linger_ms=10)
    host, name = s.host(), s.client_id()
    s.start("consume", "java", host, topics=[source], client_id=name)
    s.start("produce", "java", host, topics=[target], client_id=name, per_second=20, linger_ms=100)
    s.opening()
    s.wait(24, 26)


@scenario("security-chores", healthy=True, twin_of="right-revoked")
def security_chores(s: Scene) -> None:
    """An operator rotates a password that nobody has used, and moves leaders back to where they belong."""
    topics = s.background(producers=3, consumers=2)
    s.opening()
    s.wait(8, 9)
    s.brokers.set_scram_password("nobody", "a-first-secret")
    s.wait(3, 4)
    for topic in topics:
        s.brokers.elect_preferred(topic)
    s.wait(3, 4)
    s.brokers.add_partitions(topics[0], 9)
    s.wait(9, 10)


@scenario("bulk-and-trickle", healthy=True, twin_of="hot-partition")
def bulk_and_trickle(s: Scene) -> None:
    """A nightly load writes large compressed batches beside clients that write a record now and then."""
    loaded = s.topic(6)
    s.background(producers=2, consumers=2)
    s.start("consume", s.pick("java", "franz-go"), topics=[loaded])
    s.opening()
    s.wait(8, 9)
    for library in ("librdkafka", "java"):
        s.start(
            "produce",
            library,
            topics=[loaded],
            per_second=300,
            value_bytes=1500,
            linger_ms=200,
            compression="zstd",
            records=3000,
        )
    s.wait(16, 17)
