"""Incidents of servers: killed, frozen, stopped in order, slow, moved, short of replicas, closing."""

from __future__ import annotations

import time
from functools import partial

from tests.lab.incidents.brokers import Broker
from tests.lab.incidents.first_packet import Mark
from tests.lab.incidents.scene import Scene, scenario


@scenario("broker-killed", twin_of="broker-stopped")
def broker_killed(s: Scene) -> None:
    s.background(producers=3, consumers=2)
    s.opening()
    s.wait(10, 14)
    broker = s.broker()
    s.blame_broker("broker_killed", broker)
    broker.kill()
    s.wait(16, 18)


@scenario("broker-frozen", twin_of="path-dead")
def broker_frozen(s: Scene) -> None:
    s.background(producers=3, consumers=2)
    s.opening()
    s.wait(9, 13)
    broker = s.broker()
    s.blame_broker("broker_frozen", broker, broker.freeze())
    s.later(broker.thaw)
    s.wait(4, 7.5)
    s.ended(broker.thaw())
    s.wait(10, 12)


@scenario("broker-stopped", twin_of="broker-killed")
def broker_stopped(s: Scene) -> None:
    s.background(producers=3, consumers=2)
    s.opening()
    s.wait(9, 13)
    broker = s.broker()
    s.blame_broker("broker_stopped", broker)
    broker.stop()
    s.wait(2, 4)
    broker.start()
    s.ended(s.brokers.wait_until_listening(broker))
    s.wait(10, 12)


@scenario("broker-slow", twin_of="path-slow")
def broker_slow(s: Scene) -> None:
    """The process gets the processor for a part of the time only: all of its clients wait longer."""
    s.background(producers=3, consumers=2)
    s.opening()
    s.wait(11, 14)
    broker = s.broker()
    s.later(broker.thaw)
    s.blame_broker("broker_slow", broker)
    broker.stutter(s.between(0.06, 0.11), s.between(0.01, 0.02), s.between(14, 16))


@scenario("broker-stutters", twin_of="broker-slow")
def broker_stutters(s: Scene) -> None:
    """The process is stopped for most of each second, as one that collects garbage all the time."""
    s.background(producers=3, consumers=2)
    s.opening()
    s.wait(10, 13)
    broker = s.broker()
    s.later(broker.thaw)
    s.blame_broker("broker_slow", broker, accepted=["broker_frozen"])
    broker.stutter(s.between(0.5, 0.7), s.between(0.15, 0.25), s.between(11, 13))


@scenario("leader-election", twin_of="broker-stopped")
def leader_election(s: Scene) -> None:
    """Leadership goes back to preferred replicas, all brokers live."""
    broker = s.broker()
    topics = [s.topic(6), s.topic(3)]
    broker.stop()
    broker.start()
    s.brokers.wait_until_listening(broker)
    s.brokers.ready()
    s.background(topics, producers=3, consumers=2)
    s.opening()
    s.wait(11, 14)
    onset = s.brokers.elect_preferred(*topics)
    subject = {"kind": "server", "id": broker.number, "address": broker.address, "name": broker.name}
    s.blame("leader_election", subject, [broker.address, f"broker {broker.number}", *topics], onset)
    s.wait(12, 14)


@scenario("too-few-in-sync-replicas")
def too_few_in_sync_replicas(s: Scene) -> None:
    """A topic wants three replicas in sync; one broker is stopped in order, and writes are refused."""
    topic = s.topic(3, min_insync_replicas=3)
    s.background(producers=2, consumers=1)
    s.start("produce", s.pick("librdkafka", "java", "sarama"), topics=[topic], per_second=15)
    s.start("produce", s.pick("franz-go", "kafka-python", "aiokafka"), topics=[topic], per_second=8)
    s.start("consume", topics=[topic])
    s.opening()
    s.wait(9, 12)
    broker = s.broker()
    onset = time.time_ns()
    broker.stop()
    subject = {"kind": "topic", "name": topic, "missing": broker.name}
    names = [topic, broker.address, f"broker {broker.number}"]
    s.blame("too_few_in_sync_replicas", subject, names, onset, accepted=["broker_stopped"])
    s.wait(14, 16)


