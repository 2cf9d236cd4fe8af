"""Known causes in another form: the group protocol of KIP-848, other mechanisms, several brokers at once.

No rule was written with these in sight, so their first score says how far the rules carry."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka.admin import ResourcePatternType, ResourceType

from tests.lab.incidents.brokers import USERS, Broker
from tests.lab.incidents.first_packet import Mark
from tests.lab.incidents.groups import POLL_MS, fed_topic, last_poll_ns
from tests.lab.incidents.requests import lone_producer
from tests.lab.incidents.scene import Scene, scenario
from tests.lab.incidents.servers import misadvertise
from tests.lab.process import Child

NEW_GROUPS = (
    ("group.consumer.heartbeat.interval.ms", "2000"),
    ("group.consumer.min.heartbeat.interval.ms", "2000"),
    ("group.consumer.session.timeout.ms", "6000"),
    ("group.consumer.min.session.timeout.ms", "6000"),
)
"""Settings of brokers under which a silent member of a KIP-848 group is given up after six seconds."""

CONSUMER_PROTOCOL: dict[str, object] = {"group.protocol": "consumer"}


# --- servers ---


@scenario("two-brokers-killed", twin_of="broker-killed")
def two_brokers_killed(s: Scene) -> None:
    """Two of three brokers die in the same moment, as a rack without power."""
    s.background(producers=3, consumers=2)
    s.opening()
    s.wait(10, 13)
    first, second = s.random.sample(s.brokers.all, 2)
    s.blame_broker("broker_killed", first)
    s.truth["names"] += [second.address, f"broker {second.number}"]
    first.kill()
    second.kill()
    s.wait(14, 16)


@scenario("rolling-restart", twin_of="broker-stopped")
def rolling_restart(s: Scene) -> None:
    """All brokers are restarted in order, one after the other."""
    s.background(producers=3, consumers=2)
    s.opening()
    s.wait(8, 10)
    order = s.random.sample(s.brokers.all, 3)
    s.blame_broker("broker_stopped", order[0])
    s.truth["names"] += [name for b in order[1:] for name in (b.address, f"broker {b.number}")]
    for broker in order:
        broker.stop()
        s.wait(1, 2)
        broker.start()
        s.brokers.wait_until_listening(broker)
        s.brokers.ready()
        s.wait(1, 2)
    s.ended()
    s.wait(7, 8)


@contextlib.contextmanager
def processor_share(broker: Broker, share: float) -> Iterator[None]:
    """Limit a broker's process to that part of one processor, as a container does."""
    assert broker.child.process is not None
    group = Path("/sys/fs/cgroup/cpu", f"kdissect-lab-{os.getpid()}")
    group.mkdir()
    try:
        (group / "cpu.cfs_quota_us").write_text(str(int(share * 100_000)))
        for process in _descendants(broker.child.process.pid):
            (group / "cgroup.procs").write_text(str(process))
        yield
    finally:
        for process in (group / "cgroup.procs").read_text().split():
            (group.parent / "cgroup.procs").write_text(process)
        group.rmdir()


def _descendants(process: int) -> list[int]:
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [process, *(one for child in children for one in _descendants(int(child)))]


@scenario("broker-overloaded", twin_of="broker-slow")
def broker_overloaded(s: Scene) -> None:
    """A broker has a small share of a processor; new clients ask more of it than that allows."""
    broker = s.broker()
    topic = s.topic(3, replicas=1)
    while s.brokers.leader(topic, 0) != broker.number:
        topic = s.topic(1, replicas=1)
    topics = s.background(producers=2, consumers=2)
    s.start("produce", "librdkafka", topics=[topic], per_second=20)
    s.after.enter_context(processor_share(broker, 0.3))
    s.opening()
    s.wait(11, 13)
    s.blame_broker("broker_overloaded", broker, accepted=["broker_slow"])
    for _ in range(3):
        greedy, _ = s.start(
            "produce",
            s.pick("franz-go", "librdkafka"),
            topics=[topic, *topics],
            per_second=700,
            linger_ms=0,
            value_bytes=300,
        )
        s.truth["names"].append(greedy.client_id)
    s.wait(15, 17)


# --- network ---


@scenario("advertised-silent", twin_of="wrong-advertised-listener")
def advertised_silent(s: Scene) -> None:
    """A broker advertises an address from which no answer ever comes, as behind a firewall."""
    broker = s.broker()
    topics = s.background(producers=1, consumers=1)
    host = broker.ip
    wrong = f"{host}:9999"
    deaf = Child(
        "deaf port",
        [*s.place.command(broker.host), sys.executable, "-m", "tests.lab.incidents.deaf_port", host, "9999"],
        s.folder / "deaf.log",
    ).start()
    s.later(deaf.kill)
    misadvertise(s, broker, topics, wrong, [wrong])
    for library in s.random.sample(("librdkafka", "java", "franz-go", "kafkajs", "sarama"), 3):
        s.start("produce", library, topics=topics, per_second=10)
    s.start("consume", topics=topics)
    s.wait(30, 32)


