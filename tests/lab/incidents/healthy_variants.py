"""Healthy life in other forms: KIP-848 groups, logins, topics that come and go, many of one name."""

from __future__ import annotations

from tests.lab.incidents.brokers import USERS
from tests.lab.incidents.groups import fed_topic
from tests.lab.incidents.scene import Scene, scenario
from tests.lab.incidents.variants import CONSUMER_PROTOCOL, NEW_GROUPS


@scenario("new-groups", settings=NEW_GROUPS, healthy=True, twin_of="new-group-member-killed")
def new_groups(s: Scene) -> None:
    """Members of KIP-848 groups come one by one, and one leaves in order."""
    topics, group = s.background(producers=2, consumers=0), s.group()
    s.opening()
    members = []
    for library in ("librdkafka", "java", "librdkafka"):
        members.append(s.start("consume", library, topics=topics, group=group, extra=CONSUMER_PROTOCOL))
        s.wait(4, 6)
    s.stop(s.random.choice(members))
    s.wait(8, 10)


@scenario("secured", healthy=True, twin_of="wrong-password")
def secured(s: Scene) -> None:
    """Clients log in by passwords, or speak TLS, and may do what they do."""
    topics = s.background(producers=1, consumers=1)
    sasl, tls = s.brokers.bootstrap("SASL"), s.brokers.bootstrap("TLS")
    for library in s.random.sample(("librdkafka", "franz-go", "java", "kafkajs"), 2):
        s.start(
            "produce", library, topics=topics, bootstrap=sasl, user="alice", password=USERS["alice"],
            per_second=8,
        )  # fmt: skip
    for role in ("produce", "consume"):
        s.start(
            role, "librdkafka", topics=topics, bootstrap=tls, tls=True,
            authority=str(s.brokers.certificate), per_second=8,
        )  # fmt: skip
    s.opening()
    s.wait(26, 28)


@scenario("topics-come-and-go", healthy=True, twin_of="topic-deleted")
def topics_come_and_go(s: Scene) -> None:
    """A topic is made, used at once, and deleted when nobody uses it any more."""
    s.background(producers=2, consumers=2)
    s.opening()
    s.wait(6, 8)
    topic = s.topic(3)
    users = [
        s.start("produce", s.pick("librdkafka", "java", "franz-go"), topics=[topic], per_second=15),
        s.start("consume", s.pick("librdkafka", "java", "franz-go"), topics=[topic]),
    ]
    s.wait(9, 11)
    for user in users:
        s.stop(user)
    s.wait(1)
    s.topics.remove(topic)
    s.brokers.delete_topics([topic])
    s.wait(7, 8)


@scenario("catch-up", healthy=True, twin_of="growing-lag")
def catch_up(s: Scene) -> None:
    """A group that was away reads what has piled up as fast as it can, then follows."""
    topic, group = s.topic(3), s.group()
    s.background(producers=1, consumers=1)
    fill = s.start("produce", "librdkafka", topics=[topic], per_second=3000, burst=100, linger_ms=20)
    s.wait(8)
    s.stop(fill)
    s.start("produce", topics=[topic], per_second=20)
    s.opening(2)
    s.wait(8, 10)
    s.start("consume", s.pick("librdkafka", "java", "franz-go", "sarama"), topics=[topic], group=group)
    s.wait(15, 17)


@scenario("static-restart", healthy=True, twin_of="session-timeout")
def static_restart(s: Scene) -> None:
    """A static member is stopped and comes back within its session: nobody rebalances."""
    topic, group = fed_topic(s), s.group()
    s.background(producers=1, consumers=1)
    library = s.pick("librdkafka", "java")
    fields = {"topics": [topic], "group": group, "session_ms": 20_000}
    names = s.random.sample(("pod-0", "pod-1", "node-a", "node-b"), 2)
    s.start("consume", library, instance_id=f"{group}-{names[0]}", **fields)
    restarted = s.start("consume", library, instance_id=f"{group}-{names[1]}", **fields)
    s.opening()
    s.wait(10, 12)
    s.stop(restarted)
    s.wait(2, 3)
    again = restarted[0]
    s.start("consume", library, instance_id=again.instance_id, client_id=again.client_id, **fields)
    s.wait(10, 12)


@scenario("patient-consumers", healthy=True, twin_of="broker-slow")
def patient_consumers(s: Scene) -> None:
    """Consumers wait for a megabyte or for five seconds: their fetches take long, as they were told to."""
    topics = s.background(producers=3, consumers=1)
    for _ in range(3):
        s.start(
            "consume",
            "librdkafka",
            topics=topics,
            extra={"fetch.min.bytes": 1_000_000, "fetch.wait.max.ms": 5000, "socket.timeout.ms": 60_000},
        )
    s.opening()
    s.wait(27, 30)


