"""Incidents of the network: a host's path dead, slow or lossy, large packets lost, idle connections
forgotten.

The harm is done by a forwarder between one host and the switch, so these need hosts of their own. The
capture is made at the switch, or beside the host, as chance has it."""

from __future__ import annotations

import signal
import time

from tests.lab.incidents.network import Way
from tests.lab.incidents.scene import Scene, scenario


def harmed_host(s: Scene, *kinds: str) -> tuple[str, Way]:
    """Choose a host and put a forwarder on its way; clients are on all client hosts then."""
    host = s.pick("b1", "b2", "b3") if s.pick(*kinds) == "broker" else s.pick("c1", "c2", "c3")
    way = s.way_to(host)
    topics = s.background(producers=2, consumers=1)
    for client_host in ("c1", "c2", "c3"):
        s.start("produce", host=client_host, topics=topics, per_second=s.pick(12, 20))
    s.start(
        "consume",
        s.pick("librdkafka", "franz-go", "java"),
        host=host if host[0] == "c" else "c2",
        topics=topics,
    )
    return host, way


def blame_path(s: Scene, cause: str, host: str, onset: int, **more: object) -> None:
    """Note that the way to a host is to blame."""
    address = s.place.address(host)
    names = [address] + ([f"broker {host[1]}"] if host[0] == "b" else [])
    s.blame(cause, {"kind": "path", "host": address, "name": f"host {address}"}, names, onset, **more)


def way_between_brokers(s: Scene) -> tuple[Way, list[str]]:
    """Put a forwarder on a broker's way, begin to record; return the way, and the ends of a pair on it."""
    broker = s.broker()
    other = s.pick(*(one for one in s.brokers.all if one is not broker))
    way = s.way_to(broker.host)
    s.background(producers=3, consumers=2)
    s.opening()
    s.wait(10, 12)
    return way, [broker.ip, other.ip]


def blame_pair(s: Scene, cause: str, ends: list[str], onset: int, **more: object) -> None:
    """Note that the way between two hosts is to blame."""
    subject = {"kind": "path", "host": ends[0], "peer": ends[1], "name": f"path {ends[0]} to {ends[1]}"}
    s.blame(cause, subject, ends, onset, **more)


@scenario("path-dead", twin_of="broker-frozen", place="hosts")
def path_dead(s: Scene) -> None:
    host, way = harmed_host(s, "broker", "client")
    s.opening()
    s.wait(10, 13)
    blame_path(s, "path_dead", host, way.set(cut=True))
    s.wait(7, 11)
    s.ended(way.set())
    s.wait(9, 11)


@scenario("pair-dead", twin_of="path-dead", place="hosts")
def pair_dead(s: Scene) -> None:
    """Only one client host and one broker cannot reach each other."""
    way = s.way_to("c2")
    topics = s.background(producers=2, consumers=1)
    s.start("produce", "librdkafka", host="c2", topics=topics, per_second=30, timeout_ms=6000)
    s.start("produce", "franz-go", host="c2", topics=topics, per_second=20)
    s.start("produce", host="c1", topics=topics, per_second=20)
    s.opening()
    s.wait(10, 13)
    broker = s.broker()
    onset = way.set(cut=True, peer=broker.ip)
    blame_pair(s, "path_dead", [s.place.address("c2"), broker.ip], onset)
    s.wait(8, 11)
    s.ended(way.set())
    s.wait(8, 10)


@scenario("path-slow", twin_of="broker-slow", place="hosts")
def path_slow(s: Scene) -> None:
    host, way = harmed_host(s, "broker", "client")
    s.opening()
    s.wait(11, 14)
    blame_path(s, "path_slow", host, way.set(delay_s=s.between(0.025, 0.06)))
    s.wait(14, 16)


@scenario("path-lossy", twin_of="path-slow", place="hosts")
def path_lossy(s: Scene) -> None:
    host, way = harmed_host(s, "broker", "client")
    s.opening()
    s.wait(10, 13)
    blame_path(s, "path_lossy", host, way.set(lost=s.between(0.05, 0.1)))
    s.wait(15, 17)


@scenario("large-packets-lost", twin_of="path-lossy", place="hosts")
def large_packets_lost(s: Scene) -> None:
    """Small requests pass, full segments do not: a tunnel on the way takes less than it should."""
    way = s.way_to("c2")
    topics = s.background(producers=2, consumers=1)
    s.start("produce", s.pick("librdkafka", "franz-go", "java"), host="c2", topics=topics, per_second=10)
    s.start("consume", host="c1", topics=topics)
    s.record_at = s.pick("c2", "")
    s.opening()
    s.wait(6, 8)
    way.set(largest=1000)
    big, _ = s.start(
        "produce",
        s.pick("librdkafka", "kafka-python", "sarama"),
        host="c2",
        topics=topics,
        per_second=6,
        value_bytes=3000,
        linger_ms=20,
        timeout_ms=8000,
    )
    address = s.place.address("c2")
    subject = {"kind": "path", "host": address, "name": f"host {address}"}
    s.blame("large_packets_lost", subject, [address, big.client_id], begins_with_loss=True)
    s.wait(20, 22)


@scenario("idle-connection-dropped", twin_of="idle-close", place="hosts")
def idle_connection_dropped(s: Scene) -> None:
    """A box on the way forgets a connection that was silent; the next request on it gets no answer."""
    way = s.way_to("c2")
    topics = s.background(producers=2, consumers=1)
    way.set(idle_s=5)
    quiet, _ = s.start(
        "produce",
        s.pick("librdkafka", "sarama"),
        host="c2",
        topics=topics,
        per_second=0.1,
        timeout_ms=7000,
        linger_ms=0,
    )
    s.record_at = "c2"  # beyond the box nothing shows a request that it dropped
    s.roll()
    address = s.place.address("c2")
    subject = {"kind": "path", "host": address, "name": f"host {address}"}
    names = [address, quiet.client_id]
    s.blame("idle_connection_dropped", subject, names, begins_with_loss=True)
    s.wait(32, 34)


@scenario("slow-reader", twin_of="path-slow")
def slow_reader(s: Scene) -> None:
    """A consumer's process hangs for long spells while answers wait: its window closes."""
    topic = s.topic(partitions=3)
    s.background(producers=1, consumers=1)
    # More in a second than a socket's buffers hold: what waits there must fill them.
    s.start(
        "produce", "librdkafka", topics=[topic], per_second=400, burst=100, value_bytes=1500, linger_ms=20
    )
    slow, child = s.start(
        "consume",
        "librdkafka",
        topics=[topic],
        extra={
            "receive.message.max.bytes": 2_000_000,
            "fetch.message.max.bytes": 400_000,
            "fetch.max.bytes": 400_000,
            "message.max.bytes": 400_000,  # may not be more than the line above
            "socket.receive.buffer.bytes": 8192,
            "queued.min.messages": 100,
        },
    )
    s.roll(settle=10)  # until the consumer reads
    s.wait(8, 10)
    if child.process is None or not child.running:
        raise RuntimeError(f"the consumer has ended: {child.tail(3)}")
    s.later(child.process.send_signal, signal.SIGCONT)
    s.blame_client("slow_reader", slow)
    end = time.monotonic() + s.between(13, 15)
    while time.monotonic() < end:
        child.process.send_signal(signal.SIGSTOP)
        s.wait(0.7, 1.0)
        child.process.send_signal(signal.SIGCONT)
        s.wait(0.004, 0.008)  # too short to take all that waits
