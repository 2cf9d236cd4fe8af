"""Harmless operations on a running cluster: a report has to stay quiet."""

from __future__ import annotations

import sys

from tests.lab.incidents.operations import STRICT
from tests.lab.incidents.scene import Scene, scenario
from tests.lab.process import Child


@scenario("health-checks", healthy=True, twin_of="connection-storm")
def health_checks(s: Scene) -> None:
    """A monitor opens and closes connections to the brokers, and sends HTTP now and then."""
    s.background(producers=2, consumers=2)
    module = "tests.lab.incidents.health_check"
    command = [sys.executable, "-m", module, "1.5", *(b.address for b in s.brokers.all)]
    monitor = Child("monitor", [*s.place.command(s.host()), *command], s.folder / "monitor.log").start()
    s.later(monitor.kill)
    s.opening()
    s.wait(24, 26)


@scenario("offsets-reset", healthy=True, twin_of="growing-lag")
def offsets_reset(s: Scene) -> None:
    """A group is stopped, its offsets are set back by an operator, and it reads everything again."""
    topic, group = s.topic(3), s.group()
    s.background(producers=1, consumers=1)
    s.start("produce", topics=[topic], per_second=40, linger_ms=10)
    library = s.pick("librdkafka", "java", "franz-go", "sarama")
    reader = s.start("consume", library, topics=[topic], group=group)
    s.opening(2)
    s.wait(10, 12)
    s.stop(reader)
    s.wait(2, 3)
    s.brokers.reset_offsets(group, topic)
    s.start("consume", library, topics=[topic], group=group, client_id=reader[0].client_id)
    s.wait(11, 13)


@scenario("topic-settings", healthy=True, twin_of="record-too-large")
def topic_settings(s: Scene) -> None:
    """An operator changes settings of topics while clients use them."""
    topics = [s.topic(3), s.topic(6)]
    s.background(topics, producers=3, consumers=2)
    s.opening()
    s.wait(7, 8)
    for change in ({"retention_ms": 3_600_000}, {"max_message_bytes": 500_000}, {"segment_ms": 60_000}):
        for topic in topics:
            s.brokers.configure("topic", topic, **change)
        s.wait(3, 4)
    s.wait(6, 7)


@scenario("rack-readers", settings=STRICT, place="hosts", healthy=True, twin_of="broker-slow")
def rack_readers(s: Scene) -> None:
    """Consumers read from the replica in their own rack, which is a follower mostly (KIP-392)."""
    topics = s.background(producers=3, consumers=0)
    for number, library in enumerate(("librdkafka", "java", "librdkafka"), 1):
        s.start("consume", library, topics=topics, extra={"client.rack": f"rack-{number}"})
    s.opening()
    s.wait(24, 26)


@scenario("patient-producers", healthy=True, twin_of="broker-slow")
def patient_producers(s: Scene) -> None:
    """Producers collect records for a second, or are idempotent with one request under way."""
    topics = s.background(producers=1, consumers=2)
    for library in s.random.sample(("librdkafka", "java", "franz-go", "aiokafka"), 2):
        s.start("produce", library, topics=topics, per_second=20, linger_ms=1000)
    single = {
        "librdkafka": "max.in.flight.requests.per.connection",
        "java": "max.in.flight.requests.per.connection",
    }
    for library, name in single.items():
        s.start("produce", library, topics=topics, per_second=20, idempotent=True, extra={name: 1})
    s.opening()
    s.wait(24, 26)
