"""Limits of brokers and clients: memory, retention, sizes, links; queues of share groups; a lone controller.

No rule was written with these in sight, as with those of `variants`."""

from __future__ import annotations

import re

from confluent_kafka import Producer
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from tests.lab.incidents.brokers import Broker
from tests.lab.incidents.groups import fed_topic
from tests.lab.incidents.scene import Scene, scenario

APART = (("process.roles", "broker"),)
SHORT_HEAP = (("log.cleaner.dedupe.buffer.size", "4194304"),)  # the default is larger than the heap
PROMPT_RETENTION = (
    ("log.retention.check.interval.ms", "1000"),
    ("log.initial.task.delay.ms", "1000"),
    ("log.segment.delete.delay.ms", "500"),
)
SEGMENT = 1 << 20
EXPLICIT = {"share.acknowledgement.mode": "explicit"}


def restart_with_heap(s: Scene, broker: Broker, megabytes: int) -> None:
    """Start a broker again with so much heap, until the recording has ended."""
    ordinary = broker.child.command

    def restore() -> None:
        broker.kill()
        broker.child.command = ordinary

    s.later(restore)
    broker.stop()
    broker.child.command = [re.sub(r"^-Xmx.*", f"-Xmx{megabytes}m", word) for word in ordinary]
    broker.start()
    s.brokers.wait_until_listening(broker)
    s.brokers.ready()


def fill(s: Scene, topic: str, megabytes: int) -> None:
    """Write so much to a topic, where no capture sees it."""
    producer = Producer({"bootstrap.servers": s.brokers.bootstrap("ADMIN"), "log_level": 0})
    for number in range(megabytes * 100):
        producer.produce(topic, bytes(10_000), str(number).encode())
        producer.poll(0)
        if number % 200 == 0:
            producer.flush()
    producer.flush()


# --- brokers ---


@scenario("heap-starved", twin_of="broker-slow", settings=SHORT_HEAP)
def heap_starved(s: Scene) -> None:
    """A broker was started with hardly more memory than it needs, and collects garbage all the time."""
    broker, heavy = s.broker(), s.topic(6)
    restart_with_heap(s, broker, 64)
    topics = s.background(producers=2, consumers=2)
    s.brokers.elect_preferred(heavy, *topics)
    for library in ("java", "librdkafka"):
        s.start("produce", library, topics=[heavy], per_second=60, value_bytes=20_000, linger_ms=20)
    s.start("consume", topics=[heavy])
    s.opening()
    accepted = ["broker_slow", "broker_frozen", "broker_overloaded", "broker_killed", "broker_down"]
    s.blame_broker("heap_starved", broker, s.truth["begin_ns"], accepted=accepted, seen_later_s=10)
    s.wait(24, 26)


@scenario("controller-killed", twin_of="broker-killed", settings=APART)
def controller_killed(s: Scene) -> None:
    """The only controller, a process of its own, dies; brokers keep serving what they lead."""
    controller = s.brokers.controller
    assert controller is not None
    s.with_controllers = True
    s.background(producers=2, consumers=2)
    s.opening()
    s.wait(10, 12)
    accepted = ["broker_killed", "broker_down"]
    names = [controller.address, f"broker {controller.number}", f"controller {controller.number}"]
    subject = {"kind": "server", "id": controller.number, "address": controller.address}
    s.blame("controller_lost", subject, names, accepted=accepted)
    controller.kill()
    s.wait(14, 16)


@scenario("reassignment-saturates", place="hosts", twin_of="narrow-way")
def reassignment_saturates(s: Scene) -> None:
    """An operator moves a large partition to a broker, and its copy takes the whole link of that broker."""
    source, target = s.random.sample(s.brokers.all, 2)
    large = s.topic(1, replicas=1)
    place = KafkaAdminClient(bootstrap_servers=s.brokers.bootstrap("ADMIN").split(","))
    s.later(place.close)
    place.alter_partition_reassignments({TopicPartition(large, 0): [source.number]})
    s.wait(3)
    fill(s, large, 20)
    s.way_to(target.host).set(rate=800_000)
    s.background(producers=3, consumers=2)
    s.opening()
    s.wait(10, 12)
    names = [target.address, target.ip, f"broker {target.number}", large]
    accepted = ["path_slow", "path_lossy", "broker_slow", "follower_behind"]
    subject = {"kind": "server", "id": target.number, "address": target.address, "topic": large}
    s.blame("replication_saturates", subject, names, accepted=accepted, seen_later_s=2)
    place.alter_partition_reassignments({TopicPartition(large, 0): [target.number]})
    s.wait(17, 19)


# --- topics ---


@scenario("retention-too-short", twin_of="offset-out-of-range", settings=PROMPT_RETENTION)
def retention_too_short(s: Scene) -> None:
    """A topic keeps two seconds of records; a slow consumer finds what it wants next deleted."""
    topic = s.topic(1, retention_bytes=SEGMENT, segment_bytes=SEGMENT)
    s.background(producers=1, consumers=1)
    s.start("produce", "librdkafka", topics=[topic], per_second=200, value_bytes=2_500, linger_ms=20)
    s.opening()
    s.wait(9, 11)
    library = s.pick("librdkafka", "java", "franz-go")
    slow, _ = s.start("consume", library, topics=[topic], rest_ms=15)
    accepted = ["growing_lag"]
    s.blame_started("offset_out_of_range", slow, also=[slow.group, topic], accepted=accepted, seen_later_s=12)
    s.wait(22, 24)