@scenario("follower-behind", twin_of="too-few-in-sync-replicas", place="hosts")
def follower_behind(s: Scene) -> None:
    """One broker cannot fetch from the others fast enough: its link to them is lossy and slow."""
    s.record_at = ""
    broker = s.broker()
    way = s.way_to(broker.host)
    topic = s.topic(3, min_insync_replicas=2)
    s.background(producers=1, consumers=1)
    s.start("produce", s.pick("librdkafka", "franz-go"), topics=[topic], per_second=40, value_bytes=2000)
    s.start("consume", topics=[topic])
    s.opening()
    s.wait(9, 11)
    others = [b for b in s.brokers.all if b is not broker]
    onset = way.set(cut=True, peer=others[0].ip)
    names = [broker.address, f"broker {broker.number}", broker.ip]
    subject = {"kind": "server", "id": broker.number, "address": broker.address, "name": broker.name}
    s.blame("follower_behind", subject, names, onset, accepted=["path_dead"])
    s.wait(17, 19)


def misadvertise(
    s: Scene, broker: Broker, topics: list[str], advertised: str, names: list[str], listener: str = "CLIENT"
) -> None:
    """Restart a broker that advertises another address, and begin to record; `names` tell the culprit."""
    s.later(s.brokers.restart, broker)
    s.brokers.restart(broker, advertised, listener)
    s.brokers.ready()
    s.brokers.elect_preferred(*topics)  # else it leads nothing, and nobody needs it
    s.roll()
    subject = {"kind": "server", "id": broker.number, "name": broker.name, "advertised": advertised}
    s.blame("wrong_advertised_listener", subject, names, s.truth["begin_ns"])


@scenario("wrong-advertised-listener")
def wrong_advertised_listener(s: Scene) -> None:
    """A broker comes back from a restart with an address in its advertised listeners that leads nowhere."""
    broker = s.broker()
    topics = s.background(producers=1, consumers=1)
    wrong = f"{broker.ip}:9999"
    misadvertise(s, broker, topics, wrong, [wrong])
    for library in s.random.sample(
        ("librdkafka", "java", "franz-go", "kafkajs", "sarama", "kafka-python"), 3
    ):
        s.start("produce", library, topics=topics, per_second=10)
    s.start("consume", topics=topics)
    s.wait(26, 28)


@scenario("idle-close", settings=(("connections.max.idle.ms", "6000"),), healthy=True)
def idle_close(s: Scene) -> None:
    """Brokers close connections that were silent for six seconds; clients lose nothing by it."""
    topics = s.background(producers=2, consumers=2)
    for library in s.random.sample(("librdkafka", "franz-go", "sarama", "java"), 3):
        s.start("produce", library, topics=topics, per_second=0.11, linger_ms=0)
    s.opening()
    s.wait(30, 33)


@scenario("connection-limit", twin_of="connection-storm", place="hosts")
def connection_limit(s: Scene) -> None:
    """A broker lets one address have a few connections only; those above are closed at once."""
    topics = s.background(producers=1, consumers=1)
    s.opening()
    s.wait(9, 11)
    host = "c5"
    limits = f"{s.place.address(host)}:3"
    for broker in s.brokers.all:
        name = str(broker.number)
        s.later(partial(s.brokers.configure, "broker", name, max_connections_per_ip_overrides=""))
        s.brokers.configure("broker", name, max_connections_per_ip_overrides=limits)
    s.wait(0.5)
    address = s.place.address(host)
    s.blame("connection_limit", {"kind": "client", "host": address, "name": f"host {address}"}, [address])
    s.shown_by = Mark(opened_from=address)
    for library in s.random.sample(
        ("librdkafka", "java", "franz-go", "sarama", "kafka-python", "aiokafka"), 4
    ):
        s.start("produce", library, host, topics=topics, per_second=8)
    s.wait(17, 19)