@scenario("host-gone", twin_of="path-dead", place="hosts")
def host_gone(s: Scene) -> None:
    """The way to a client's host is cut and stays so: its members are given up by their groups."""
    way = s.way_to("c2")
    topics, group = s.background(producers=2, consumers=1), s.group()
    for host in ("c1", "c2", "c3"):
        s.start("produce", host=host, topics=topics, per_second=15)
        s.start("consume", "librdkafka", host=host, topics=topics, group=group, session_ms=6000)
    s.opening()
    s.wait(10, 12)
    address = s.place.address("c2")
    onset = way.set(cut=True)
    subject = {"kind": "path", "host": address, "name": f"host {address}"}
    s.blame("path_dead", subject, [address], onset)
    s.wait(17, 19)


# --- clients ---


@scenario("wrong-scram-user", twin_of="wrong-password")
def wrong_scram_user(s: Scene) -> None:
    """Nobody has that name: SCRAM-SHA-512 of a user that was never made."""
    topics = s.background(producers=1, consumers=1)
    s.opening()
    s.wait(9, 12)
    name = s.fresh(("svc", "app", "robot"), ("orders", "etl", "mirror"))
    lost, _ = s.start(
        s.pick("produce", "consume"),
        s.pick("librdkafka", "franz-go", "java", "kafkajs"),
        topics=topics,
        bootstrap=s.brokers.bootstrap("SASL"),
        user=name,
        password="hunter2",
        mechanism="SCRAM-SHA-512",
        per_second=10,
    )
    s.blame_started("wrong_password", lost, also=[name])
    s.wait(15, 17)


@scenario("missing-group-right", twin_of="missing-right")
def missing_group_right(s: Scene) -> None:
    """The group belongs to alice; bob may read the topic but not join."""
    topics, group = s.background(producers=2, consumers=1), s.group()
    own = (ResourceType.GROUP, group, ResourcePatternType.LITERAL)
    s.later(s.brokers.reserve(own, "User:alice"))
    s.opening()
    s.wait(9, 12)
    barred, _ = s.start(
        "consume",
        s.pick("librdkafka", "java", "franz-go", "aiokafka"),
        topics=topics,
        group=group,
        bootstrap=s.brokers.bootstrap("SASL"),
        user="bob",
        password=USERS["bob"],
    )
    s.blame_started("missing_right", barred, also=["bob", group])
    s.wait(15, 17)


@scenario("topic-deleted", twin_of="missing-topic")
def topic_deleted(s: Scene) -> None:
    """Somebody deletes a topic that is in use."""
    topic = s.topic()
    s.background(producers=2, consumers=1)
    s.start("produce", s.pick("librdkafka", "java", "franz-go", "sarama"), topics=[topic], per_second=15)
    s.start("consume", s.pick("librdkafka", "java", "franz-go"), topics=[topic])
    s.opening()
    s.wait(10, 13)
    s.blame("missing_topic", {"kind": "topic", "name": topic}, [topic])
    s.topics.remove(topic)
    s.brokers.delete_topics([topic])
    s.wait(16, 18)


@scenario("new-group-member-killed", settings=NEW_GROUPS, twin_of="session-timeout")
def new_group_member_killed(s: Scene) -> None:
    """A member of a KIP-848 group is killed; the coordinator gives it up after six seconds."""
    topic, group = fed_topic(s), s.group()
    s.background(producers=1, consumers=1)
    library = s.pick("librdkafka", "java")
    fields = {"topics": [topic], "group": group, "extra": CONSUMER_PROTOCOL}
    s.start("consume", library, **fields)
    gone = s.start("consume", library, **fields)
    s.opening()
    s.wait(12, 14)
    s.blame_client("session_timeout", gone[0], also=[group], seen_later_s=7)
    s.stop(gone, orderly=False)
    s.wait(14, 16)


@scenario("new-group-slow-member", settings=NEW_GROUPS, twin_of="slow-consumer")
def new_group_slow_member(s: Scene) -> None:
    """A member of a KIP-848 group rests longer than max.poll.interval.ms, again and again."""
    topic, group = fed_topic(s), s.group()
    s.background(producers=1, consumers=1)
    s.start("consume", "librdkafka", topics=[topic], group=group, extra=CONSUMER_PROTOCOL)
    slow, _ = s.start(
        "consume",
        "librdkafka",
        topics=[topic],
        group=group,
        poll_ms=POLL_MS,
        rest_ms=s.between(8500, 9500),
        extra=CONSUMER_PROTOCOL,
    )
    s.opening(2)
    s.wait(28, 32)
    # The member leaves when it polls again; the coordinator tells nobody that it removed it before.
    s.blame_client("slow_consumer", slow, last_poll_ns(s, slow), also=[group], seen_later_s=10)


