"""Causes of the network and of hosts in other forms: one direction, a narrow way, jitter, a host that is off.

No rule was written with these in sight, as with those of `variants`."""

from __future__ import annotations

import itertools
import time

from tests.lab.incidents.paths import blame_path, harmed_host
from tests.lab.incidents.scene import Scene, scenario


@scenario("one-way-cut", twin_of="path-dead", place="hosts")
def one_way_cut(s: Scene) -> None:
    """Lose what a host sends, while everything still arrives at it."""
    host, way = harmed_host(s, "broker", "client")
    s.opening()
    s.wait(10, 13)
    blame_path(s, "path_dead", host, way.set(cut=True, source=s.place.address(host)))
    s.wait(7, 10)
    s.ended(way.set())
    s.wait(9, 11)


@scenario("narrow-way", twin_of="path-slow", place="hosts")
def narrow_way(s: Scene) -> None:
    """A way takes fewer bytes a second than are sent: queues grow, and what is beyond them is lost."""
    host, way = harmed_host(s, "broker", "client")
    topics = s.truth["clients"][0]["topics"]
    s.start("produce", "librdkafka", host=host if host[0] == "c" else "c1", topics=topics, per_second=60,
            value_bytes=1000)  # fmt: skip
    s.opening()
    s.wait(11, 13)
    blame_path(s, "path_slow", host, way.set(rate=60_000), accepted=["path_lossy"])
    s.wait(15, 17)


@scenario("jitter", twin_of="path-slow", place="hosts")
def jitter(s: Scene) -> None:
    """Packets take longer by chance, and overtake each other."""
    host, way = harmed_host(s, "broker", "client")
    s.opening()
    s.wait(11, 13)
    blame_path(s, "path_slow", host, way.set(jitter_s=s.between(0.06, 0.1)), accepted=["path_lossy"])
    s.wait(15, 17)


@scenario("host-down", twin_of="broker-killed", place="hosts")
def host_down(s: Scene) -> None:
    """The machine of a broker loses its power: no connection is closed, and no attempt is refused."""
    broker = s.broker()
    way = s.way_to(broker.host)
    s.background(producers=3, consumers=2)
    s.opening()
    s.wait(10, 13)
    onset = way.set(cut=True)
    broker.kill()
    names = [broker.address, f"broker {broker.number}", broker.ip]
    subject = {"kind": "server", "id": broker.number, "address": broker.address, "name": broker.name}
    s.blame("path_dead", subject, names, onset, accepted=["broker_killed", "broker_frozen"])
    s.wait(15, 17)
    way.set()


@scenario("broker-crash-loop", twin_of="broker-killed")
def broker_crash_loop(s: Scene) -> None:
    """A broker dies some seconds after each start."""
    s.background(producers=3, consumers=2)
    s.opening()
    s.wait(8, 10)
    broker = s.broker()
    s.blame_broker("broker_killed", broker, accepted=["broker_down"])
    for number in range(3):
        broker.kill()
        if number < 2:
            s.wait(1, 2)
            broker.start()
            s.brokers.wait_until_listening(broker)
            s.wait(3, 4)
    s.wait(6, 7)


@scenario("producer-crash-loop", twin_of="connection-storm")
def producer_crash_loop(s: Scene) -> None:
    """A producer dies soon after each start, and is started again each time."""
    topics = s.background(producers=2, consumers=1)
    s.opening()
    s.wait(8, 10)
    library, name, host = s.pick("librdkafka", "franz-go", "sarama"), s.client_id(), s.host()
    onset, end = time.time_ns(), time.monotonic() + s.between(19, 22)
    for number in itertools.count():
        process = s.start("produce", library, host, topics=topics, client_id=name, per_second=10)
        if number == 0:
            s.blame_started("restart_loop", process[0], onset, accepted=["connection_storm"])
        if time.monotonic() > end:
            break
        s.wait(1.8, 2.6)
        s.stop(process, orderly=False)