@scenario("partitions-added", healthy=True, twin_of="leader-election")
def partitions_added(s: Scene) -> None:
    """A topic gets more partitions while clients use it; its group assigns them anew."""
    topic, group = s.topic(3), s.group()
    s.background(producers=1, consumers=1)
    s.start("produce", s.pick("librdkafka", "java", "franz-go"), topics=[topic], per_second=20)
    for _ in range(2):
        s.start(
            "consume", "librdkafka", topics=[topic], group=group,
            extra={"topic.metadata.refresh.interval.ms": 4000},
        )  # fmt: skip
    s.opening()
    s.wait(9, 11)
    s.brokers.add_partitions(topic, 6)
    s.wait(15, 17)


@scenario("one-name-for-all", healthy=True, twin_of="duplicate-instance-id")
def one_name_for_all(s: Scene) -> None:
    """All processes of a service have one client id, as many do; some end and others start."""
    topics, group, name = s.background(producers=1, consumers=1), s.group(), s.client_id()
    library = s.pick("librdkafka", "java", "franz-go")
    fields = {"topics": topics, "client_id": name}
    members = [s.start("consume", library, group=group, **fields) for _ in range(3)]
    for _ in range(2):
        s.start("produce", library, per_second=10, **fields)
    s.opening()
    s.wait(9, 11)
    s.stop(members[0])
    s.wait(1, 2)
    s.start("consume", library, group=group, **fields)
    s.wait(12, 14)


@scenario("scale-out", healthy=True, twin_of="rebalance-loop")
def scale_out(s: Scene) -> None:
    """A group grows from one member to five, with the cooperative assignor, and stays so."""
    topics, group = s.background(producers=3, consumers=0), s.group()
    library = s.pick("librdkafka", "java")
    fields = {"topics": topics, "group": group, "strategy": "cooperative-sticky"}
    s.start("consume", library, **fields)
    s.opening()
    s.wait(8, 10)
    for _ in range(4):
        s.start("consume", library, **fields)
        s.wait(0.5, 1)
    s.wait(15, 17)


@scenario("fire-and-forget", healthy=True, twin_of="tiny-batches")
def fire_and_forget(s: Scene) -> None:
    """Producers want no acknowledgment, which is their choice."""
    topics = s.background(producers=1, consumers=2)
    for library in s.random.sample(("librdkafka", "franz-go", "java", "sarama", "kafka-python"), 3):
        s.start("produce", library, topics=topics, acks="0", per_second=15, idempotent=False)
    s.opening()
    s.wait(25, 27)


@scenario("far-broker", healthy=True, place="hosts", twin_of="broker-slow")
def far_broker(s: Scene) -> None:
    """One broker is always 8 ms away, as in a cluster that is stretched over two sites."""
    broker = s.broker()
    s.way_to(broker.host).set(delay_s=0.004)
    s.background(producers=3, consumers=2)
    s.opening()
    s.wait(26, 28)


@scenario(
    "reauthentication",
    settings=(("listener.name.sasl.connections.max.reauth.ms", "15000"),),
    healthy=True,
    twin_of="wrong-password",
)
def reauthentication(s: Scene) -> None:
    """Clients log in again on their connections every few seconds (KIP-368)."""
    topics = s.background(producers=1, consumers=1)
    sasl = {"bootstrap": s.brokers.bootstrap("SASL"), "user": "alice", "password": USERS["alice"]}
    for library in ("librdkafka", "java", "kafkajs"):
        s.start("produce", library, topics=topics, per_second=8, **sasl)
    s.start("consume", "librdkafka", topics=topics, **sasl)
    s.opening()
    s.wait(27, 29)


@scenario("large-records", healthy=True, twin_of="record-too-large")
def large_records(s: Scene) -> None:
    """Records of half a megabyte are written and read now and then."""
    topic = s.topic(3)
    s.background(producers=2, consumers=1)
    s.start("produce", "librdkafka", topics=[topic], per_second=2, value_bytes=500_000)
    s.start("consume", s.pick("librdkafka", "franz-go"), topics=[topic])
    s.opening()
    s.wait(25, 27)


@scenario("quiet-night", healthy=True, twin_of="planned-quiet")
def quiet_night(s: Scene) -> None:
    """Hardly anything happens; brokers and controllers talk to each other."""
    s.with_controllers = True
    topics = [s.topic(3)]
    s.start("produce", s.pick("librdkafka", "franz-go"), topics=topics, per_second=0.3)
    s.start("consume", s.pick("librdkafka", "sarama"), topics=topics)
    s.opening()
    s.wait(28, 30)