@scenario("batch-beyond-segment", twin_of="record-too-large")
def batch_beyond_segment(s: Scene) -> None:
    """A topic allows larger batches than a segment of its log holds; such batches are refused for ever."""
    topics = s.background(producers=2, consumers=1)
    topic = s.topic(2, max_message_bytes=4_000_000, segment_bytes=SEGMENT)
    s.start("produce", topics=[topic], per_second=5)
    s.opening()
    s.wait(9, 11)
    own = {"max.request.size": 3_000_000, "buffer.memory": 8_000_000}
    large, _ = s.start("produce", "java", topics=[topic], value_bytes=1_200_000, per_second=1, extra=own)
    s.blame_started("batch_beyond_segment", large, also=[topic], accepted=["record_too_large"])
    s.start("produce", topics=topics, per_second=5)
    s.wait(15, 17)


# --- consumers ---


@scenario("small-fetches-far", place="hosts", twin_of="growing-lag")
def small_fetches_far(s: Scene) -> None:
    """A consumer far away asks for a few records at a time, and cannot keep up that way."""
    host, topic = s.pick("c4", "c5"), s.topic(2)
    s.background(producers=1, consumers=1)
    s.way_to(host).set(delay_s=s.between(0.04, 0.05))
    s.start("produce", "librdkafka", topics=[topic], per_second=300, value_bytes=500, linger_ms=5)
    s.opening()
    s.wait(9, 11)
    own = {"max.partition.fetch.bytes": 2_000}
    small, _ = s.start("consume", "java", host, topics=[topic], extra=own)
    also = [small.group, topic]
    s.blame_started("small_fetches", small, also=also, accepted=["growing_lag"], seen_later_s=8)
    s.wait(22, 24)


@scenario("records-released", twin_of="poison-record")
def records_released(s: Scene) -> None:
    """A member of a share group fails at each record from one moment on, and gives all of them back."""
    topic, group = s.topic(3), s.group()
    s.background(producers=2, consumers=1)
    own = {"topics": [topic], "group": group, "extra": EXPLICIT}
    failing, _ = s.start("share", "java", poison_after=s.pick(100, 150), **own)
    s.wait(4)
    s.start("produce", topics=[topic], per_second=15, linger_ms=10)
    s.opening()
    s.blame_client("records_released", failing, also=[group, topic], accepted=["poison_record"],
                   seen_later_s=14)  # fmt: skip
    s.wait(27, 29)


@scenario("one-group-two-kinds", twin_of="inconsistent-group-protocol")
def one_group_two_kinds(s: Scene) -> None:
    """Two applications have one group id, and the second one, started four times, wants a share group."""
    topic, group, name = fed_topic(s), s.group(), s.client_id()
    s.background(producers=1, consumers=1)
    s.start("consume", s.pick("java", "librdkafka", "franz-go"), topics=[topic], group=group)
    s.opening(2)
    s.wait(9, 11)
    host = s.host()
    own = {"topics": [topic], "group": group, "client_id": name, "extra": EXPLICIT}
    sharer, _ = s.start("share", "java", host, **own)
    s.blame_started("group_kind_mixed", sharer, also=[group], accepted=["inconsistent_group_protocol"])
    for _ in range(3):
        s.wait(5)
        s.start("share", "java", host, **own)
    s.wait(4, 5)


# --- nothing is wrong ---


@scenario("sharers", healthy=True, twin_of="records-released")
def sharers(s: Scene) -> None:
    """Members of a share group take records of one queue; one of them comes later, one goes."""
    topic, group = s.topic(2), s.group()
    s.background(producers=1, consumers=1)
    own = {"topics": [topic], "group": group, "extra": EXPLICIT}
    first = s.start("share", "java", **own)
    s.start("share", "java", **own)
    s.wait(4)
    s.start("produce", topics=[topic], per_second=20, linger_ms=10)
    s.opening()
    s.wait(9, 10)
    s.start("share", "java", **own)
    s.wait(7, 8)
    s.stop(first)
    s.wait(7, 8)


@scenario("controllers-apart", healthy=True, twin_of="controller-killed", settings=APART)
def controllers_apart(s: Scene) -> None:
    """The controller is a process of its own; an operator adds a topic and partitions meanwhile."""
    s.with_controllers = True
    topics = s.background(producers=2, consumers=2)
    s.opening()
    s.wait(10, 12)
    s.background([s.topic(3)], producers=1, consumers=1)
    s.wait(4, 5)
    s.brokers.add_partitions(topics[0], 8)
    s.wait(9, 11)


@scenario("retention-keeps-up", healthy=True, twin_of="retention-too-short", settings=PROMPT_RETENTION)
def retention_keeps_up(s: Scene) -> None:
    """A topic keeps a few seconds of records, and its consumers read them long before."""
    topic = s.topic(1, retention_bytes=SEGMENT, segment_bytes=SEGMENT)
    s.background(producers=1, consumers=1)
    s.start("produce", "librdkafka", topics=[topic], per_second=150, value_bytes=2_500, linger_ms=20)
    s.opening()
    for library in ("java", "librdkafka"):
        s.start("consume", library, topics=[topic], reset="latest")
    s.wait(22, 24)