@scenario("consumer-stalled", twin_of="growing-lag")
def consumer_stalled(s: Scene) -> None:
    """A consumer's application hangs at one record; its library goes on sending heartbeats."""
    topic, group = s.topic(partitions=3), s.group()
    s.background(producers=1, consumers=1)
    s.start("produce", topics=[topic], per_second=60, linger_ms=10)
    s.start("consume", "librdkafka", topics=[topic], group=s.group())
    stalled, _ = s.start(
        "consume",
        "librdkafka",
        topics=[topic],
        group=group,
        poll_ms=300_000,
        stall_after=s.random.randint(900, 1200),
        stall_ms=60_000,
        extra={"queued.min.messages": 10, "queued.max.messages.kbytes": 16},
    )
    s.opening()
    begun = time.time_ns()
    s.wait(34, 36)
    s.blame_client("growing_lag", stalled, begun, also=[group, topic], seen_later_s=25)


@scenario("all-brokers-frozen", twin_of="broker-frozen")
def all_brokers_frozen(s: Scene) -> None:
    """The machine under all brokers stands still, as for a snapshot."""
    s.background(producers=3, consumers=2)
    s.opening()
    s.wait(10, 13)
    for broker in s.brokers.all:
        s.later(broker.thaw)
    onset, *_ = [broker.freeze() for broker in s.brokers.all]
    s.blame_broker("broker_frozen", s.brokers.all[0], onset)
    s.truth["names"] += [name for b in s.brokers.all[1:] for name in (b.address, f"broker {b.number}")]
    s.wait(4.5, 7)
    first, *_ = [broker.thaw() for broker in s.brokers.all]
    s.ended(first)
    s.wait(9, 11)


@scenario("transaction-timeout", twin_of="open-transaction")
def transaction_timeout(s: Scene) -> None:
    """A producer works longer than transaction.timeout.ms allows, again and again: it is fenced each time."""
    topic = s.topic(partitions=3)
    s.background(producers=1, consumers=1)
    s.start("consume", "librdkafka", topics=[topic], extra={"isolation.level": "read_committed"})
    s.opening()
    s.wait(9, 11)
    name = s.fresh(("tx", "ledger", "booking"), ("e", "f", "main", "2"))
    holder, _ = s.start(
        "transact",
        "librdkafka",
        topics=[topic],
        transactional_id=name,
        hold_s=25,
        extra={"transaction.timeout.ms": 11_000, "message.timeout.ms": 10_000},
    )
    subject = {"kind": "producer", "name": name, "client": holder.client_id}
    s.blame("open_transaction", subject, [name, holder.client_id], accepted=["zombie_producer"])
    s.shown_by = Mark((holder.client_id,))
    s.wait(26, 28)


@scenario("missing-transactional-right", twin_of="missing-right")
def missing_transactional_right(s: Scene) -> None:
    """The transactional id belongs to alice; bob may write to the topic."""
    topics = s.background(producers=2, consumers=1)
    name = s.fresh(("tx", "ledger"), ("alice", "own"))
    own = (ResourceType.TRANSACTIONAL_ID, name, ResourcePatternType.LITERAL)
    s.later(s.brokers.reserve(own, "User:alice"))
    s.opening()
    s.wait(9, 12)
    barred, _ = s.start(
        "transact",
        s.pick("librdkafka", "java", "franz-go"),
        topics=topics,
        transactional_id=name,
        bootstrap=s.brokers.bootstrap("SASL"),
        user="bob",
        password=USERS["bob"],
    )
    s.blame_started("missing_right", barred, also=["bob", name])
    s.wait(13, 15)


@scenario("quota-reader", twin_of="quota")
def quota_reader(s: Scene) -> None:
    """A consumer reads more than its quota allows, which is set in the middle."""
    topic = s.topic(partitions=3)
    s.background(producers=1, consumers=1)
    s.start("produce", "librdkafka", topics=[topic], per_second=150, value_bytes=500, linger_ms=30)
    greedy, _ = s.start("consume", s.pick("librdkafka", "java", "franz-go", "sarama"), topics=[topic])
    s.opening()
    s.wait(10, 12)
    s.brokers.limit_client(greedy.client_id, s.pick(8_000, 12_000))
    s.blame_client("quota", greedy, also=[topic], seen_later_s=3)
    s.wait(17, 19)


@scenario("plaintext-to-sasl", twin_of="wrong-password")
def plaintext_to_sasl(s: Scene) -> None:
    """A client that does not log in talks to the listener that wants a login."""
    topics = s.background(producers=1, consumers=1)
    s.opening()
    s.wait(9, 12)
    library = s.pick("librdkafka", "franz-go", "java", "sarama")
    plain, address = lone_producer(s, library, topics=topics, bootstrap=s.brokers.bootstrap("SASL"))
    s.blame_started("login_missing", plain, also=[address], accepted=["wrong_password"])
    s.wait(14, 16)


@scenario("tls-to-plaintext", twin_of="tls-failure")
def tls_to_plaintext(s: Scene) -> None:
    """A client that speaks TLS talks to a listener that does not."""
    topics = s.background(producers=1, consumers=1)
    s.opening()
    s.wait(9, 12)
    library = s.pick("librdkafka", "franz-go", "java", "kafkajs")
    trust = {"tls": True, "authority": str(s.brokers.certificate)}
    lost, address = lone_producer(s, library, topics=topics, **trust)
    s.blame_client("tls_failure", lost, also=[address])
    s.shown_by = Mark(opened_from=address) if s.on_hosts else None
    s.wait(14, 16)
